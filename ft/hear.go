package ft

import (
	"context"

	"github.com/burst-hpc/burst/cloud"
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
	fresh, err := g.journal.AddNotice(ctx, provider, n)
	if err != nil || !fresh {
		return err
	}
	g.mu.Lock()
	life := g.life // the caller's context may end with its call; what follows goes on
	g.mu.Unlock()
	if life != nil && life.Err() == nil {
		g.start(life, Notice{Notice: n, Provider: provider, Stage: Heard}, nil)
	}
	return nil
}
