package ft

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/burst-hpc/burst/ft/ckpt"
	"github.com/burst-hpc/burst/ft/session"
	"github.com/burst-hpc/burst/slurm"
)

// Sessions is burstd's end of the sessions with burst-srun.
type Sessions interface {
	// Protection is what the attempt's steps have said of themselves; false: it has
	// no session that is open, or was when burstd was stopped.
	Protection(ctx context.Context, job uint32, attempt int) (Protection, bool, error)
	// Fruitless is how many attempts of the job, the one that is being evicted included,
	// were evicted since one has made a generation, or the job was held for it; of steps
	// that are checkpointed together, since each has.
	Fruitless(ctx context.Context, job uint32, attempt int) (int, error)
	// Ask has all steps of an attempt do something, as session.Hub does.
	Ask(ctx context.Context, o session.Order) (Asked, error)
	// Answers are what the attempt's steps have answered to its last request, as the
	// journal has it; whole: no step of it is open that has not.
	Answers(ctx context.Context, job uint32, attempt int) (answers map[string]session.Answer, whole bool, err error)
}

// Asked is a request to steps that is under way, as session.Asked is.
type Asked interface {
	Wait(ctx context.Context) (map[string]session.Answer, error)
}

// Protection is how far an attempt's work is safe.
type Protection struct {
	OnNotice bool          // some of its steps checkpoint on a notice
	Cost     time.Duration // the least of these steps' last checkpoints, and of those that are made together the longest; 0: one has made none yet
	Need     time.Duration // that all of its steps want for a checkpoint where time is no matter
	Saved    time.Time     // when the oldest of the steps' last good generations was begun; zero: a step has none
	Retries  int           // attempts in a row that may be evicted without a generation
	// Together: what a step has saved is worth nothing without what the others have, by
	// the same request.
	Together bool
	// Open is how many steps are, and Slowest the longest of their last checkpoints; 0: one has made none yet.
	Open    int
	Slowest time.Duration
	// Iterations that the application counts: of that generation, and now; -1: not known.
	SavedIteration, Iteration int64
}

// closed is of requests that are not made any more.
var closed = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// request is what an attempt's steps have been asked, and what came of it.
type request struct {
	order     session.Order // zero: it is known from its answers, or was too late to be asked
	by        time.Time
	rebalance bool          // alone has asked it
	done      chan struct{} // closed when the rest is known
	answers   map[string]session.Answer
	err       error
}

// over says whether all that can come of the request has.
func (r *request) over() bool {
	select {
	case <-r.done:
		return true
	default:
		return false
	}
}

// stopped says that the steps are at their end, each with what it could save.
func (r *request) stopped() bool {
	if r == nil || !r.over() || r.err != nil || len(r.answers) == 0 {
		return false
	}
	for _, a := range r.answers {
		if !a.Stopped {
			return false
		}
	}
	return true
}

// saved says that every step has made a generation by this request.
func (r *request) saved() bool {
	if r == nil || !r.over() || len(r.answers) == 0 || r.err != nil {
		return false
	}
	for _, a := range r.answers {
		if a.Generation == "" {
			return false
		}
	}
	return true
}

// way chooses what the attempt's steps are asked; empty: they have no session. And how
// often in a row their job may be evicted; -1: they do not say.
func (g *Guard) way(ctx context.Context, n *Notice, j slurm.Job) (_ session.Kind, retries int, err error) {
	if g.cfg.Sessions == nil {
		return "", -1, nil
	}
	p, ok, err := g.cfg.Sessions.Protection(ctx, j.ID, j.Restarts)
	switch {
	case err != nil || !ok:
		return "", -1, err
	case !movable(j):
		return session.Checkpoint, p.Retries, nil // and goes on while it can
	case n.Kind == Spent && (p.Open > 1 && p.Slowest == 0 || !g.fits(n, p.Slowest)):
		return "", p.Retries, nil // one step that saves would doom those that cannot
	case mild(n.Kind) && g.fits(n, p.Cost): // nothing hurries
		return session.Stop, p.Retries, nil
	case mild(n.Kind):
		return "", p.Retries, nil
	case p.OnNotice && g.fits(n, p.Cost):
		return session.Stop, p.Retries, nil
	}
	return session.Leave, p.Retries, nil
}

// fits says whether a checkpoint may be done in time. KillWait is not taken off
// that, nor a margin: a step that has checkpointed ends itself, and one that is too
// late has lost nothing by trying.
func (g *Guard) fits(n *Notice, cost time.Duration) bool {
	return ckpt.Fits(cost, time.Until(g.by(n, time.Now())))
}

// noDeadline is what steps are given when the notice says no time.
const noDeadline = 15 * time.Minute

// by is when the steps must have ended, of an eviction that began so.
func (g *Guard) by(n *Notice, began time.Time) time.Time {
	if at := g.deadline(n); !at.IsZero() {
		return at.Add(-g.cfg.Margin)
	}
	return began.Add(noDeadline)
}

