// Package vacated finds the nodes that a job has left behind and that nobody else
// has, so that they can be powered down before SuspendTime. It is pure.
package vacated

import (
	"slices"
	"time"

	"github.com/burst-hpc/burst/cmd/internal/history"
	"github.com/burst-hpc/burst/slurm"
)

// Reading is a reading of Slurm, arranged to be asked for many jobs.
type Reading struct {
	snap  *slurm.Snapshot
	pools map[string]string
	jobs  map[string][]slurm.Job // that have, or had, a node of ours, but not those that wait
}

// Read arranges a reading. Pools has the pool of each node of ours.
func Read(snap *slurm.Snapshot, pools map[string]string) *Reading {
	r := &Reading{snap, pools, map[string][]slurm.Job{}}
	for _, j := range snap.Jobs {
		if j.State == "PENDING" { // the nodes are of its last attempt
			continue
		}
		for _, n := range history.NodesOf(j) {
			if pools[n] != "" {
				r.jobs[n] = append(r.jobs[n], j)
			}
		}
	}
	return r
}

// Nodes are those of ours that the run's last attempt had and that are idle now, if
// no other job has had them since. None, if Slurm has the job otherwise than the
// run says, or has forgotten it. Planned says that there are more which Slurm's
// backfill has planned for some job: it says so of a node until its next round, also
// when that job has had it.
func (r *Reading) Nodes(run history.Run) (free []string, planned bool) {
	j, ok := r.snap.Jobs[run.Job]
	if !ok || !history.Over(j) || j.Restarts != run.Restarts || !j.End.Equal(run.Ended) {
		return nil, false
	}
	for _, name := range history.NodesOf(j) {
		n, ok := r.snap.Nodes[name]
		if !ok || r.pools[name] == "" || !idle(n, run.Ended) || slices.ContainsFunc(r.jobs[name], func(o slurm.Job) bool { return later(o, run) }) {
			continue
		}
		if n.State.Has(flagPlanned) {
			planned = true
			continue
		}
		free = append(free, name)
	}
	return free, planned
}

// later says that the job has the nodes still, or had them longer than the run.
func later(j slurm.Job, run history.Run) bool {
	return j.ID != run.Job && (!history.Over(j) || j.End.After(run.Ended))
}

const flagPlanned = "PLANNED"

// idle says that the node is up and does nothing, and is the one that was there then:
// not its next instance. Any other flag is somebody's: an admin's, a reservation's, or
// power saving's, which is at work already.
func idle(n slurm.Node, then time.Time) bool {
	return n.State.Base == "IDLE" && n.AllocCPUs == 0 && !n.Started.After(then) &&
		!slices.ContainsFunc(n.State.Flags, func(f string) bool { return f != "CLOUD" && f != "DYNAMIC_NORM" && f != flagPlanned })
}
