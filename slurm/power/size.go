package power

import (
	"context"
	"maps"
	"slices"

	"github.com/burst-hpc/burst/slurm"
)

// asks is what decides where a job may run. Two of the same go the same way.
type asks struct {
	job   slurm.Job // the fields that roomIn reads, and no others
	needs slurm.Needs
	known bool   // that is what it needs
	open  string // those of its partitions that may start it now
}

// asksOf is what decides where the job may run.
func asksOf(j slurm.Job, needs map[uint32]slurm.Needs, parts partitions) asks {
	a := asks{job: slurm.Job{Partition: j.Partition, Features: j.Features, Required: j.Required, NumNodes: j.NumNodes}, open: parts.open(j)}
	a.needs, a.known = needs[j.ID]
	return a
}

// needs is what the jobs that are in the queue again need. Without an answer it is empty:
// they go only to nodes that are as large as those that they had.
func (e *Engine) needs(ctx context.Context, holds map[uint32]Hold, snap *slurm.Snapshot) map[uint32]slurm.Needs {
	back := slices.DeleteFunc(slices.Sorted(maps.Keys(holds)), func(id uint32) bool { return snap.Jobs[id].State != "PENDING" })
	if len(back) == 0 {
		return nil
	}
	return e.needsOf(ctx, back)
}

func (e *Engine) needsOf(ctx context.Context, jobs []uint32) map[uint32]slurm.Needs {
	all, err := e.slurm.Needs(ctx, jobs)
	if err != nil && ctx.Err() == nil {
		e.log.Warn("what jobs without nodes need is not known: they go to no smaller nodes", "error", err)
	}
	return all
}

// size is what the largest of some nodes have.
type size struct {
	cpus, memory int // MiB
	gres         map[string]int
}

// sizeOf is of the dry pools' nodes that the job could have.
func (e *Engine) sizeOf(pools, parts []string, snap *slurm.Snapshot) size {
	s := size{gres: map[string]int{}}
	for _, pool := range pools {
		for _, name := range e.pools[pool].Nodes {
			n := snap.Nodes[name]
			if !within(parts, n) {
				continue
			}
			s.cpus, s.memory = max(s.cpus, n.CPUs), max(s.memory, n.RealMemory)
			has, _ := slurm.Gres(n.Gres)
			for what, count := range has {
				s.gres[what] = max(s.gres[what], count)
			}
		}
	}
	return s
}

// fits says that the node is known to be large enough for the job's share of it: it has as
// much as those of the dry pool, or as much as the job needs if that is spread evenly. A job
// that Slurm could also spread otherwise may be kept waiting.
func (a asks) fits(n slurm.Node, dry size) bool {
	nodes := max(1, a.job.NumNodes)
	least := max(1, a.needs.MinCPUs)
	cpus := (share(a.needs.CPUs, nodes) + least - 1) / least * least // whole tasks
	if n.CPUs < dry.cpus && (!a.known || n.CPUs < cpus) {
		return false
	}
	if n.RealMemory < dry.memory {
		perCPU := a.needs.Memory * cpus
		if perCPU > dry.memory {
			perCPU = 0 // then it would not fit there either: it is the node's
		}
		if !a.known || n.RealMemory < max(a.needs.Memory, perCPU) {
			return false
		}
	}
	has, ok := slurm.Gres(n.Gres)
	smaller := func(wanted map[string]int) bool {
		for what, count := range wanted {
			if has[what] < count {
				return true
			}
		}
		return false
	}
	if ok && !smaller(dry.gres) {
		return true
	}
	wanted, understood := a.gres(nodes)
	return ok && understood && !smaller(wanted)
}

// gres is what the job needs of a node's GRES.
func (a asks) gres(nodes int) (map[string]int, bool) {
	if !a.known || a.needs.PerSocket != "" { // how many sockets it gets is not known
		return nil, false
	}
	all := map[string]int{}
	for _, want := range []struct {
		list        string
		times, over int
	}{{a.needs.PerNode, 1, 1}, {a.needs.PerJob, 1, nodes}, {a.needs.PerTask, share(a.needs.Tasks, nodes), 1}} {
		some, ok := slurm.Gres(want.list)
		if !ok {
			return nil, false
		}
		for what, count := range some {
			all[what] = max(all[what], share(count*want.times, want.over))
		}
	}
	return all, true
}

func share(count, nodes int) int { return (count + nodes - 1) / nodes }

// spokenFor says that a reservation keeps the node from jobs, be it an admin's or one of
// ours that Slurm did not remove.
func spokenFor(s slurm.NodeState) bool { return s.Has(slurm.Reserved) || s.Has(slurm.Maintenance) }
