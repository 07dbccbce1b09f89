package daemon

import (
	"context"

	"github.com/burst-hpc/burst/cmd/internal/crash"
	"github.com/burst-hpc/burst/ft"
	"github.com/burst-hpc/burst/slurm/power"
)

// fallen is a journal of the engine's that has the guard hear of nodes that died without
// a notice, before the engine goes on to tell Slurm.
type fallen struct {
	crash.Journal
	d *Daemon
}

func (j fallen) CommitPower(ctx context.Context, c power.Change) error {
	for _, e := range c.Events {
		if e.Kind != "died" {
			continue
		}
		if err := j.d.guard.Died(ctx, ft.Fall{Node: e.Node, Instance: e.Instance}, j.d.watcher.Latest()); err != nil {
			j.d.log.Warn("what jobs have lost with their node is not known", "node", e.Node, "error", err)
		}
	}
	return j.Journal.CommitPower(ctx, c)
}
