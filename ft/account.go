package ft

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/burst-hpc/burst/cloud"
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
	all := &request{by: e.By, rebalance: e.Kind == cloud.Rebalance, done: closed, answers: answers}
	if r != nil {
		all.by, all.rebalance, all.order = r.by, r.rebalance, r.order
	}
	if !whole {
		all.err = session.ErrLate
	}
	return all
}

// account notes in e what the attempt has lost, and says what of it was saved.
func (g *Guard) account(ctx context.Context, n *Notice, e *Eviction, r *request) {
	if e.Ask == "" || e.Lost >= 0 { // or it was requeued before, and Slurm has forgotten it
		return
	}
	r = g.told(ctx, e, r)
	if r.saved() {
		e.Lost, e.LostIterations = 0, 0
		e.Outcome = join(e.Outcome, madeText(r.answers))
		return
	}
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
	e.Hold = p.Fruitless > p.Retries
	e.Outcome = join(e.Outcome, g.lost(n, e, p, why))
	if e.Hold {
		e.Outcome = join(e.Outcome, fmt.Sprintf("it was evicted %d times without a new checkpoint (retries=%d) and is held: \"scontrol release %d\" lets it start",
			p.Fruitless, p.Retries, e.Job))
	}
}

// lost notes in e the work after the last checkpoint, and says so; empty: it is not known.
func (g *Guard) lost(n *Notice, e *Eviction, p Protection, why string) string {
	from, since := "its beginning", e.Started
	if p.Saved.After(since) {
		from, since = "its last checkpoint", p.Saved
	}
	if since.IsZero() {
		return ""
	}
	end := time.Now()
	if at := g.deadline(n); !at.IsZero() && at.Before(end) {
		end = at // burstd was away
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
