package power

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/burst-hpc/burst/slurm"
)

// badConstraints is why Slurm (22.05) takes a pending job's priority for good: its
// nodes are fewer than it wants. It also says so of a job that wants several nodes
// of one provider while others of the pool are another's for the moment.
const badConstraints = "BadConstraints"

// unbind sees to jobs that Slurm has given up because their provider's nodes are too
// few for the moment: idle nodes of other providers are powered down, and when
// there are enough the job has its priority back. Jobs that Slurm gives up again are
// seen to less and less often.
func (e *Engine) unbind(ctx context.Context, snap *slurm.Snapshot) error {
	seen := map[uint32]sighting{}
	var errs []error
	for _, id := range slices.Sorted(maps.Keys(snap.Jobs)) {
		j := snap.Jobs[id]
		if j.State != "PENDING" || j.Reason != badConstraints || j.Features == "" {
			continue
		}
		pool, ok := e.binds(j)
		if !ok {
			continue
		}
		s := e.bound[id].seen(badConstraints, snap.Taken)
		if seen[id] = s; s.times&(s.times-1) != 0 {
			continue
		}
		if err := e.unbindOne(ctx, snap, j, pool); err != nil {
			errs = append(errs, fmt.Errorf("job %d, which Slurm has given up: %w", id, err))
		}
	}
	e.bound = seen
	return errors.Join(errs...)
}

// binds finds the pool to some of whose sources the job keeps.
func (e *Engine) binds(j slurm.Job) (Pool, bool) {
	for _, name := range slices.Sorted(maps.Keys(e.pools)) {
		p := e.pools[name]
		if slices.Contains(strings.Split(j.Partition, ","), p.Partition) && len(p.named(j.Features)) < len(p.Sources()) {
			return p, true
		}
	}
	return Pool{}, false
}

func (e *Engine) unbindOne(ctx context.Context, snap *slurm.Snapshot, j slurm.Job, pool Pool) error {
	named := pool.named(j.Features)
	has := func(features []string) bool {
		return slices.ContainsFunc(named, func(s Pool) bool { return slices.Contains(features, s.Provider) })
	}
	fit := 0
	var idle []string // of others
	for _, name := range pool.Nodes {
		n := snap.Nodes[name]
		switch p := powerOf(snap, name); {
		case p == unknown, p == down, p == failed, n.State.Has(slurm.Drain):
		case has(n.Features):
			fit++
		case p == on && n.State.Base == "IDLE" && e.mem.nodes[name].Phase == Up:
			idle = append(idle, name)
		}
	}
	lacks := max(1, j.NumNodes) - fit
	if lacks <= 0 {
		e.log.Info("a job has its priority back: its provider's nodes are enough again", "job", j.ID, "pool", pool.Name)
		return e.slurm.Unhold(ctx, j.ID)
	}
	if idle = idle[:min(lacks, len(idle))]; len(idle) == 0 {
		return nil
	}
	return e.slurm.UpdateNodes(ctx, slurm.NodeUpdate{Nodes: idle, State: "power_down", Reason: fmt.Sprintf("burst: job %d wants a node of %s", j.ID, named[0].Provider)})
}
