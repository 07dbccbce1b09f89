package e2e

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

func notRequeueable(t *testing.T, s *site) {
	id := s.submit("#!/bin/sh\n#SBATCH -N1 --no-requeue\n#BURST signal=USR1 grace=5s\nsrun sh -c 'trap \"echo signal\" USR1; echo started; while :; do sleep 0.1; done'\n")
	s.wait(30*time.Second, "the job runs", func() bool { return strings.Contains(s.output(id), "started") })
	if err := s.Control.Evict(s.job(id).Nodes, 8*time.Second); err != nil {
		t.Fatal(err)
	}
	s.wait(5*time.Second, "it gets its signal, and its user is told", func() bool {
		return strings.Contains(s.output(id), "signal") && strings.Contains(s.job(id).AdminComment, "cannot be requeued")
	})
	if j := s.job(id); j.State != "RUNNING" {
		t.Errorf("it was ended before the end of the lead time: %s", j.State)
	}
	s.wait(90*time.Second, "it ends with its node", func() bool { return s.job(id).State != "RUNNING" && s.job(id).State != "COMPLETING" })
	if j := s.job(id); j.Restarts != 0 || j.State == "COMPLETED" {
		t.Errorf("state %s, restarts %d", j.State, j.Restarts)
	}
}

func finishes(t *testing.T, s *site) {
	id := s.submit("#!/bin/sh\n#SBATCH -N1 --exclusive --requeue --open-mode=append\n#BURST signal=USR1 grace=10s\nsrun sh -c 'trap \"exit 0\" USR1; echo started; while :; do sleep 0.1; done'\n")
	other := s.submit("#!/bin/sh\n#SBATCH -N1 --exclusive --requeue --open-mode=append\necho started; sleep 12\n")
	s.wait(30*time.Second, "both jobs run", func() bool {
		return strings.Contains(s.output(id), "started") && strings.Contains(s.output(other), "started")
	})
	if err := s.Control.Evict(s.job(id).Nodes, 30*time.Second); err != nil {
		t.Fatal(err)
	}
	s.completes(id)
	s.completes(other)
	time.Sleep(time.Second)
	for _, id := range []uint32{id, other} {
		if j := s.job(id); j.Restarts != 0 || j.State != "COMPLETED" {
			t.Errorf("job %d: state %s, restarts %d", id, j.State, j.Restarts)
		}
	}
}

// attemptsDoNotOverlap: a job that ignores SIGTERM goes on until it is killed;
// its next attempt must not begin, on whatever node, while the old one still writes.
func attemptsDoNotOverlap(t *testing.T, s *site) {
	id := s.submit(`#!/bin/sh
#SBATCH -N2 --requeue --open-mode=append
if [ -z "$SLURM_RESTART_COUNT" ]; then
  exec srun sh -c 'trap "" TERM; echo started; while :; do date +%s%N >> beat-$SLURM_PROCID; sleep 0.05; done'
fi
date +%s%N > begin; sleep 1
`)
	s.wait(30*time.Second, "the job runs", func() bool { return strings.Count(s.output(id), "started") == 2 })
	if err := s.Control.Evict(expand(t, s.job(id).Nodes)[1], 30*time.Second); err != nil {
		t.Fatal(err)
	}
	s.completes(id)
	if j := s.job(id); j.Restarts != 1 {
		t.Errorf("restarted %d times", j.Restarts)
	}
	begin := s.stamp("begin")
	for _, beat := range []string{"beat-0", "beat-1"} {
		if last := s.stamp(beat); last >= begin {
			t.Errorf("the old attempt's %s was written %s after the next had begun", beat, time.Duration(last-begin))
		}
	}
}

// stamp reads the last nanoseconds since 1970 that a file of the job's folder has.
func (s *site) stamp(name string) int64 {
	s.t.Helper()
	text, err := os.ReadFile(filepath.Join(s.Work, name))
	if err != nil {
		s.t.Fatal(err)
	}
	lines := strings.Fields(string(text))
	if len(lines) == 0 {
		s.t.Fatalf("%s has no time", name)
	}
	n, err := strconv.ParseInt(lines[len(lines)-1], 10, 64)
	if err != nil {
		s.t.Fatal(err)
	}
	return n
}
