package ft

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/burst-hpc/burst/slurm"
	"github.com/burst-hpc/burst/slurm/hostlist"
)

// glance waits for the next moment at which jobs are looked at, every so often.
// The moments are the same for all who wait: one reading of Slurm serves them.
func glance(ctx context.Context, every time.Duration) error {
	now := time.Now()
	return pause(ctx, now.Truncate(every).Add(every).Sub(now))
}

// index has the jobs on each node of one reading: a storm asks for all of them.
type index struct {
	mu   sync.Mutex
	snap *slurm.Snapshot
	jobs map[string][]slurm.Job
}

// on lists the jobs that hold the node. For a part of a heterogeneous job it
// has the leader: that one has the script, and is what Slurm lets one signal
// and requeue.
func (g *Guard) on(snap *slurm.Snapshot, node string) []slurm.Job {
	g.index.mu.Lock()
	defer g.index.mu.Unlock()
	if g.index.snap != snap {
		g.index.snap, g.index.jobs = snap, g.byNode(snap)
	}
	return g.index.jobs[node]
}

func (g *Guard) byNode(snap *slurm.Snapshot) map[string][]slurm.Job {
	all := map[string][]slurm.Job{}
	for _, j := range snap.Jobs {
		if !running(j) || j.Nodes == "" {
			continue
		}
		nodes, err := hostlist.Expand(j.Nodes)
		if err != nil {
			g.log.Warn("a job's nodes cannot be read", "job", j.ID, "error", err)
			continue
		}
		if leader, ok := snap.Jobs[j.HetID]; ok && j.HetID != 0 {
			j = leader
		}
		for _, n := range nodes {
			if !slices.ContainsFunc(all[n], func(other slurm.Job) bool { return other.ID == j.ID }) {
				all[n] = append(all[n], j)
			}
		}
	}
	for _, jobs := range all {
		slices.SortFunc(jobs, func(a, b slurm.Job) int { return cmp.Compare(a.ID, b.ID) })
	}
	return all
}

// forget lets go of the last reading when nothing is acted upon any more.
func (x *index) forget() {
	x.mu.Lock()
	x.snap, x.jobs = nil, nil
	x.mu.Unlock()
}
