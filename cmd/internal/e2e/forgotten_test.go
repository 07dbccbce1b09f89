package e2e

import (
	"strings"
	"testing"
	"time"

	"github.com/burst-hpc/burst/cmd/internal/rig"
	"github.com/burst-hpc/burst/slurm"
)

// TestSlurmctldForgetsARequeue: it is killed when the eviction's job waits for
// its next attempt and nothing of this is on its disk. It comes back with a job
// that runs, though no process of it does, on a node that takes jobs; burstd
// drains the node and requeues the job once more.
func TestSlurmctldForgetsARequeue(t *testing.T) {
	s := start(t, rig.Options{Nodes: 3, Gate: true, SuspendTime: 2 * time.Minute, SlurmExtra: quick})
	id := s.submit(`#!/bin/sh
#BURST signal=B:USR1 grace=20s
#SBATCH -N1 --requeue --open-mode=append
trap "echo checkpoint; exit 75" USR1
echo started
[ -z "$SLURM_RESTART_COUNT" ] || exit 0
while :; do sleep 0.1; done
`)
	s.wait(60*time.Second, "the job runs", func() bool { return strings.Contains(s.output(id), "started") })
	// A change has slurmctld save it: what it wrote in the second of the start may
	// have the job configuring, and without another change nothing is written again.
	running := "it runs"
	if err := s.Slurm().UpdateJob(t.Context(), id, slurm.JobUpdate{AdminComment: &running}); err != nil {
		t.Fatal(err)
	}
	time.Sleep(8 * time.Second)
	old := s.job(id).Nodes
	goes := s.instance(old)
	if err := s.Control.Evict(old, 2*time.Minute); err != nil {
		t.Fatal(err)
	}
	s.wait(30*time.Second, "its hold is cleared", func() bool {
		j := s.job(id)
		return j.Restarts == 1 && j.AdminComment != "" && j.AdminComment != running
	})
	if err := s.Cluster.KillController(); err != nil {
		t.Fatal(err)
	}
	if err := s.Cluster.StartController(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.wait(2*time.Minute, "the job is done", func() bool { return s.job(id).State == "COMPLETED" })
	if s.job(id).Nodes == old && s.instance(old) == goes {
		t.Errorf("its next attempt began on %s, whose instance goes", old)
	}
	if out := s.output(id); strings.Count(out, "started") != 2 || strings.Count(out, "checkpoint") != 1 {
		t.Errorf("the job's output:\n%s", out)
	}
}

// instance is the latest instance of a node.
func (s *site) instance(node string) (id string) {
	s.t.Helper()
	all, err := s.Control.List()
	if err != nil {
		s.t.Fatal(err)
	}
	for _, m := range all {
		if m.Node == node {
			id = m.ID
		}
	}
	return id
}
