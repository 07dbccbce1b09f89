package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/burst-hpc/burst/cmd/internal/rig"
)

// ulfm builds heat-ulfm with the Open MPI that make deps-ulfm has brought, and
// returns that one's folder.
func ulfm(t *testing.T, program string) string {
	t.Helper()
	mpi, err := filepath.Abs("../../../build/ulfm")
	if err != nil {
		t.Fatal(err)
	}
	mpicc := filepath.Join(mpi, "bin", "mpicc")
	if _, err := os.Stat(mpicc); err != nil {
		t.Skip("NOT TESTED: heat-ulfm needs an Open MPI 5 in build/ulfm: make deps-ulfm")
	}
	cmd := exec.CommandContext(t.Context(), "make", "-s", "-C", "../../../contrib/heat/ulfm", "OUT="+program, "MPICC="+mpicc)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("building heat-ulfm: %v\n%s", err, out)
	}
	return mpi
}

var (
	stepped  = regexp.MustCompile(`(?m)^heat: step (\d+)\n`)
	moved    = regexp.MustCompile(`(?m)^heat: plan \d+: moved .* on (.+)$`)
	repeated = regexp.MustCompile(`repeated=(\d+)`)
)

// TestULFM: two nodes of a job go, one after the other, each with a notice. Its
// ranks have left them before, the job runs on all the time, nodes that join it
// in their place get ranks, and no iteration is computed twice.
func TestULFM(t *testing.T) {
	s := start(t, rig.Options{Nodes: 6, Gate: true, SlurmExtra: "SchedulerParameters=batch_sched_delay=1,permit_job_expansion\n"})
	h := buildHeat(t, s, "")
	program := filepath.Join(s.bin, "heat-ulfm")
	mpi := ulfm(t, program)
	run, err := filepath.Abs("../../../contrib/heat/ulfm/ulfm-run")
	if err != nil {
		t.Fatal(err)
	}
	const cells, iterations = 128, 1200
	id := s.submit(fmt.Sprintf(`#!/bin/sh
#SBATCH --nodes=4 --ntasks-per-node=2 --no-kill --no-requeue
exec %s --mpi %s --poll 0.5 %s -n %d -i %d --pace 25 --trace --stall 20
`, run, mpi, program, cells, iterations))
	t.Cleanup(func() {
		if t.Failed() { // the site prints the last lines only, and they are all steps
			t.Log(stepped.ReplaceAllString(s.output(id), ""))
		}
	})
	s.wait(60*time.Second, "it computes", func() bool { return stepped.MatchString(s.output(id)) })
	nodes := expand(t, s.job(id).Nodes)
	if len(nodes) != 4 {
		t.Fatalf("nodes %v", nodes)
	}

	// places are the nodes of the ranks after the last of so many moves.
	places := func(moves int) []string {
		all := moved.FindAllStringSubmatch(s.output(id), -1)
		if len(all) < moves {
			return nil
		}
		return strings.Fields(all[len(all)-1][1])
	}
	for i, node := range []string{nodes[3], nodes[1]} {
		if err := s.Control.Evict(node, 20*time.Second); err != nil {
			t.Fatal(err)
		}
		s.wait(15*time.Second, "the ranks have left "+node, func() bool {
			at := places(2*i + 1)
			return at != nil && !slices.Contains(at, node)
		})
		s.wait(40*time.Second, "the ranks are spread over four nodes again", func() bool {
			at := places(2*i + 2)
			slices.Sort(at)
			return len(slices.Compact(at)) == 4
		})
	}
	s.wait(90*time.Second, "the job is done", func() bool { j := s.job(id); return j.State != "RUNNING" && j.State != "COMPLETING" })
	out := s.output(id)
	if j := s.job(id); j.State != "COMPLETED" || j.Restarts != 0 {
		t.Errorf("the job is %s after %d restarts", j.State, j.Restarts)
	}
	if want, got := h.undisturbed(t, cells, iterations), checksum.FindString(out); got != want {
		t.Errorf("checksum %q, undisturbed %q", got, want)
	}
	steps := stepped.FindAllStringSubmatch(out, -1)
	for i, step := range steps {
		if step[1] != fmt.Sprint(i+1) {
			t.Fatalf("the %d'th iteration is number %s", i+1, step[1])
		}
	}
	if got := repeated.FindStringSubmatch(out); len(steps) != iterations || got == nil || got[1] != "0" {
		t.Errorf("%d iterations, %v", len(steps), got)
	}
}
