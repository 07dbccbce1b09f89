// Package e2e holds the end-to-end tests: a real slurmctld calls our
// programs, real slurmds come up as instances of cloud/local, and real jobs run.
package e2e

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/burst-hpc/burst/cmd/internal/rig"
	"github.com/burst-hpc/burst/slurm"
)

// site is a rig with a test's manners.
type site struct {
	*rig.Site
	t   *testing.T
	bin string
}

func start(t *testing.T, o rig.Options, tags ...string) *site {
	t.Helper()
	if testing.Short() {
		t.Skip("e2e: a real Slurm is slow; make test runs it")
	}
	place(t)
	o.Bin = build(t, tags...)
	o.SlurmExtra = ownJobs() + o.SlurmExtra
	o.Dir, o.Keep = filepath.Join(t.TempDir(), "site"), false
	r, err := rig.Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	s := &site{r, t, o.Bin}
	t.Cleanup(func() {
		if t.Failed() {
			s.dump()
		}
		if err := s.Close(); err != nil {
			t.Errorf("closing the site: %v", err)
		}
		if left := leftovers(o.Dir); len(left) > 0 {
			t.Errorf("left behind: %v", left)
		}
	})
	return s
}

// wait polls until cond holds.
func (s *site) wait(d time.Duration, what string, cond func() bool) {
	s.t.Helper()
	for end := time.Now().Add(d); !cond(); time.Sleep(100 * time.Millisecond) {
		if time.Now().After(end) {
			s.t.Fatalf("not within %s: %s", d, what)
		}
	}
}

func (s *site) submit(script string, args ...string) uint32 {
	s.t.Helper()
	id, err := s.Submit(s.t.Context(), script, args...)
	if err != nil {
		s.t.Fatal(err)
	}
	return id
}

func (s *site) job(id uint32) slurm.Job {
	j, err := s.Job(s.t.Context(), id)
	if err != nil {
		s.t.Logf("job %d: %v", id, err)
	}
	return j
}

// TestAJobRunsIsEvictedAndFinishes is the backbone on real parts, without MPI:
// two nodes come up, one is evicted with a notice, the job gets its signal,
// checkpoints, is requeued and finishes on other nodes; what is idle goes, and
// the timeline says how long the new nodes took.
func TestAJobRunsIsEvictedAndFinishes(t *testing.T) {
	s := start(t, rig.Options{Nodes: 4, OnPrem: 1, Gate: true, SuspendTime: 5 * time.Second})
	id := s.submit(`#!/bin/sh
#BURST signal=USR1 grace=20s
#SBATCH -N2 --requeue --open-mode=append
[ -z "$SLURM_RESTART_COUNT" ] || date +%s.%N > restarted
srun sh -c '
  trap "echo checkpoint; touch saved; exit 75" USR1
  if [ -e saved ]; then echo restarted; sleep 1; exit 0; fi
  echo started
  while :; do sleep 0.1; done'
`)
	s.wait(30*time.Second, "the job runs", func() bool { return s.job(id).State == "RUNNING" })
	nodes := expand(t, s.job(id).Nodes)
	s.wait(10*time.Second, "its step has begun", func() bool { return strings.Count(s.output(id), "started") == 2 })
	const boot = 3 * time.Second // longer than Slurm's times are wrong
	if err := s.Control.SetBoot(boot); err != nil {
		t.Fatal(err)
	}
	if err := s.Control.Evict(nodes[0], 30*time.Second); err != nil {
		t.Fatal(err)
	}
	s.wait(60*time.Second, "the job is done", func() bool { return s.job(id).State == "COMPLETED" })
	if out := s.output(id); !strings.Contains(out, "checkpoint") || !strings.Contains(out, "restarted") {
		t.Errorf("the job's output:\n%s", out)
	}
	if j := s.job(id); j.Restarts != 1 || strings.Contains(j.Nodes, nodes[0]) {
		t.Errorf("restarts %d, nodes %s after %v", j.Restarts, j.Nodes, nodes)
	}
	s.wait(60*time.Second, "no instance lives", func() bool { return s.live() == 0 })
	s.wait(30*time.Second, "all nodes are off", func() bool { return s.off() == 4 })
	s.showsTimes(id, nodes, boot)
}
