package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
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

// TestULFM: two nodes of a job go, one after the other, each with a notice; the second has
// joined the job in the place of the first. Its ranks have left them before, the job runs on
// all the time, nodes that join it in their place get ranks, and no iteration is computed twice.
// The signal that the site sends on a notice, as no word of the job's says another, would end them.
func TestULFM(t *testing.T) {
	s := start(t, rig.Options{Nodes: 6, Gate: true, SlurmExtra: "SchedulerParameters=batch_sched_delay=1,permit_job_expansion\n",
		ExtraToml: "[checkpoint]\nsignal = \"USR1\"\n"})
	h := buildHeat(t, s, "")
	program := filepath.Join(s.bin, "heat-ulfm")
	mpi := ulfm(t, program)
	run, err := filepath.Abs("../../../contrib/heat/ulfm/ulfm-run")
	if err != nil {
		t.Fatal(err)
	}
	joins := s.joins()
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
	node, moves := nodes[3], 0
	for i := range 2 {
		if err := s.Control.Evict(node, 20*time.Second); err != nil {
			t.Fatal(err)
		}
		moves++
		s.wait(15*time.Second, "the ranks have left "+node, func() bool {
			at := places(moves)
			return at != nil && !slices.Contains(at, node)
		})
		if !joins {
			node = nodes[2]
			continue
		}
		moves++
		s.wait(40*time.Second, "the ranks are spread over four nodes again", func() bool {
			at := places(moves)
			slices.Sort(at)
			return len(slices.Compact(at)) == 4
		})
		at := places(moves)
		joined := slices.IndexFunc(at, func(place string) bool { return !slices.Contains(nodes, place) })
		if i == 0 && joined < 0 {
			t.Fatalf("the ranks are on %v, all of which the job began with", at)
		} else if i == 0 {
			node = at[joined]
		}
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
	if !joins {
		s.asksForNone(id)
	}
}

// TestULFMPrologFlags: with PrologFlags=Contain Slurm refuses to join a node to a job, as there
// is a step on it. No node is asked for, and the job comes to its end, crowded.
func TestULFMPrologFlags(t *testing.T) {
	s := start(t, rig.Options{Nodes: 3, Gate: true, SlurmExtra: "SchedulerParameters=batch_sched_delay=1,permit_job_expansion\nPrologFlags=Contain\n"})
	h := buildHeat(t, s, "")
	program := filepath.Join(s.bin, "heat-ulfm")
	mpi := ulfm(t, program)
	run, err := filepath.Abs("../../../contrib/heat/ulfm/ulfm-run")
	if err != nil {
		t.Fatal(err)
	}
	const cells, iterations = 128, 2000
	id := s.submit(fmt.Sprintf(`#!/bin/sh
#SBATCH --nodes=2 --ntasks-per-node=2 --no-kill --no-requeue
exec %s --mpi %s --poll 0.5 %s -n %d -i %d --pace 20 --trace --stall 20
`, run, mpi, program, cells, iterations))
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(stepped.ReplaceAllString(s.output(id), ""))
		}
	})
	s.wait(60*time.Second, "it computes", func() bool { return stepped.MatchString(s.output(id)) })
	nodes := expand(t, s.job(id).Nodes)
	if err := s.Control.Evict(nodes[1], 20*time.Second); err != nil {
		t.Fatal(err)
	}
	s.wait(15*time.Second, "the ranks have left "+nodes[1], func() bool {
		all := moved.FindAllStringSubmatch(s.output(id), -1)
		return len(all) > 0 && !strings.Contains(all[len(all)-1][1], nodes[1])
	})
	s.wait(150*time.Second, "the job is done", func() bool { j := s.job(id); return j.State != "RUNNING" && j.State != "COMPLETING" })
	if j := s.job(id); j.State != "COMPLETED" || j.Restarts != 0 {
		t.Errorf("the job is %s after %d restarts", j.State, j.Restarts)
	}
	out := s.output(id)
	if want, got := h.undisturbed(t, cells, iterations), checksum.FindString(out); got != want {
		t.Errorf("checksum %q, undisturbed %q", got, want)
	}
	if strings.Count(out, "PrologFlags") != 1 || strings.Contains(out, "has not joined") {
		t.Errorf("it did not say once why no node is asked for, or has asked for one")
	}
}

