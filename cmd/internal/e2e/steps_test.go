package e2e

import (
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/burst-hpc/burst/cmd/internal/api"
	"github.com/burst-hpc/burst/cmd/internal/rig"
	"github.com/burst-hpc/burst/slurm"
)

// TestAStepGoesOnFromItsCheckpoints: a real burstd asks heat under burst-srun,
// over MUNGE, to checkpoint and stop, and heat goes on from there on another
// node; then a node dies without a word, and it goes on from its last periodic
// checkpoint. The field in the end is that of a run without any fault.
func TestAStepGoesOnFromItsCheckpoints(t *testing.T) {
	t.Parallel() // its jobs wait more than they compute
	listen := freeAddress(t)
	prices := filepath.Join(t.TempDir(), "prices.csv")
	if err := os.WriteFile(prices, []byte("type,zone,market,usd_per_hour,date\nlocal.small,,spot,0.1,2026-08-01\nlocal.small,,on-demand,0.3,2026-08-01\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	s := start(t, rig.Options{Nodes: 5, OnPrem: 1, Gate: true, SuspendTime: 5 * time.Second, SuspendTimeout: 15 * time.Second, SlurmExtra: quick, Prices: prices,
		DaemonToml: fmt.Sprintf("listen = %q", listen)})
	heat := filepath.Join(s.bin, "heat")
	buildAt(t, heat)
	const cells, iterations = "64", 2500
	alone, err := exec.CommandContext(t.Context(), heat, "-n", cells, "-i", strconv.Itoa(iterations)).CombinedOutput()
	if err != nil {
		t.Fatalf("heat alone: %v\n%s", err, alone)
	}
	id := s.submit(fmt.Sprintf(`#!/bin/bash
#SBATCH -N2 --ntasks-per-node=1 --requeue --open-mode=append
#BURST ckpt=signal signal=USR1 strategy=both interval=5s files=heat.ckpt
export BURST_URLS=http://%s BURST_MUNGE_SOCKET=%s
export OMPI_MCA_mpi_yield_when_idle=1 OMPI_MCA_btl_tcp_if_include=lo
%s/burst-srun --mpi=pmix %s -n %s -i %d --pace 20 --checkpoint heat.ckpt --restart auto --progress 1
echo "the script ends with $?"
`, listen, mungeSocket(s.Cluster.Conf), s.bin, heat, cells, iterations))

	restarted := regexp.MustCompile(`heat: restarted from iteration (\d+)`)
	restarts := func() (at []int) {
		for _, m := range restarted.FindAllStringSubmatch(s.output(id), -1) {
			n, err := strconv.Atoi(m[1])
			if err != nil {
				t.Fatal(err)
			}
			at = append(at, n)
		}
		return at
	}
	progress := regexp.MustCompile(`heat: iteration (\d+) of`)
	reached := func() int { // in all of its output
		all := progress.FindAllStringSubmatch(s.output(id), -1)
		if len(all) == 0 {
			return 0
		}
		n, _ := strconv.Atoi(all[len(all)-1][1])
		return n
	}
	s.wait(60*time.Second, "heat computes", func() bool { return reached() > 100 })
	first := expand(t, s.job(id).Nodes)
	if err := s.Control.Evict(first[0], 30*time.Second); err != nil {
		t.Fatal(err)
	}
	s.wait(90*time.Second, "it goes on", func() bool { return len(restarts()) == 1 })
	if n := restarts()[0]; n < 100 {
		t.Errorf("it went on from iteration %d", n)
	}
	if n := s.job(id); strings.Contains(n.Nodes, first[0]) || n.Restarts != 1 {
		t.Errorf("job %+v, after nodes %v", n, first)
	}
	at := reached()
	s.wait(60*time.Second, "periodic checkpoints", func() bool { return reached() > at+500 })
	s.runsOn(id)
	if err := s.Control.Kill(expand(t, s.job(id).Nodes)[1]); err != nil {
		t.Fatal(err)
	}
	s.wait(90*time.Second, "it goes on again", func() bool { return len(restarts()) == 2 })
	if n := restarts(); n[1] <= n[0] {
		t.Errorf("it went on from iterations %v", n)
	}
	s.completes(id)
	checksum := regexp.MustCompile(`checksum=\S+`)
	if got, want := checksum.FindString(s.output(id)), checksum.FindString(string(alone)); got == "" || got != want {
		t.Errorf("%s, and %s without faults", got, want)
	}
	notes := s.evictions(id)
	if len(notes) != 2 || !strings.Contains(notes[0], "checkpoint of ") || !strings.Contains(notes[1], "its node died without a notice; ") || !strings.Contains(notes[1], "from its last checkpoint, ") {
		t.Errorf("of the eviction with a notice, and of the death without, the history has %q", notes)
	}
	t.Logf("%s", s.output(id))
	costs := regexp.MustCompile(fmt.Sprintf(`(?m)^burst-srun: job %d has run .+ on 2 nodes \(here spot local\.small\): (0\.\d+) USD so far, (0\.\d+) on demand; evicted 2 times, .* lost$`, id)).FindAllStringSubmatch(s.output(id), -1)
	if len(costs) != 1 {
		t.Errorf("its output says %d times what it has cost", len(costs))
	} else {
		said, _ := strconv.ParseFloat(costs[0][1], 64)
		s.wait(60*time.Second, fmt.Sprintf("the ledger has the %g USD that its output says, and a little more", said), func() bool {
			jobs, err := s.API.Jobs(t.Context(), api.JobsQuery{Job: id, Last: 1})
			return err == nil && len(jobs) == 1 && jobs[0].USD != nil && said > 0.8**jobs[0].USD && said < *jobs[0].USD+1e-4
		})
	}
	records, _ := filepath.Glob(filepath.Join(s.Work, "burst-checkpoints", fmt.Sprintf("job-%d", id), "steps-*.json"))
	for _, name := range records { // else nothing deletes what the job has left
		if text, err := os.ReadFile(name); err != nil || !regexp.MustCompile(`"slurmctld": ".+:[0-9]+"`).Match(text) {
			t.Errorf("%s, of which cluster: %s, %v", name, text, err)
		}
	}
	if len(records) != 3 {
		t.Errorf("there are the records %q of three attempts", records)
	}
	s.wentDown(id)
	s.holds()
}

