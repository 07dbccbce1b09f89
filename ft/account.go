package ft

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/burst-hpc/burst/ft/session"
)

// told is the request with what the journal has of its answers, if not all have come
// to it: they may have been given to an earlier life of burstd, or after the time.
func (g *Guard) told(ctx context.Context, e *Eviction, r *request) *request {
	if r != nil && r.over() && r.err == nil {
		return r
	}
	answers, whole, err := g.cfg.Sessions.Answers(ctx, e.Job, e.Restarts)
	if err != nil {
		g.log.Warn("what a job's steps have answered is not known", "job", e.Job, "error", err)
	}
	if err != nil || len(answers) == 0 {
		return r
	}
	all := &request{by: e.By, rebalance: mild(e.Kind), done: closed, answers: answers}
	if r != nil {
		all.by, all.rebalance, all.order = r.by, r.rebalance, r.order
	}
	if !whole {
		all.err = session.ErrLate
	}
	return all
}

// account notes in e what the attempt has lost, says what of it was saved, and whether
// the job may be evicted so once more.
func (g *Guard) account(ctx context.Context, n *Notice, e *Eviction, r *request) {
	if e.Lost >= 0 || e.Hold { // it was requeued before, and Slurm has forgotten it
		return
	}
	if e.Ask != "" {
		if r = g.told(ctx, e, r); r.saved() {
			e.Lost = 0
			if counts(r.answers) {
				e.LostIterations = 0
			}
			e.Outcome = join(e.Outcome, madeText(r.answers))
			return
		}
		g.unsaved(ctx, n, e, r)
	}
	g.bound(ctx, e)
}

// counts says that the application tells its iterations.
func counts(answers map[string]session.Answer) bool {
	for _, a := range answers {
		if a.Iteration >= 0 {
			return true
		}
	}
	return false
}

// unsaved notes in e what an attempt has lost that did not save its work.
func (g *Guard) unsaved(ctx context.Context, n *Notice, e *Eviction, r *request) {
	why := unsavedText(r)
	if e.Ask == session.Leave {
		why = "no checkpoint was asked for"
	}
	p, ok, err := g.cfg.Sessions.Protection(ctx, e.Job, e.Restarts)
	if err != nil {
		g.log.Warn("what a job has lost is not known", "job", e.Job, "error", err)
	}
	if err != nil || !ok { // or its steps have ended by themselves
		return
	}
	if p.Together && len(r.made()) > 0 {
		why += "; what the job's other steps have saved is worth nothing without it"
	}
	e.Retries = p.Retries // it may have got its session since
	end := time.Now()
	if at := g.deadline(n); !at.IsZero() && at.Before(end) {
		end = at // burstd was away
	}
	e.Outcome = join(e.Outcome, e.lose(p, end, why))
}

// bound has the job held that was evicted too often without a new checkpoint.
func (g *Guard) bound(ctx context.Context, e *Eviction) {
	if g.cfg.Sessions == nil || e.Retries < 0 || e.Hold {
		return
	}
	n, err := g.cfg.Sessions.Fruitless(ctx, e.Job, e.Restarts)
	if err != nil {
		g.log.Warn("how often a job was evicted is not known", "job", e.Job, "error", err)
		return
	}
	if e.Hold = n > e.Retries; e.Hold {
		e.Outcome = join(e.Outcome, fmt.Sprintf("it was evicted %d times without a new checkpoint (retries=%d) and is held: \"scontrol release %d\" lets it start",
			n, e.Retries, e.Job))
	}
}

// lose notes in e the work after the last checkpoint, of an attempt that ended so, and
// says so; empty: it is not known.
func (e *Eviction) lose(p Protection, end time.Time, why string) string {
	from, since := "its beginning", e.Started
	if p.Saved.After(since) {
		from, since = "its last checkpoint", p.Saved
	}
	if since.IsZero() {
		return ""
	}
	e.Lost = max(0, end.Sub(since))
	iterations := ""
	if p.Iteration >= 0 && p.SavedIteration >= 0 {
		e.LostIterations = max(0, p.Iteration-p.SavedIteration)
		iterations = fmt.Sprintf(" (%d iterations)", e.LostIterations)
	}
	return fmt.Sprintf("%s: it goes on from %s, %s ago%s", why, from, e.Lost.Round(time.Second), iterations)
}

func join(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + "; " + b
}

// made are the steps that have made a generation by this request.
func (r *request) made() (steps []string) {
	if r == nil || !r.over() {
		return nil
	}
	for step, a := range r.answers {
		if a.Generation != "" {
			steps = append(steps, step)
		}
	}
	return steps
}

// madeText says what was saved: of several steps the sum of the sizes and the longest time.
func madeText(answers map[string]session.Answer) string {
	var bytes int64
	var took time.Duration
	for _, a := range answers {
		bytes, took = bytes+a.Bytes, max(took, a.Took)
	}
	steps := ""
	if len(answers) > 1 {
		steps = fmt.Sprintf(" of %d steps", len(answers))
	}
	return fmt.Sprintf("checkpoint%s of %.1f MB in %s", steps, float64(bytes)/1e6, took.Round(10*time.Millisecond))
}

// unsavedText says why steps have not saved their work.
func unsavedText(r *request) string {
	switch {
	case r == nil: // burstd was away
		return "no answer of the steps has reached burstd"
	case !r.over():
		return "the steps did not answer in time"
	}
	var all []string
	for step, a := range r.answers {
		if a.Error != "" {
			all = append(all, fmt.Sprintf("step %s: %s", step, a.Error))
		}
	}
	slices.Sort(all)
	switch {
	case len(all) > 0:
		return all[0] // the others' are in burstd's log and their own output
	case r.err != nil:
		return r.err.Error()
	}
	return "a step ended without a checkpoint"
}
