package session

import (
	"context"
	"sync"
	"time"
)

// nearing is a context whose deadline may come nearer.
type nearing struct {
	context.Context
	end context.CancelCauseFunc

	mu    sync.Mutex
	by    time.Time
	timer *time.Timer // nil: by is the Context's
}

func newNearing(ctx context.Context, by time.Time) *nearing {
	limit, stop := context.WithDeadlineCause(ctx, by, ErrLate)
	n := &nearing{by: by}
	var cancel context.CancelCauseFunc
	n.Context, cancel = context.WithCancelCause(limit)
	n.end = func(why error) { cancel(why); stop() }
	return n
}

// Deadline implements context.Context.
func (n *nearing) Deadline() (time.Time, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.by, true
}

// nearer has the context end by then, if that is before its deadline.
func (n *nearing) nearer(by time.Time) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !by.Before(n.by) {
		return
	}
	n.by = by
	if n.timer != nil {
		n.timer.Stop()
	}
	n.timer = time.AfterFunc(time.Until(by), func() { n.end(ErrLate) })
}

// cancel ends the context, and frees what it holds.
func (n *nearing) cancel(why error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.timer != nil {
		n.timer.Stop()
	}
	n.end(why)
}
