package daemon

import (
	"context"
	"log/slog"

	"github.com/burst-hpc/burst/cmd/internal/crash"
	"github.com/burst-hpc/burst/ft"
	"github.com/burst-hpc/burst/slurm/power"
)

// logged is a journal whose events are in the log too, once they are durable.
// The engine logs its own.
type logged struct {
	crash.Journal
	log *slog.Logger
}

func (j logged) CommitPower(ctx context.Context, c power.Change) error {
	if err := j.Journal.CommitPower(ctx, c); err != nil {
		return err
	}
	for _, e := range c.Events {
		j.log.Info(e.Text, "event", e.Kind, "node", e.Node, "instance", e.Instance, "pool", e.Pool, "job", e.Job)
	}
	return nil
}

func (j logged) CommitFT(ctx context.Context, c ft.Change) error {
	if err := j.Journal.CommitFT(ctx, c); err != nil {
		return err
	}
	for _, e := range c.Events {
		j.log.Info(e.Text, "event", e.Kind, "node", e.Node, "instance", e.Instance, "job", e.Job)
	}
	return nil
}
