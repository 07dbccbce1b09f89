package history

import (
	"github.com/burst-hpc/burst/slurm"
	"github.com/burst-hpc/burst/slurm/hostlist"
)

// NodesOf are the names of the job's nodes; none, if Slurm's list is none.
func NodesOf(j slurm.Job) []string {
	names, err := hostlist.Expand(j.Nodes)
	if j.Nodes == "" || err != nil {
		return nil
	}
	return names
}

// PoolOf is the pool of a job on the nodes: that of the first that has one, since its
// batch host may be the site's own; empty: none has. Pools has the pool of each node.
func PoolOf(pools map[string]string, nodes []string) string {
	for _, n := range nodes {
		if p := pools[n]; p != "" {
			return p
		}
	}
	return ""
}

// runs says whether the job has its nodes, and has begun.
func runs(j slurm.Job) bool { return HasSteps(j) && !j.Start.IsZero() }

// HasSteps says whether a step of the job may run.
func HasSteps(j slurm.Job) bool {
	switch j.State {
	case "RUNNING", "COMPLETING", "SUSPENDED", "SIGNALING", "STAGE_OUT", "RESIZING", "STOPPED":
		return true
	}
	return false
}

// Over says whether Slurm shows the job as ended.
func Over(j slurm.Job) bool {
	switch j.State {
	case "COMPLETED", "CANCELLED", "FAILED", "TIMEOUT", "NODE_FAIL", "PREEMPTED", "BOOT_FAIL", "DEADLINE", "OUT_OF_MEMORY", "REVOKED", "LAUNCH_FAILED",
		"RECONFIG_FAIL":
		return !j.End.IsZero() && !j.Start.IsZero()
	}
	return false
}
