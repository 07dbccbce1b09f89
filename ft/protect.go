package ft

import (
	"context"
	"time"

	"github.com/burst-hpc/burst/ft/session"
)

// blessings is what the store knows of a job's past.
type blessings interface {
	// Attempts counts the attempts after the given one that were evicted, since the last
	// one for which the job was held; of one that is being evicted once too.
	Attempts(ctx context.Context, job uint32, after int) (int, error)
	// BlessedOf are the generations of the job's steps that count, at most one each.
	BlessedOf(ctx context.Context, job uint32) ([]session.Blessed, error)
	// AnswersOf are what the attempt's steps have answered to its last request.
	AnswersOf(ctx context.Context, job uint32, attempt int) (map[string]session.Answer, error)
}

// hubSessions are the sessions of a hub.
type hubSessions struct {
	hub *session.Hub
	blessings
}

// SessionsOf are the sessions of a hub that has been loaded, with what of each
// step's work is safe by the store.
func SessionsOf(hub *session.Hub, s blessings) Sessions { return hubSessions{hub, s} }

func (h hubSessions) Ask(ctx context.Context, o session.Order) (Asked, error) {
	return h.hub.Ask(ctx, o)
}

func (h hubSessions) Answers(ctx context.Context, job uint32, attempt int) (map[string]session.Answer, bool, error) {
	all, err := h.AnswersOf(ctx, job, attempt)
	whole := len(all) > 0
	for _, s := range h.hub.Sessions(job, attempt) {
		_, ok := all[s.Step]
		whole = whole && ok
	}
	return all, whole, err
}

// firstNeed is kept for the first checkpoint of a step before planned work.
const firstNeed = 5 * time.Minute

func (h hubSessions) Protection(ctx context.Context, job uint32, attempt int) (Protection, bool, error) {
	p := Protection{SavedIteration: -1, Iteration: -1}
	steps := h.hub.Sessions(job, attempt)
	if len(steps) == 0 {
		return p, false, nil
	}
	all, err := h.BlessedOf(ctx, job)
	if err != nil {
		return Protection{}, false, err
	}
	blessed := map[string]session.Blessed{}
	for _, b := range all {
		blessed[b.Step] = b
	}
	unsaved := false
	p.Open = len(steps)
	for i, s := range steps {
		if p.Slowest = max(p.Slowest, s.Cost); s.Cost == 0 {
			unsaved = true
		}
		need := 2 * s.Cost // many may write at once
		if need == 0 {
			need = firstNeed
		}
		p.Need = max(p.Need, need)
		if s.Strategy == "preemptive" || s.Strategy == "both" {
			if !p.OnNotice || (s.Cost < p.Cost) != s.Together { // of parts all must fit
				p.Cost = s.Cost
			}
			p.OnNotice = true
		}
		b := blessed[s.Step]
		p.Together = p.Together || s.Together
		p.Retries = max(p.Retries, s.Retries)
		saved, count := time.Time{}, int64(-1)
		if b.Answer.Generation != "" {
			saved, count = b.At.Add(-b.Answer.Took), b.Answer.Iteration
		}
		if i == 0 || saved.Before(p.Saved) {
			p.Saved, p.SavedIteration, p.Iteration = saved, count, s.Progress.Iteration
		}
	}
	if unsaved {
		p.Slowest = 0
	}
	return p, true, nil
}

func (h hubSessions) Fruitless(ctx context.Context, job uint32, attempt int) (int, error) {
	all, err := h.BlessedOf(ctx, job)
	if err != nil {
		return 0, err
	}
	last := -1 // attempt that made a generation, of whatever step
	made := map[string]int{}
	for _, b := range all {
		last, made[b.Step] = max(last, b.Attempt), b.Attempt
	}
	for _, s := range h.hub.Sessions(job, attempt) {
		before, ok := made[s.Step]
		switch {
		case s.Together && !ok:
			last = -1
		case s.Together: // what one has made alone is worth nothing
			last = min(last, before)
		}
	}
	return h.Attempts(ctx, job, last)
}
