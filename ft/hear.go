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
	if n.Instance == "" || n.Kind != cloud.SpotInterruption && n.Kind != cloud.Rebalance && n.Kind != cloud.Maintenance {
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
	g.mu.Lock()
	life := g.life // the caller's context may end with its call; what follows goes on
	g.mu.Unlock()
	if life == nil || life.Err() != nil {
		return nil
	}
	if n.Kind == cloud.Maintenance {
		// Of several events another may be the next: what all of them come to is the
		// journal's. Read and begun one by one, none is overtaken by an older one.
		g.hearing.Lock()
		defer g.hearing.Unlock()
		if n, err = g.journal.NoticeOf(ctx, n.Instance, n.Kind); err != nil {
			return err
		}
	}
	g.start(life, Notice{Notice: n, Provider: provider, Stage: Heard}, nil)
	return nil
}
