package e2e

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/burst-hpc/burst/cmd/internal/rig"
)

// quick has slurmctld look for work at once instead of every two seconds.
const quick = "SchedulerParameters=batch_sched_delay=0,sched_min_interval=0\n"

// lap is a run through a resume, an eviction and a suspension with a burstd
// that dies at one point and is started again.
const lap = `#!/bin/sh
#BURST signal=USR1 grace=10s
#SBATCH -N2 --requeue --open-mode=append
srun sh -c '
  trap "touch saved-$SLURM_JOB_ID; exit 75" USR1
  [ -e saved-$SLURM_JOB_ID ] && exit 0
  echo started
  while :; do sleep 0.05; done'
`

// TestKill9AtEveryPoint kills a real burstd with SIGKILL before and after
// every kind of commit, provider call and Slurm command that it passes in a
// resume, an eviction and a suspend. The points are those that the first lap
// writes down. After each lap the job is done, every node is off, no instance
// lives, and the journal is closed.
func TestKill9AtEveryPoint(t *testing.T) {
	t.Parallel() // a lap waits for slurmctld most of its time
	if testing.Short() {
		t.Skip("e2e: a real Slurm is slow; make test runs it")
	}
	log := filepath.Join(t.TempDir(), "points")
	if !t.Run("no death", func(t *testing.T) { start(t, lapSite("BURST_CRASH_LOG="+log), "crashpoints").lap() }) {
		return
	}
	points := distinct(t, log)
	if len(points) < 40 {
		t.Fatalf("only %d points: %v", len(points), points)
	}
	t.Logf("%d points: %v", len(points), points)
	var next, died atomic.Int32
	t.Run("a death at", func(t *testing.T) {
		for part := range lapSites { // sites that share the points
			t.Run(fmt.Sprintf("some by site %d", part+1), func(t *testing.T) {
				t.Parallel()
				var s *site
				for i := next.Add(1) - 1; int(i) < len(points); i = next.Add(1) - 1 {
					if s == nil {
						s = start(t, lapSite(), "crashpoints")
					}
					if s.lapWithDeath(points[i]) {
						died.Add(1)
					}
					if t.Failed() {
						t.Fatalf("at the point %q", points[i])
					}
				}
			})
		}
	})
	if n := int(died.Load()); !t.Failed() && n < len(points)*9/10 {
		t.Errorf("burstd died in %d of %d laps only", n, len(points))
	}
}

func lapSite(env ...string) rig.Options {
	return rig.Options{Nodes: 4, Gate: true, SuspendTime: time.Second, SuspendTimeout: 2 * time.Second, SlurmExtra: quick, BurstdEnv: env}
}

// distinct reads the points of a lap: each once, what only reads once too.
func distinct(t *testing.T, log string) []string {
	f, err := os.Open(log)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var points []string
	for sc := bufio.NewScanner(f); sc.Scan(); {
		name, n, _ := strings.Cut(sc.Text(), " #")
		update := strings.HasSuffix(name, "scontrol update") || strings.HasSuffix(name, "launch") || strings.HasSuffix(name, "terminate")
		if p := sc.Text(); (n == "1" || update && len(n) == 1) && !slices.Contains(points, p) {
			points = append(points, p)
		}
	}
	return points
}

// lapWithDeath says whether burstd died in the lap.
func (s *site) lapWithDeath(point string) bool {
	s.t.Helper()
	if err := s.StopBurstd(); err != nil {
		s.t.Fatal(err)
	}
	s.SetBurstdEnv("BURST_CRASH_AT=" + point)
	if err := s.StartBurstd(s.t.Context()); err != nil && s.BurstdAlive() {
		s.t.Fatal(err)
	}
	s.SetBurstdEnv()
	return s.lap()
}

// lap plays one lap; a burstd that is dead is started again after a moment.
func (s *site) lap() (died bool) {
	s.t.Helper()
	revive := func() {
		if !s.BurstdAlive() {
			died = true
			time.Sleep(300 * time.Millisecond)
			if err := s.StartBurstd(s.t.Context()); err != nil {
				s.t.Fatal(err)
			}
		}
	}
	wait := func(d time.Duration, what string, cond func() bool) {
		s.t.Helper()
		s.wait(d, what, func() bool { revive(); return cond() })
	}
	id := s.submit(lap)
	wait(60*time.Second, "both tasks run", func() bool { return strings.Count(s.output(id), "started") >= 2 })
	if err := s.Control.Evict(expand(s.t, s.job(id).Nodes)[0], 20*time.Second); err != nil {
		s.t.Fatal(err)
	}
	wait(90*time.Second, "the job is done", func() bool { return s.job(id).State == "COMPLETED" })
	if j := s.job(id); j.Restarts != 1 {
		s.t.Errorf("the job was restarted %d times", j.Restarts)
	}
	wait(90*time.Second, "no instance lives, all nodes are off", func() bool { return s.live() == 0 && s.off() == s.nodes() })
	wait(60*time.Second, "the journal is closed", func() bool {
		st, err := s.API.Status(s.t.Context())
		return err == nil && st.Orders == 0 && st.Instances == 0 && st.Evictions == 0 && len(st.Nodes) == 0
	})
	s.once()
	return died
}

// once checks that no node had two instances at the same time.
func (s *site) once() {
	s.t.Helper()
	all, err := s.Control.List()
	if err != nil {
		s.t.Fatal(err)
	}
	for i, a := range all {
		for _, b := range all[i+1:] {
			if a.Node != "" && a.Node == b.Node && b.Launched.Before(a.Ended) {
				s.t.Errorf("node %s: %s lived until %s, %s from %s on", a.Node, a.ID, a.Ended, b.ID, b.Launched)
			}
		}
	}
}
