package power

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/burst-hpc/burst/slurm"
)

const (
	// isSpent ends why a job waits that was put off.
	isSpent = " is spent"
	// putOffAnew is how long after a start of burstd jobs are tried that were put off: by then they are
	// put off again if there still is nothing to spend.
	putOffAnew = time.Minute
)

// PutOff has a job that was requeued for a budget wait as one whose launch the budget refuses: it
// is told that what may be spent is, and starts at until. After a start of burstd it starts in a
// minute, unless it is put off again. A job that has left the cloud's partitions meanwhile is not kept from
// those that it has. That is in the journal when PutOff returns.
func (e *Engine) PutOff(ctx context.Context, job uint32, budget string, until time.Time) error {
	return e.do(ctx, func(ctx context.Context) error {
		var c Change
		hold(&c, e.mem, job, until, overBudget+budget+isSpent)
		return e.commit(ctx, c)
	})
}

// AllPutOff are the jobs that wait since they were put off, and until when, by id.
func (e *Engine) AllPutOff(now time.Time) map[uint32]time.Time {
	e.mu.Lock()
	defer e.mu.Unlock()
	all := map[uint32]time.Time{}
	for id, h := range e.mem.holds {
		if h.putOff() && h.Start.After(now) {
			all[id] = h.Start
		}
	}
	return all
}

// inCloud says that the job, or of a heterogeneous one a part, may have nodes of a pool by its partitions.
func (e *Engine) inCloud(snap *slurm.Snapshot, j slurm.Job) bool {
	for _, part := range snap.Jobs {
		if part.ID != j.ID && (j.HetID == 0 || part.HetID != j.HetID) {
			continue
		}
		for _, p := range e.pools {
			if slices.ContainsFunc(p.Nodes, func(n string) bool { return inPartition(p, snap.Nodes[n], part) }) {
				return true
			}
		}
	}
	return false
}

func (h Hold) putOff() bool {
	return strings.HasPrefix(h.Why, overBudget) && strings.HasSuffix(h.Why, isSpent)
}
