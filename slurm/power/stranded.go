package power

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/slurm"
	"github.com/burst-hpc/burst/slurm/hostlist"
)

// stranded returns the node of the job that Slurm has DOWN or powered down
// while it has the job running there; empty: there is none. Slurm ends the jobs
// of a node that goes DOWN. But when a late answer to the end of the job's last
// attempt comes from the same node, it takes the new attempt off the node: that
// one then runs nowhere, for ever (seen with 22.05).
func stranded(snap *slurm.Snapshot, j slurm.Job) string {
	if !j.Batch || j.State != "RUNNING" && j.State != "SUSPENDED" && j.State != "CONFIGURING" {
		return ""
	}
	names, err := hostlist.Expand(j.Nodes)
	if err != nil {
		return ""
	}
	for _, name := range names {
		switch p := powerOf(snap, name); {
		case snap.Nodes[name].State.Has(slurm.PoweringUp):
		case snap.Nodes[name].State.Base == "DOWN",
			j.State != "CONFIGURING" && (p == off || p == poweringDown): // one that configures may wait for its power-up
			return name
		}
	}
	return ""
}

// strand plans that the jobs start again that have been stranded for a while,
// for which nobody has seen to that.
func (e *Engine) strand(c *Change, snap *slurm.Snapshot) {
	seen := map[uint32]sighting{}
	for _, id := range slices.Sorted(maps.Keys(snap.Jobs)) {
		j := snap.Jobs[id]
		node := stranded(snap, j)
		if h, held := e.mem.holds[id]; node == "" || !j.Requeue || !e.Owns(node) || held && !h.Released {
			continue
		}
		s := e.stranded[id].seen(fmt.Sprint(node, j.Restarts), snap.Taken)
		seen[id] = s
		settled := s.times > 1 && snap.Taken.Sub(s.since) >= settle
		why := fmt.Sprintf("node %s is gone, and Slurm had the job run on", node)
		if e.plan(Planned{Kind: string(requeue), Node: node, Why: fmt.Sprintf("job %d: %s", id, why), Settling: !settled}) || !settled {
			continue
		}
		hold(c, e.mem, id, time.Now(), why)
		c.Actions = append(c.Actions, string(requeue))
	}
	e.stranded = seen
}

// fellAgo is how long before its instance's death is known a job may have failed
// of it: a machine that shuts down ends its processes first, and what they talk
// to on other nodes. This is beside the time between two rounds.
const fellAgo = time.Minute

// fallen are the jobs that have failed, or are about to, on a node while its
// instance died. That they failed by themselves in these minutes cannot be ruled
// out; then they fail once more.
func (e *Engine) fallen(snap *slurm.Snapshot, i Instance, node string) []slurm.Job {
	since := time.Now()
	if i.State == cloud.Terminated && !i.Ended.IsZero() && i.Ended.Before(since) {
		since = i.Ended
	}
	since = since.Add(-fellAgo - min(e.cfg.Reconcile, 5*time.Minute))
	var all []slurm.Job
	for _, id := range slices.Sorted(maps.Keys(snap.Jobs)) {
		j := snap.Jobs[id]
		if !hasFailed(j) && !(j.State == "COMPLETING" && j.ExitCode+j.ExitSignal > 0) || !j.Batch || !j.Requeue || j.End.Before(since) {
			continue
		}
		if names, err := hostlist.Expand(j.Nodes); err == nil && slices.Contains(names, node) {
			all = append(all, j)
		}
	}
	return all
}

// hasFailed says that the job's script has failed, or lost its node.
func hasFailed(j slurm.Job) bool { return j.State == "FAILED" || j.State == "NODE_FAIL" }

// lost says that a job that is held waits for a requeue that Slurm does not
// make by itself: it is stranded, or has fallen with a node.
func lost(snap *slurm.Snapshot, j slurm.Job) bool {
	return j.Batch && j.Requeue && (hasFailed(j) || stranded(snap, j) != "")
}
