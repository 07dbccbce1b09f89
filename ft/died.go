package ft

import (
	"context"
	"errors"
	"time"

	"github.com/burst-hpc/burst/slurm"
)

// Fall is a node that went without a notice, with its instance.
type Fall struct{ Node, Instance string }

// Died notes what jobs under burst-srun lose with a node that has gone, of which snap
// has them running, and that they were evicted: a job that has lost too many attempts so
// is held when Slurm has it in the queue again. It is to be called before Slurm is told.
func (g *Guard) Died(ctx context.Context, f Fall, snap *slurm.Snapshot) error {
	if g.cfg.Sessions == nil || snap == nil {
		return nil
	}
	var errs []error
	for _, j := range g.on(snap, f.Node) {
		if running(j) && g.falls(j, snap) {
			errs = append(errs, g.fell(ctx, f, j))
		}
	}
	return errors.Join(errs...)
}

// falls says whether the attempt is nobody's yet, and is so from now on.
func (g *Guard) falls(j slurm.Job, snap *slurm.Snapshot) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	for id := range g.fallen {
		if _, known := snap.Jobs[id]; !known {
			delete(g.fallen, id)
		}
	}
	if r, ok := g.fallen[j.ID]; ok && r == j.Restarts || g.attempts[attemptKey{j.ID, j.Restarts}] != nil {
		return false
	}
	g.fallen[j.ID] = j.Restarts
	return true
}

func (g *Guard) fell(ctx context.Context, f Fall, j slurm.Job) error {
	p, ok, err := g.cfg.Sessions.Protection(ctx, j.ID, j.Restarts)
	if err != nil || !ok {
		return err
	}
	now := time.Now()
	e := &Eviction{Instance: f.Instance, Kind: Died, Job: j.ID, Restarts: j.Restarts, Node: f.Node, Stage: Done, Started: j.Start,
		Retries: -1, Lost: -1, LostIterations: -1, Began: now, Ended: now}
	e.Outcome = join("its node died without a notice", e.lose(p, now, "no checkpoint was asked for"))
	if movable(j) {
		e.Ending, e.Retries = Moved, p.Retries
	}
	ev := Event{Time: now, Kind: "evicted", Node: f.Node, Instance: f.Instance, Job: j.ID, Text: e.Outcome}
	if err := g.put(ctx, e, *e, ev); err != nil {
		return err
	}
	next := *e
	if g.bound(ctx, &next); !next.Hold {
		return nil
	}
	if err := g.put(ctx, e, next); err != nil {
		return err
	}
	select {
	case g.wake <- struct{}{}:
	default:
	}
	return nil
}
