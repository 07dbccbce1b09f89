package ft

import (
	"context"
	"time"

	"github.com/burst-hpc/burst/ft/session"
)

// blessings is what the store knows of a job's past.
type blessings interface {
	// Attempts counts the attempts after the given one that were evicted.
	Attempts(ctx context.Context, job uint32, after int) (int, error)
	// Blessed is the step's generation that counts; zero: it has none.
	Blessed(ctx context.Context, job uint32, step string) (session.Blessed, error)
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

func (h hubSessions) Protection(ctx context.Context, job uint32, attempt int) (Protection, bool, error) {
	p := Protection{OnNotice: true, SavedIteration: -1, Iteration: -1}
	steps := h.hub.Sessions(job, attempt)
	last := -1 // attempt that made a generation
	for i, s := range steps {
		p.OnNotice = p.OnNotice && (s.Strategy == "preemptive" || s.Strategy == "both")
		p.Cost = max(p.Cost, s.Cost)
		b, err := h.Blessed(ctx, job, s.Step)
		if err != nil {
			return Protection{}, false, err
		}
		p.Retries = max(p.Retries, s.Retries)
		saved, count := time.Time{}, int64(-1)
		if b.Answer.Generation != "" {
			last = max(last, b.Attempt)
			saved, count = b.At.Add(-b.Answer.Took), b.Answer.Iteration
		}
		if i == 0 || saved.Before(p.Saved) {
			p.Saved, p.SavedIteration, p.Iteration = saved, count, s.Progress.Iteration
		}
	}
	if len(steps) == 0 {
		return p, false, nil
	}
	var err error
	p.Fruitless, err = h.Attempts(ctx, job, last)
	return p, true, err
}