// runsOn: the job's step is shown as it runs, with its last checkpoint.
func (s *site) runsOn(id uint32) {
	s.t.Helper()
	jobs, err := s.API.Jobs(s.t.Context(), api.JobsQuery{Job: id, Last: 1})
	if err != nil || len(jobs) != 1 || len(jobs[0].Steps) != 1 {
		s.t.Fatalf("of the job is known %+v, %v", jobs, err)
	}
	now, err := s.API.Status(s.t.Context())
	if err != nil || now.Running != 1 || len(now.Steps) != 1 {
		s.t.Fatalf("the status has %+v, %v", now, err)
	}
	for _, st := range append(jobs[0].Steps, now.Steps...) {
		if c := st.Checkpoint; st.Job != id || st.Step != "0" || st.Attempt != 1 || st.Method != "signal" || st.Silent || c == nil || c.Generation < 2 || c.SinceSeconds < 0 || c.SinceSeconds > 60 {
			s.t.Errorf("its step is shown as %+v, with %+v", st, c)
		}
	}
}

// evictions are the ends of the job's evictions, as the history tells them.
func (s *site) evictions(id uint32) (all []string) {
	s.t.Helper()
	events, err := s.API.Events(s.t.Context(), 0, 0)
	if err != nil {
		s.t.Fatal(err)
	}
	for _, e := range events {
		if e.Kind == "evicted" && e.Job == id {
			all = append(all, e.Text)
		}
	}
	return all
}

// wentDown: the run is in the history, with the numbers that the job's user was told.
func (s *site) wentDown(id uint32) {
	s.t.Helper()
	var all []api.Job
	s.wait(90*time.Second, "the run is written down", func() bool {
		var err error
		all, err = s.API.Jobs(s.t.Context(), api.JobsQuery{Job: id, Last: 10})
		return err == nil && len(all) == 1 && all[0].Over && all[0].USD != nil
	})
	j := all[0]
	if j.Attempts != 3 || j.Evictions != 2 || j.LostUnknown != 0 || j.State != "COMPLETED" || j.Nodes != 2 || j.Ranks != 2 || *j.USD <= 0 || j.LostSeconds == nil {
		s.t.Errorf("the history has %+v", j)
	}
	lines := regexp.MustCompile(`ran \S+, (\d+) checkpoints .*, (no|\S+(?: of)?) work lost`).FindAllStringSubmatch(s.output(id), -1)
	if len(lines) == 0 {
		s.t.Fatal("burst-srun has not said how its step went")
	}
	last := lines[len(lines)-1]
	told, _ := time.ParseDuration(strings.TrimSuffix(last[2], " of")) // 0 of "no"
	if last[1] != strconv.Itoa(j.Checkpoints) || j.Checkpoints < 2 || math.Abs(told.Seconds()-*j.LostSeconds) > 0.06 {
		s.t.Errorf("the history has %d checkpoints, %g s lost, the job's output %q", j.Checkpoints, *j.LostSeconds, last)
	}
	if span := j.Ended.Sub(j.Started).Seconds(); j.Seconds <= 0 || j.Seconds > span || j.ComputingSeconds == nil || *j.ComputingSeconds <= 0 {
		s.t.Errorf("it ran %g s, and computed, within %g s: %+v", j.Seconds, span, j)
	}
}

// holds: a job that waits is held as Burst holds one, and its user releases it.
func (s *site) holds() {
	s.t.Helper()
	id := s.submit("#!/bin/sh\n#SBATCH -N1 --begin=now+1hour\ntrue\n")
	if err := s.Slurm().Hold(s.t.Context(), id); err != nil {
		s.t.Fatal(err)
	}
	s.wait(10*time.Second, "it is held by its user", func() bool { return s.job(id).Reason == "JobHeldUser" })
	if out, err := s.Cluster.Command(s.t.Context(), "scontrol", "release", id10(id)).CombinedOutput(); err != nil {
		s.t.Errorf("%v: %s", err, out)
	}
	s.wait(20*time.Second, "it is not", func() bool { return !strings.HasPrefix(s.job(id).Reason, "JobHeld") })
	if err := s.Slurm().Hold(s.t.Context(), 9999); !errors.Is(err, slurm.ErrNoJob) {
		s.t.Errorf("a job that is not there: %v", err)
	}
}