var (
	lostRanks = regexp.MustCompile(`(?m)^heat: lost \d+ ranks, .* at iteration (\d+), going on from (\d+) .* on (.+)$`)
	stoppedAt = regexp.MustCompile(`(?m)^heat: stopped at iteration (\d+), the checkpoint is written$`)
)

// last is the number of the last match in what the job has written, and how many there are.
func (s *site) last(id uint32, what *regexp.Regexp) (n, matches int) {
	all := what.FindAllStringSubmatch(s.output(id), -1)
	if len(all) > 0 {
		n, _ = strconv.Atoi(all[len(all)-1][1])
	}
	return n, len(all)
}

// TestULFMBatchHost: the example's batch script, as it is. A notice for the batch host
// costs nothing: the checkpoint is written, and the job waits in the queue before the host
// has gone. With ulfm-run killed the job goes on from the last checkpoint, by the script. A
// node that goes without a notice costs what was computed since the last copy, and another
// joins in its place.
func TestULFMBatchHost(t *testing.T) {
	s := start(t, rig.Options{Nodes: 6, Gate: true, SlurmExtra: "SchedulerParameters=batch_sched_delay=1,permit_job_expansion\n"})
	h := buildHeat(t, s, "")
	program := filepath.Join(s.bin, "heat-ulfm")
	mpi := ulfm(t, program)
	example, err := filepath.Abs("../../../contrib/heat/ulfm")
	if err != nil {
		t.Fatal(err)
	}
	script, err := os.ReadFile(filepath.Join(example, "heat-ulfm.sbatch"))
	if err != nil {
		t.Fatal(err)
	}
	run, heat := filepath.Join(s.bin, "run"), filepath.Join(s.bin, "traced")
	for file, text := range map[string]string{
		run:  fmt.Sprintf("#!/bin/bash\n[ $1 = requeue ] && exec %[1]s/ulfm-run requeue\nexec %[1]s/ulfm-run --poll 0.5 \"$@\"\n", example),
		heat: fmt.Sprintf("#!/bin/sh\nexec %s \"$@\" --trace --stall 20\n", program),
	} {
		if err := os.WriteFile(file, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	joins := s.joins()
	const cells, iterations, copies, every = 128, 3000, 10, 100
	id := s.submit(string(script), "--nodes=3", "--exclusive", "--output="+filepath.Join(s.Work, "slurm-%j.out"),
		fmt.Sprintf("--export=ALL,MPI=%s,ULFM_RUN=%s,HEAT=%s,N=%d,ITERATIONS=%d,EVERY=%d,CKPT_EVERY=%d,PACE=20", mpi, run, heat, cells, iterations, copies, every))
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(stepped.ReplaceAllString(s.output(id), ""))
		}
	})
	s.wait(60*time.Second, "it computes", func() bool { n, _ := s.last(id, stepped); return n > 50 })
	host := s.job(id).BatchHost
	nodes := expand(t, s.job(id).Nodes)
	if len(nodes) != 3 || nodes[0] != host {
		t.Fatalf("nodes %v, batch host %s", nodes, host)
	}

	const notice = 25 * time.Second
	evicted := time.Now()
	if err := s.Control.Evict(host, notice); err != nil {
		t.Fatal(err)
	}
	s.wait(notice, "it has stopped", func() bool { _, n := s.last(id, stoppedAt); return n == 1 })
	s.wait(5*time.Second, "it is back in the queue", func() bool { return s.job(id).Restarts == 1 })
	if took := time.Since(evicted); took > notice {
		t.Errorf("it was requeued %s after a notice of %s", took, notice)
	}
	stop, _ := s.last(id, stoppedAt)
	s.wait(90*time.Second, "it goes on", func() bool { _, n := s.last(id, restarted); return n == 1 })
	if from, _ := s.last(id, restarted); from != stop {
		t.Errorf("it stopped at iteration %d, and goes on from %d", stop, from)
	}

	s.wait(60*time.Second, "it has written a checkpoint", func() bool { n, _ := s.last(id, stepped); return n > stop+every+20 })
	if j := s.job(id); j.BatchHost == host || j.State != "RUNNING" {
		t.Errorf("it is %s on %s", j.State, j.BatchHost)
	}
	if err := syscall.Kill(s.ulfmRun(t, filepath.Join(example, "ulfm-run")), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	s.wait(30*time.Second, "it is in the queue again", func() bool { j := s.job(id); return j.Restarts == 2 && j.State == "PENDING" })
	reached, _ := s.last(id, stepped)
	time.Sleep(time.Until(time.Now().Truncate(time.Second).Add(time.Second))) // a start in the second of the last end fails: docs/slurm-states.md
	if out, err := s.Cluster.Command(t.Context(), "scontrol", "update", "jobid="+id10(id), "starttime=now").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out) // Slurm has it wait for two minutes
	}
	s.wait(90*time.Second, "it goes on again", func() bool { _, n := s.last(id, restarted); return n == 2 })
	if from, _ := s.last(id, restarted); from <= stop || reached-from > every {
		t.Errorf("it had come to iteration %d, and goes on from %d", reached, from)
	}
	at := expand(t, s.job(id).Nodes)
	node := at[len(at)-1]
	s.wait(30*time.Second, "it has copies again", func() bool { n, _ := s.last(id, stepped); from, _ := s.last(id, restarted); return n > from+copies })
	if err := s.Control.Kill(node); err != nil {
		t.Fatal(err)
	}
	s.wait(40*time.Second, "it goes on without "+node, func() bool { return lostRanks.MatchString(s.output(id)) })
	for _, m := range lostRanks.FindAllStringSubmatch(s.output(id), -1) {
		at, _ := strconv.Atoi(m[1])
		from, _ := strconv.Atoi(m[2])
		if at-from > copies || slices.Contains(strings.Fields(m[3]), node) {
			t.Errorf("it lost the iterations from %d to %d, and is on %s", from, at, m[3])
		}
	}
	s.wait(60*time.Second, "its ranks are on three nodes again", func() bool {
		if !joins {
			return true // they stay on two
		}
		all := moved.FindAllStringSubmatch(s.output(id), -1)
		if len(all) == 0 {
			return false
		}
		on := strings.Fields(all[len(all)-1][1])
		slices.Sort(on)
		return len(slices.Compact(on)) == 3
	})
	s.wait(120*time.Second, "the job is done", func() bool { j := s.job(id); return j.State != "RUNNING" && j.State != "COMPLETING" })
	if j := s.job(id); j.State != "COMPLETED" || j.Restarts != 2 {
		t.Errorf("the job is %s after %d restarts", j.State, j.Restarts)
	}
	if want, got := h.undisturbed(t, cells, iterations), checksum.FindString(s.output(id)); got != want {
		t.Errorf("checksum %q, undisturbed %q", got, want)
	}
	if out, err := s.Cluster.Command(t.Context(), "squeue", "--noheader", "--name=ulfm-grow-"+id10(id)).CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("jobs for nodes that were to come: %v\n%s", err, out)
	}
	if !joins {
		s.asksForNone(id)
	}
}

// ulfmRun is the process of ulfm-run that the batch script has started: of all that run it,
// as do its ranks, the one with none of them for its parent.
func (s *site) ulfmRun(t *testing.T, run string) int {
	t.Helper()
	parents := map[int]int{}
	for _, dir := range glob("/proc", "[0-9]*") {
		args, _ := os.ReadFile(filepath.Join(dir, "cmdline")) // gone meanwhile: not it
		env, _ := os.ReadFile(filepath.Join(dir, "environ"))
		stat, _ := os.ReadFile(filepath.Join(dir, "stat"))
		_, rest, _ := strings.Cut(string(stat), ") ")
		fields := strings.Fields(rest)
		if words := strings.Split(string(args), "\x00"); len(words) < 3 || words[1] != run || words[2] == "rank" || len(fields) < 2 || !strings.Contains(string(env), s.Dir) {
			continue
		}
		pid, _ := strconv.Atoi(filepath.Base(dir))
		parents[pid], _ = strconv.Atoi(fields[1])
	}
	for pid, parent := range parents {
		if _, ok := parents[parent]; !ok {
			return pid
		}
	}
	t.Fatalf("no ulfm-run in %v", parents)
	return 0
}
