package ft

import (
	"context"
	"time"

	"github.com/burst-hpc/burst/ft/session"
)

// attemptKey names one run of a job.
type attemptKey struct {
	job      uint32
	restarts int
}

// attempt is one run of a job that has to move. Several notices may mean it,
// one for each of its nodes; each has an eviction of its own in the journal, but
// the job is asked, signalled, requeued and released once.
type attempt struct {
	turn  chan struct{} // held while one of them does something to the job
	users int           // evictions that are not closed

	asked     bool   // signal, grace and wrong are known
	signal    string // as in Eviction
	grace     time.Duration
	wrong     string       // with its directive; empty: nothing
	ask       session.Kind // as in Eviction
	retries   int          // as in Eviction
	by        time.Time    // until when the steps have been asked; zero: not yet
	urgent    bool         // the journal has an eviction of it that is no rebalance's, and not closed
	request   *request     // of this life of burstd; nil: not yet
	signalled time.Time    // when the signal was sent, or the steps asked; zero: not yet
	requeued  bool
	released  bool
	anew      bool // its hold is cleared for the second time, and not for a third
	hold      bool // as in Eviction: of one of them, of all
	held      bool
}

// join counts an eviction among those that mean its attempt, until leave.
func (g *Guard) join(e *Eviction) {
	g.mu.Lock()
	defer g.mu.Unlock()
	key := attemptKey{e.Job, e.Restarts}
	a := g.attempts[key]
	if a == nil {
		a = &attempt{turn: make(chan struct{}, 1)}
		g.attempts[key] = a
	}
	a.users++
	if e.Stage == "" { // else it is read from the journal, before any of them acts
		return
	}
	a.recall(e)
	mild := mild(e.Kind)
	if !mild && e.Stage != Done && !a.urgent {
		a.urgent, a.by = true, time.Time{} // a rebalance's time is nothing to go by
	}
	if (e.Signal != "" || e.Ask != "") && (e.Stage == Signalled || e.Stage == Requeued) {
		a.signalled = e.SignalledAt
		if e.Ask != "" && !(mild && a.urgent) && (a.by.IsZero() || e.By.Before(a.by)) {
			a.by = e.By
		}
	}
}

// joinAll has attempts know all evictions that the journal has of them, before the
// first of these acts.
func (g *Guard) joinAll(st State) {
	open := map[noticeKey]bool{}
	for _, n := range st.Notices {
		open[noticeKey{n.Instance, n.Kind}] = true
	}
	for i := range st.Evictions {
		if e := &st.Evictions[i]; open[noticeKey{e.Instance, e.Kind}] {
			g.join(e)
		}
	}
	for i := range st.Evictions {
		e := &st.Evictions[i]
		if a := g.attempts[attemptKey{e.Job, e.Restarts}]; a != nil {
			a.recall(e)
		}
	}
}

// recall has the attempt know what one of its evictions, which may be closed, has
// come to: none of the others does it again.
func (a *attempt) recall(e *Eviction) {
	a.hold, a.held = a.hold || e.Hold, a.held || e.Held
	if e.Ending == Moved {
		a.requeued, a.released = true, true
	}
}

func (g *Guard) leave(e *Eviction) {
	g.mu.Lock()
	defer g.mu.Unlock()
	key := attemptKey{e.Job, e.Restarts}
	if a := g.attempts[key]; a != nil {
		if a.users--; a.users == 0 {
			delete(g.attempts, key)
		}
	}
}

// hold waits until nobody else does anything to the eviction's job.
func (g *Guard) hold(ctx context.Context, e *Eviction) (a *attempt, release func(), err error) {
	g.mu.Lock()
	a = g.attempts[attemptKey{e.Job, e.Restarts}]
	g.mu.Unlock()
	select {
	case a.turn <- struct{}{}:
		return a, func() { <-a.turn }, nil
	case <-ctx.Done():
		return nil, nil, ctx.Err()
	}
}
