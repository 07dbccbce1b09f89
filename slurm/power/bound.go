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
// few for the moment: idle nodes of other providers are powered down, never more at a time
// than the job lacks, and when there are enough the job has its priority back. Jobs that
// Slurm gives up again are seen to less and less often. The job is told either way.
func (e *Engine) unbind(ctx context.Context, snap *slurm.Snapshot) error {
	seen := map[uint32]sighting{}
	var errs []error
	for _, id := range slices.Sorted(maps.Keys(snap.Jobs)) {
		j := snap.Jobs[id]
		if j.State != "PENDING" || j.Reason != badConstraints || !e.Scarce(snap, j) {
			continue
		}
		pools := e.binds(snap, j)
		s := e.bound[id].seen(badConstraints, snap.Taken)
		if seen[id] = s; s.times&(s.times-1) != 0 {
			continue
		}
		if err := e.unbindOne(ctx, snap, j, pools); err != nil {
			errs = append(errs, fmt.Errorf("job %d, which Slurm has given up: %w", id, err))
		}
	}
	e.bound = seen
	return errors.Join(errs...)
}

// Scarce says that unbind sees to the job as soon as Slurm gives it up.
func (e *Engine) Scarce(snap *slurm.Snapshot, j slurm.Job) bool {
	return j.Features != "" && len(e.binds(snap, j)) > 0
}

// binds finds the pools of the job's partitions to some of whose sources it keeps.
func (e *Engine) binds(snap *slurm.Snapshot, j slurm.Job) []Pool {
	var all []Pool
	for _, name := range slices.Sorted(maps.Keys(e.pools)) {
		p := e.pools[name]
		if len(p.named(j.Features)) < len(p.Sources()) && slices.ContainsFunc(p.Nodes, func(n string) bool { return inPartition(p, snap.Nodes[n], j) }) {
			all = append(all, p)
		}
	}
	return all
}

// inPartition says that the job may have the node by its partition, of which a node may
// have others than its pool's.
func inPartition(p Pool, n slurm.Node, j slurm.Job) bool {
	wants := strings.Split(j.Partition, ",")
	if len(n.Partitions) == 0 {
		return slices.Contains(wants, p.Partition)
	}
	return slices.ContainsFunc(n.Partitions, func(of string) bool { return slices.Contains(wants, of) })
}

// tally is how the nodes of a job's pools are as to the providers that it wants.
type tally struct {
	fit, coming int      // that it may have, and that are on their way down
	idle        []string // of others
}

// seeNodes adds the pool's nodes. One that is idle is nobody's: not drained, reserved,
// planned for a job, or a server of files.
func (e *Engine) seeNodes(t *tally, snap *slurm.Snapshot, j slurm.Job, pool Pool) {
	named := pool.named(j.Features)
	for _, name := range pool.Nodes {
		n := snap.Nodes[name]
		rec := e.mem.nodes[name]
		p := powerOf(snap, name)
		switch has := slices.ContainsFunc(named, func(s Pool) bool { return slices.Contains(n.Features, s.Provider) }); {
		case !inPartition(pool, n, j), p == unknown, p == down, p == failed:
		case !has && (p == poweringDown || n.State.Has(slurm.PowerDown)):
			t.coming++
		case n.State.Has(slurm.Drain):
		case has:
			t.fit++
		case p == on && rec.Phase == Up && rec.Reason == "" && nobodys(n) && !e.serves(name):
			t.idle = append(t.idle, name)
		}
	}
}

// nobodys says that Slurm has the node idle, and nothing else: any flag is an admin's, a
// reservation's, that of a job for which it is planned, or power saving's.
func nobodys(n slurm.Node) bool {
	return n.State.Base == "IDLE" && n.AllocCPUs == 0 &&
		!slices.ContainsFunc(n.State.Flags, func(f string) bool { return f != "CLOUD" && f != "DYNAMIC_NORM" })
}

func (e *Engine) unbindOne(ctx context.Context, snap *slurm.Snapshot, j slurm.Job, pools []Pool) error {
	var t tally
	var names []string
	for _, p := range pools {
		e.seeNodes(&t, snap, j, p)
		for _, s := range p.named(j.Features) {
			if !slices.Contains(names, s.Provider) {
				names = append(names, s.Provider)
			}
		}
	}
	at, wants := strings.Join(names, " or "), max(1, j.NumNodes)
	if t.fit >= wants {
		e.log.Info("a job has its priority back: its provider's nodes are enough again", "job", j.ID, "provider", at)
		told := e.tellBound(ctx, j, fmt.Sprintf("burst: enough nodes may be of %s again: it has its priority back", at))
		return errors.Join(e.slurm.Unhold(ctx, j.ID), told)
	}
	kept, err := e.kept(ctx, t.idle)
	if err != nil {
		return err
	}
	idle := slices.DeleteFunc(t.idle, func(name string) bool { return kept(snap.Nodes[name]) })
	idle = idle[:min(max(0, wants-t.fit-t.coming), len(idle))]
	err = e.tellBound(ctx, j, fmt.Sprintf("burst: it wants %d nodes of %s, and too many are another provider's for the moment: it starts when they are free", wants, at))
	if len(idle) == 0 {
		return err
	}
	return errors.Join(err, e.slurm.UpdateNodes(ctx, slurm.NodeUpdate{Nodes: idle, State: "power_down", Reason: fmt.Sprintf("burst: job %d wants a node of %s", j.ID, at)}))
}

// kept is what Config.Kept says, if there are nodes to ask about.
func (e *Engine) kept(ctx context.Context, nodes []string) (func(slurm.Node) bool, error) {
	if e.cfg.Kept == nil || len(nodes) == 0 {
		return func(slurm.Node) bool { return false }, nil
	}
	return e.cfg.Kept(ctx)
}

// tellBound tells a job that Slurm has given up what becomes of it, unless its comment says so or is not ours.
func (e *Engine) tellBound(ctx context.Context, j slurm.Job, text string) error {
	if j.AdminComment == text || !ours(j.AdminComment) {
		return nil
	}
	return e.slurm.UpdateJob(ctx, j.ID, slurm.JobUpdate{AdminComment: &text})
}
