package crash_test

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/cloud/cloudtest"
	"github.com/burst-hpc/burst/cloud/fleet"
	"github.com/burst-hpc/burst/slurm/slurmtest"
)

// toTheSite plays a job that asked for the site, whose only node is busy, and for the cloud, which has no capacity: the
// pool's nodes are set aside, and the job has the site's as soon as that is free. Then the pool has capacity, and another has that.
func toTheSite(t *testing.T, at string) *life {
	s := &story{world: newWorld(t, slurmtest.Options{Nodes: expand("c[1-3]"), OnPrem: []string{"s1"}, SuspendTime: 30 * time.Second,
		SuspendTimeout: 15 * time.Second, ResumeTimeout: 3 * time.Minute, ReturnToService: 2},
		cloudtest.Options{Boot: 3 * time.Second, Lag: 2 * time.Second, Shutdown: time.Second, Prepare: true}, fleet.OnDemandOnly)}
	defer s.until()
	s.full()
	first := s.start(at)
	waitFor := func(d time.Duration, what string, cond func() bool) {
		t.Helper()
		s.wait(d, what, func() bool {
			if s.isDead() {
				s.die()
				time.Sleep(3 * time.Second)
				s.start("")
			}
			return cond()
		})
	}
	const busy = 4 * time.Minute
	s.ctl.Submit(slurmtest.Job{Name: "site", Partition: "onprem", Duration: busy})
	time.Sleep(2 * time.Second)
	began := time.Now()
	id := s.ctl.Submit(slurmtest.Job{Name: "either", Partition: "onprem,cloud", Requeue: true, Duration: time.Minute})
	waitFor(30*time.Second, "the pool's nodes are aside", func() bool { return s.aside() == "c1 c2 c3" })
	waitFor(time.Minute, "the job may start at once", func() bool {
		i, _ := s.ctl.Info(id)
		return i.State == "PENDING" && i.Begin.Before(began.Add(3*time.Minute)) &&
			strings.Contains(i.AdminComment, "no capacity in pool p (small/a/on-demand, small/b/on-demand); it goes to nodes of the site; starts again from ")
	})
	waitFor(busy+time.Minute, "the job runs", s.runs(id))
	if i, _ := s.ctl.Info(id); strings.Join(i.Nodes, " ") != "s1" || at == "" && time.Since(began) > busy+5*time.Second {
		t.Errorf("after %s it runs on %v: %s", time.Since(began), i.Nodes, i.AdminComment)
	}
	for _, z := range []string{"a", "b"} {
		s.fake.SetCapacity(offering(z, cloud.OnDemand), -1)
	}
	waitFor(12*time.Minute, "no node is aside", func() bool { return s.aside() == "" })
	next := s.ctl.Submit(slurmtest.Job{Name: "next", Partition: "cloud", Requeue: true, Duration: time.Minute})
	waitFor(4*time.Minute, "the next job runs", s.runs(next))
	waitFor(10*time.Minute, "all is done", func() bool {
		return s.state(id) == "COMPLETED" && s.state(next) == "COMPLETED" && s.live() == 0 && s.closed()
	})
	return first
}

// TestAJobGoesToTheSite, which is the only place beside the pool, wherever burstd dies.
func TestAJobGoesToTheSite(t *testing.T) {
	var points []string
	synctest.Test(t, func(t *testing.T) { points = toTheSite(t, "").log })
	if t.Failed() {
		return
	}
	chosen := slices.DeleteFunc(points, func(p string) bool {
		name, n, _ := strings.Cut(p, " #")
		return len(n) > 1 || !strings.Contains(name, "commit") && !strings.Contains(name, "scontrol")
	})
	most := 30
	if testing.Short() {
		most = 2
	}
	for n, every := 0, max(1, len(chosen)/most); n < len(chosen); n += every {
		t.Run(strings.ReplaceAll(chosen[n], " ", "_"), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { toTheSite(t, chosen[n]) })
		})
	}
}
