package session

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"
)

// Seen is an open session and when it asked last.
type Seen struct {
	Session
	Progress Progress
	At       time.Time // of a lost one, when the journal was taken up
	Lost     bool
	Waits    bool // a question of it waits for an answer
}

// Sessions lists the open sessions of an attempt, by step; none: the job has no
// burst-srun. One that has not spoken since burstd was started is Lost.
func (h *Hub) Sessions(job uint32, attempt int) []Seen {
	h.mu.Lock()
	defer h.mu.Unlock()
	var all []Seen
	if a := h.attempts[attemptID{job, attempt}]; a != nil {
		for _, s := range a.steps {
			all = append(all, s.look())
		}
	}
	slices.SortFunc(all, bySteps)
	return all
}

// Oldest lists at most so many of all open sessions, those first that have the most to
// lose: without a checkpoint, and then with the oldest.
func (h *Hub) Oldest(most int) []Seen {
	h.mu.Lock()
	var all []Seen
	for _, a := range h.attempts {
		for _, s := range a.steps {
			all = append(all, s.look())
		}
	}
	h.mu.Unlock()
	slices.SortFunc(all, func(a, b Seen) int {
		return cmp.Or(cmp.Compare(min(a.Progress.Generation, 1), min(b.Progress.Generation, 1)), cmp.Compare(b.Progress.Since, a.Progress.Since),
			cmp.Compare(a.Job, b.Job), cmp.Compare(a.Step, b.Step))
	})
	return all[:min(most, len(all))]
}

// look is how the session is now. The lock is held.
func (s *session) look() Seen {
	p := s.progress
	if p.Generation > 0 {
		p.Since += time.Since(s.told)
	}
	return Seen{s.Session, p, s.seen, s.lost, s.poll != nil}
}

func bySteps(a, b Seen) int {
	if a.Step < b.Step {
		return -1
	}
	return 1
}

// Load takes up the sessions that the journal has open. It is called once, before
// anything is asked or opened: a step that has not spoken since burstd was
// started is waited for like one that has.
func (h *Hub) Load(ctx context.Context) error {
	all, err := h.journal.OpenSessions(ctx)
	if err != nil {
		return fmt.Errorf("reading the sessions of burst-sruns: %w", err)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, s := range all {
		if s.Attempt < h.newest[s.Job] {
			continue
		}
		a := h.attempt(attemptID{s.Job, s.Attempt})
		h.enter(a, s.UID, s.Hello)
		a.steps[s.Step].lost, a.steps[s.Step].unheard = true, true
		h.unheard++
	}
	h.loaded = time.Now()
	return nil
}

// Count is how many sessions are open, and how many jobs have a request that
// is not answered.
func (h *Hub) Count() (sessions, asked int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for o := range h.asked {
		if !o.over {
			asked++
		}
	}
	return h.sessions, asked
}

// Run ends orders whose time is over, and forgets sessions that have been
// silent for long, until ctx ends.
func (h *Hub) Run(ctx context.Context) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	var gone []End
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			gone = h.shut(ctx, append(gone, h.forget(now)...))
		}
	}
}

// shut writes down as closed what was forgotten, and returns what it has not yet. A
// client that was silent opens its session again by the same token: what is open by
// now stays so, and none is opened before the rest is written.
func (h *Hub) shut(ctx context.Context, gone []End) (rest []End) {
	if len(gone) == 0 {
		return nil
	}
	var closed []End
	h.mu.Lock()
	for _, e := range gone {
		a := h.attempts[attemptID{e.Job, e.Attempt}]
		switch {
		case h.entering[e.Key] > 0:
			rest = append(rest, e) // the next time it shows whether it is open
		case a == nil || a.steps[e.Step] == nil || a.steps[e.Step].Token != e.Token:
			closed = append(closed, e)
		}
	}
	done := make(chan struct{})
	h.shutting = done
	h.mu.Unlock()
	defer func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.shutting = nil
		close(done)
	}()
	if len(closed) == 0 {
		return rest
	}
	if err := h.journal.CommitSession(ctx, Change{Closed: closed}); err != nil {
		if ctx.Err() == nil {
			h.log.Warn("sessions that are silent are not written down as closed; it will be tried again", "sessions", len(closed), "error", err)
		}
		return append(rest, closed...)
	}
	return rest
}

// back is how long after burstd was started a burst-srun that is there has opened its
// session again, at the latest: a question that hangs, a pause, and the opening.
const back = Poll + pollSlack + mostPause + callTimeout

// forget drops what is over, and returns the sessions dropped. While a step is
// asked for something it is not given up: the caller does that, by the time. But one
// that ended while burstd was away, so that nobody was told, is not waited for when
// others of its attempt have long come back.
func (h *Hub) forget(now time.Time) (gone []End) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, a := range h.attempts {
		before := len(gone)
		if a.order != nil && !a.order.Request.By.After(now) {
			a.order.end(ErrLate)
		}
		asked := a.order != nil && !a.order.over
		for _, s := range a.steps {
			silent := now.Sub(s.seen)
			if s.poll == nil && (!asked && silent >= h.cfg.Silent || s.lost && a.spoke && silent >= back) {
				gone = append(gone, End{Key: s.Key, Token: s.Token})
				h.leave(a, s)
			}
		}
		if len(gone) > before {
			h.settle(a)
		}
		h.tidy(a)
	}
	h.turns()
	return gone
}
