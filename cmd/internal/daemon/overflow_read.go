package daemon

import (
	"context"
	"errors"
	"maps"
	"sync"
	"time"

	"github.com/burst-hpc/burst/slurm"
	"github.com/burst-hpc/burst/slurm/overflow"
)

// overflowReads keeps what is read of Slurm now and then. It serves the rounds and those who ask
// for a plan.
type overflowReads struct {
	mu         sync.Mutex
	partitions map[string]overflow.Partition
	shown      time.Time
	scripts    map[overflow.ScriptID]overflow.Script
}

// snapshot reads Slurm, the running jobs at least as late as since.
func (d *Daemon) snapshot(ctx context.Context, since time.Time) (s overflow.Snapshot, err error) {
	snap, err := d.watcher.Fresh(ctx, since)
	if err == nil && time.Since(snap.Taken) > overflowEvery {
		snap, err = d.watcher.Fresh(ctx, time.Now())
	}
	if err != nil {
		return s, err
	}
	// After the others: a job that begins in between is in neither, and counts as waiting.
	waiting, err := d.client.Waiting(ctx)
	if err != nil {
		return s, err
	}
	s = overflow.Snapshot{Now: time.Now(), Waiting: waiting, Jobs: snap.Jobs, Scripts: d.overflows.kept(waiting)}
	s.Partitions, err = d.overflows.shownBy(ctx, d.client, snap)
	s.Closed = d.closed()
	return s, err
}

// closed are the partitions of which no pool launches anything now: a job that were given their nodes
// would only have to wait, at the site too.
func (d *Daemon) closed() map[string]string {
	var closed map[string]string
	open := map[string]bool{}
	for _, p := range d.cfg.Pools {
		why := d.engine.Closed(p.Power.Name)
		if open[p.Slurm.Partition] = open[p.Slurm.Partition] || why == ""; why != "" {
			if closed == nil {
				closed = map[string]string{}
			}
			closed[p.Slurm.Partition] = why
		}
	}
	maps.DeleteFunc(closed, func(partition, _ string) bool { return open[partition] })
	return closed
}

// shownBy are the partitions, read anew each minute.
func (r *overflowReads) shownBy(ctx context.Context, c *slurm.Client, snap *slurm.Snapshot) (map[string]overflow.Partition, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if time.Since(r.shown) < overflowShown {
		return r.partitions, nil
	}
	shown, err := c.ShowPartitions(ctx)
	if err != nil {
		return nil, err
	}
	r.partitions, r.shown = overflow.PartitionsOf(shown, snap.Nodes), time.Now()
	return r.partitions, nil
}

// kept are the scripts that were read, of jobs that wait; the others are forgotten.
func (r *overflowReads) kept(waiting []slurm.Waiting) map[overflow.ScriptID]overflow.Script {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.scripts) == 0 {
		return nil
	}
	all := map[overflow.ScriptID]overflow.Script{}
	for _, w := range waiting {
		id := overflow.ScriptOf(w.Job)
		if s, ok := r.scripts[id]; ok {
			all[id] = s
		}
	}
	r.scripts = all
	return all
}

// scripts reads those that decide, some in each round, and says how many it has read. Of a job
// that was moved before burstd started it is read again.
func (o *overflowing) scripts(ctx context.Context, p overflow.OnPrem, plan []overflow.Decision) (n int, err error) {
	ctx, cancel := context.WithTimeout(ctx, overflowRead)
	defer cancel()
	for _, dec := range plan {
		if dec.Job == nil || !dec.Script && dec.Action != overflow.Keep && dec.Action != overflow.Seen {
			continue
		}
		id := overflow.ScriptOf(dec.Job.Job)
		if o.overflows.has(id) {
			continue
		}
		if n == overflowScripts {
			break
		}
		if err := o.overflows.readScript(ctx, o.client, p, dec.Job.Job); err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}

func (r *overflowReads) has(id overflow.ScriptID) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, ok := r.scripts[id]
	return ok
}

// readScript reads a job's script, once.
func (r *overflowReads) readScript(ctx context.Context, c *slurm.Client, p overflow.OnPrem, j slurm.Job) error {
	ctx, cancel := context.WithTimeout(ctx, afterAnswer)
	defer cancel()
	text, err := c.BatchScript(ctx, j.ID)
	if err != nil && !errors.Is(err, slurm.ErrNoJob) { // it has ended this moment, or has none
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.scripts == nil {
		r.scripts = map[overflow.ScriptID]overflow.Script{}
	}
	r.scripts[overflow.ScriptOf(j)] = p.Read(text)
	return nil
}
