package power

import (
	"fmt"
	"slices"
	"strings"

	"github.com/burst-hpc/burst/slurm"
)

// cloudFlag is on every node that slurm.conf declares with State=CLOUD.
const cloudFlag = "CLOUD"

// GateOpen says whether a job that is being configured may start now, as far
// as power saving goes, and why or why not. Nodes are those of the job's
// allocation. It is open
//
//	when the job is not being configured (any more): it ended, or was requeued
//	    while its PrologSlurmctld ran, and waits in PENDING for that one to leave
//	when none of its nodes is a cloud node: there is nothing to wait for
//	when all its cloud nodes have registered since they were powered up
//
// and, as burstd alone can say, no fence keeps it (see Fenced).
//
// Slurm 22.05 shows CONFIGURING for the whole time of a PrologSlurmctld.
func GateOpen(job slurm.Job, nodes []slurm.Node) (open bool, why string) {
	if job.State != "CONFIGURING" {
		return true, fmt.Sprintf("job %d is %s, not CONFIGURING", job.ID, job.State)
	}
	cloud := 0
	var waits []string
	for _, n := range nodes {
		if !n.State.Has(cloudFlag) {
			continue
		}
		cloud++
		if !registered(n.State) {
			waits = append(waits, n.Name+" is "+n.State.String())
		}
	}
	switch {
	case cloud == 0:
		return true, fmt.Sprintf("job %d has no cloud nodes", job.ID)
	case len(waits) == 0:
		return true, fmt.Sprintf("all %d cloud nodes of job %d have registered", cloud, job.ID)
	case len(waits) > 3:
		waits = append(waits[:3], "…")
	}
	return false, fmt.Sprintf("job %d waits for its cloud nodes: %s", job.ID, strings.Join(waits, ", "))
}

// AsksFences says whether the job, for which GateOpen is open, may still have
// to wait for an instance on which an earlier attempt of it may run, wherever it
// is to run now.
func AsksFences(job slurm.Job) bool { return job.State == "CONFIGURING" && job.Restarts > 0 }

// InCloud says whether one of the nodes is a cloud node.
func InCloud(nodes []slurm.Node) bool {
	return slices.ContainsFunc(nodes, func(n slurm.Node) bool { return n.State.Has(cloudFlag) })
}

// registered says whether the node's slurmd has reported since power-up was
// asked for. DOWN and POWERING_DOWN are not: slurmctld is about to requeue
// the job.
func registered(s slurm.NodeState) bool {
	return s.Base != "DOWN" && s.Base != "UNKNOWN" &&
		!slices.ContainsFunc([]string{slurm.PowerUp, slurm.PoweringUp, slurm.PoweredDown, slurm.PoweringDown, slurm.NotResponding}, s.Has)
}