// request asks the attempt's steps, once; again if the time has become shorter;
// and after a restart, when it is taken for the same, since its time is in the
// journal. The attempt is held.
func (g *Guard) request(ctx context.Context, n *Notice, e *Eviction, a *attempt) error {
	if by := g.by(n, e.Began); by.Before(e.By.Add(-time.Second)) {
		next := *e
		next.By = by
		if err := g.put(ctx, e, next); err != nil {
			return err
		}
	}
	if a.request == nil && !e.SignalledAt.IsZero() { // by an earlier life
		if r := g.told(ctx, e, nil); r.stopped() {
			a.request = r
		}
	}
	mild := mild(n.Kind)
	r := a.request
	// What a rebalance asks waits for all others, and its time is nothing to go by.
	above := r != nil && r.rebalance && !mild
	by := e.By
	if !a.by.IsZero() && !above && (mild && a.urgent || a.by.Before(by)) {
		by = a.by
	}
	switch {
	case r.stopped(): // to ask again would be to forget their answers
		return nil
	case r != nil && !above && (mild && !r.rebalance || !by.Before(r.by)):
		return nil
	case !by.After(time.Now()): // the hub takes none that is late
		if r == nil {
			a.request = &request{by: by, rebalance: mild, done: closed, err: session.ErrLate}
		}
		return nil
	}
	return g.order(ctx, a, &request{by: by, rebalance: mild, order: session.Order{Job: e.Job, Attempt: e.Restarts, Calm: mild && !a.urgent, Request: session.Request{
		ID: fmt.Sprintf("%d.%d.%s.%d", e.Job, e.Restarts, e.Ask, by.UnixMilli()), Kind: e.Ask, By: by,
		Why: e.why()}}})
}

// order makes r what the attempt's steps are asked. The attempt is held.
func (g *Guard) order(ctx context.Context, a *attempt, r *request) error {
	o := r.order
	asked, err := g.cfg.Sessions.Ask(ctx, o)
	if err != nil {
		return fmt.Errorf("asking the steps of job %d to %s: %w", o.Job, o.Request.Kind, err)
	}
	r.done = make(chan struct{})
	a.request, a.by = r, r.by
	g.run.Go(func() {
		defer close(r.done)
		r.answers, r.err = asked.Wait(ctx)
	})
	return nil
}

// answered says whether the job's steps need no more time: they have ended for
// this, or cannot save anything any more. Those that ended by themselves leave
// the rest of the time to their script.
func (g *Guard) answered(ctx context.Context, n *Notice, e *Eviction) (bool, error) {
	a, release, err := g.hold(ctx, e)
	if err != nil {
		return false, err
	}
	defer release()
	if err := g.request(ctx, n, e, a); err != nil {
		return false, err
	}
	r := a.request
	if r.over() && (errors.Is(r.err, session.ErrEnded) || errors.Is(r.err, session.ErrLate)) {
		// The script's next step may have been asked since, and have answered.
		all := g.told(ctx, e, r)
		switch {
		case all.stopped():
			a.request = all
		case errors.Is(r.err, session.ErrEnded) && time.Now().Before(r.by):
			return false, g.order(ctx, a, &request{by: r.by, rebalance: r.rebalance, order: r.order})
		}
		r = all
	}
	if mild(n.Kind) && r.rebalance && !r.stopped() {
		return g.stays(ctx, e, r)
	}
	by := r.by
	if !mild(n.Kind) && e.By.Before(by) { // when that came, it was over already
		by = e.By
	}
	return r.stopped() || !time.Now().Before(by), ctx.Err()
}

// stays closes the eviction of a job that need not go and could not checkpoint; it
// runs on. But once a step has ended for it the job must be requeued.
func (g *Guard) stays(ctx context.Context, e *Eviction, r *request) (requeue bool, err error) {
	switch {
	case !r.over():
		return false, ctx.Err()
	case slices.ContainsFunc(slices.Collect(maps.Values(r.answers)), func(a session.Answer) bool { return a.Stopped }):
		return true, nil
	}
	p, ok, err := g.cfg.Sessions.Protection(ctx, e.Job, e.Restarts)
	if err != nil {
		return false, err
	}
	switch late := ok && errors.Is(r.err, session.ErrLate); { // one has not answered that is there
	case late && time.Now().Before(r.by.Add(session.WaitTime)):
		return false, ctx.Err()
	case late && p.Saved.After(e.SignalledAt):
		return true, nil
	}
	if err := g.unask(ctx, e); err != nil {
		return false, err
	}
	why := unsavedText(r)
	if !ok && len(r.answers) == 0 {
		why = session.ErrEnded.Error()
	}
	if e.Kind == Spent {
		g.comment(ctx, e, "the budget is spent; this job could not be checkpointed, and goes on to its end: "+why)
	}
	return true, g.close(ctx, e, "left where it is: "+why)
}

// unask takes back what the job's steps were asked: else the script's next one would be told to stop, for nobody to
// requeue it.
func (g *Guard) unask(ctx context.Context, e *Eviction) error {
	off := session.Request{ID: fmt.Sprintf("%d.%d.%s.%d", e.Job, e.Restarts, session.Cancel, e.By.UnixMilli()), Kind: session.Cancel,
		By: time.Now().Add(noDeadline), Why: "the job stays where it is"}
	_, err := g.cfg.Sessions.Ask(ctx, session.Order{Job: e.Job, Attempt: e.Restarts, Request: off})
	return err
}
