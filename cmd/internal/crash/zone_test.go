package crash_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/cloud/cloudtest"
	"github.com/burst-hpc/burst/slurm/slurmtest"
)

// TestAJobLeavesAnIdleNodeWhoseZoneIsDry: in a pool of one source its nodes begin anew in another zone, where Slurm would
// give it the same idle node again and again.
func TestAJobLeavesAnIdleNodeWhoseZoneIsDry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := featured(t, cloudtest.Options{}, 10*time.Hour)
		defer s.until()
		s.pool.Then = nil
		s.start("")
		first := s.ctl.Submit(slurmtest.Job{Duration: 10 * time.Second})
		s.wait(time.Minute, "the first job is done", s.over(first))
		s.room(0)
		pair := s.ctl.Submit(slurmtest.Job{Nodes: 2, Requeue: true, Duration: time.Hour})
		s.wait(150*time.Second, "the job of two nodes runs", s.runs(pair))
		info, _ := s.ctl.Info(pair)
		zones := map[string]int{}
		for _, i := range s.fake.Instances() {
			if i.State == cloud.Running {
				zones[i.Offering.Zone]++
			}
		}
		if zones["b"] != 2 || zones["a"] != 0 || info.Restarts != 2 { // the first time it waits for the zone
			t.Errorf("live are %v, restarted %d times", zones, info.Restarts)
		}
		if !strings.Contains(info.AdminComment, "begin anew") {
			t.Errorf("it was told %q", info.AdminComment)
		}
	})
}

// TestAJobKeepsManyIdleNodes: three are idle in zone a, which has none for a fourth.
func TestAJobKeepsManyIdleNodes(t *testing.T) {
	idleAndOneMore(t, 3, func(s *story, job uint32) {
		if n := liveIn(s.fake); n != 3 {
			t.Errorf("%d of the idle ones live", n)
		}
		s.room(-1)
		s.wait(20*time.Minute, "it runs when there is room", s.runs(job))
		if n := len(s.fake.Instances()); n != 4 || s.events("power-down") > 0 {
			t.Errorf("%d were launched in all, %d left", n, s.events("power-down"))
		}
	})
}

// TestAJobDoesNotGoToAndFro between two dry zones: it leaves the idle node of one for the other, once.
func TestAJobDoesNotGoToAndFro(t *testing.T) {
	idleAndOneMore(t, 1, func(s *story, job uint32) {
		s.room(1)
		one := s.ctl.Submit(slurmtest.Job{Duration: 10 * time.Second})
		s.wait(20*time.Minute, "another job of one node is done", s.over(one))
		info, _ := s.ctl.Info(job)
		s.wait(time.Hour, "it has tried twice more", func() bool { i, _ := s.ctl.Info(job); return i.Restarts > info.Restarts+1 })
		if n := s.events("power-down"); n != 1 {
			t.Errorf("it has left %d nodes", n)
		}
	})
}

// idleAndOneMore has a job that gets so many idle nodes of zone a, and needs one more where there is none, try three times.
func idleAndOneMore(t *testing.T, idle int, then func(s *story, job uint32)) {
	synctest.Test(t, func(t *testing.T) {
		s := featured(t, cloudtest.Options{}, 10*time.Hour)
		defer s.until()
		s.pool.Then = nil
		s.start("")
		first := s.ctl.Submit(slurmtest.Job{Nodes: idle, Duration: 10 * time.Second})
		s.wait(time.Minute, "the first job is done", s.over(first))
		s.room(0)
		if idle == 1 {
			s.fake.SetCapacity(offering("b", cloud.OnDemand), 0)
		}
		job := s.ctl.Submit(slurmtest.Job{Nodes: idle + 1, Requeue: true, Duration: time.Hour})
		s.wait(20*time.Minute, "it has tried three times", func() bool { i, _ := s.ctl.Info(job); return i.Restarts > 2 })
		then(s, job)
	})
}
