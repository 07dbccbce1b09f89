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
		if zones["b"] != 2 || zones["a"] != 0 || info.Restarts != 1 {
			t.Errorf("live are %v, restarted %d times", zones, info.Restarts)
		}
		if !strings.Contains(info.AdminComment, "begin anew") {
			t.Errorf("it was told %q", info.AdminComment)
		}
	})
}
