package ft

import (
	"context"
	"time"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/ft/notice"
)

// Hear makes a notice durable and has it acted upon. Nil says that it need not
// be given again; calls that come together are made durable together. It may
// be called at any time: what is heard while Run does not run waits for it.
func (g *Guard) Hear(ctx context.Context, provider string, n cloud.Notice) error {
	if n.Kind == cloud.StateChange {
		if g.cfg.Ask != nil {
			g.cfg.Ask(n.Instance)
		}
		return nil
	}
	if n.Instance == "" || n.Kind != cloud.SpotInterruption && n.Kind != cloud.Rebalance && n.Kind != cloud.Maintenance && n.Kind != Spent {
		g.log.Warn("a notice of no known kind, or for no instance, is dropped", "provider", provider, "instance", n.Instance, "kind", n.Kind, "source", n.Source)
		return nil
	}
	if n.Received.IsZero() {
		n.Received = time.Now()
	}
	n = notice.Sane(n)
	fresh, err := g.journal.AddNotice(ctx, provider, n)
	if err != nil || !fresh {
		return err
	}
	life, err := g.lifetime(ctx) // the caller's context may end with its call; what follows goes on
	if err != nil {
		return err
	}
	if life == nil || life.Err() != nil {
		return nil
	}
	if n.Kind == cloud.Maintenance {
		// Of several events another may be the next: what all of them come to is the
		// journal's. Read and begun one by one, none is overtaken by an older one.
		g.hearing.Lock()
		defer g.hearing.Unlock()
		all, err := g.journal.NoticeOf(ctx, n.Instance, n.Kind)
		if err != nil || all.Instance == "" { // forgotten already: it was for no node of ours
			return err
		}
		n = all.Notice
	}
	g.start(life, Notice{Notice: n, Provider: provider, Stage: Heard}, nil)
	return nil
}

// lifetime is Run's context; nil: what is in the journal by now waits for Run.
func (g *Guard) lifetime(ctx context.Context) (context.Context, error) {
	g.mu.Lock()
	loading := g.loading
	g.mu.Unlock()
	if loading != nil {
		select {
		case <-loading:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.life, nil
}

// closing says that what is heard of the notice from now on may open it again.
func (g *Guard) closing(n *Notice) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.active[noticeKey{n.Instance, n.Kind}].late = false
}

// more is what a notice that was closed has to begin anew with; false: it is
// acted upon no longer.
func (g *Guard) more(ctx context.Context, n *Notice) (next cloud.Notice, more bool) {
	key := noticeKey{n.Instance, n.Kind}
	for {
		g.mu.Lock()
		now := g.active[key]
		next, more = now.Notice, now.Cancelled != n.Cancelled // while it was being closed: the journal has it open
		done := ctx.Err() != nil || !more && !now.late
		if done {
			if delete(g.active, key); len(g.active) == 0 {
				g.index.forget()
			}
		}
		now.late = false
		g.mu.Unlock()
		if done || more {
			return next, !done
		}
		var all Notice
		g.persist(ctx, func() (err error) {
			all, err = g.journal.NoticeOf(ctx, n.Instance, n.Kind)
			return err
		}, "instance", n.Instance)
		if all.Stage == Heard {
			g.mu.Lock()
			now.Notice = all.Notice
			g.mu.Unlock()
			return all.Notice, true
		}
	}
}
