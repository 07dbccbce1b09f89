package crash_test

import (
	"testing"
	"time"

	"github.com/burst-hpc/burst/cloud/cloudtest"
	"github.com/burst-hpc/burst/slurm/slurmtest"
)

// TestAJobFallsWithItsNode: a machine that shuts down ends the job's script
// first, so that Slurm has the job FAILED and requeues nothing.
func TestAJobFallsWithItsNode(t *testing.T) {
	for _, tt := range []struct {
		name    string
		ago     time.Duration // that it failed before the death
		job     slurmtest.Job
		code    int
		another bool // a node of the job goes, not that of its script
		want    int  // restarts
	}{
		{name: "just before", job: slurmtest.Job{Nodes: 1, Requeue: true}, code: 143, want: 1},
		{name: "another node of it", ago: 20 * time.Second, job: slurmtest.Job{Nodes: 2, Requeue: true}, code: 1, another: true, want: 1},
		{name: "long before", ago: 4 * time.Minute, job: slurmtest.Job{Nodes: 1, Requeue: true}, code: 1},
		{name: "it may not be requeued", job: slurmtest.Job{Nodes: 1}, code: 143},
		{name: "it has finished", job: slurmtest.Job{Nodes: 1, Requeue: true}},
	} {
		bubble(tt.name, t, cloudtest.Options{}, func(t *testing.T, s *story) {
			l := s.start("")
			tt.job.Duration = time.Hour
			id, on := s.running(tt.job)
			time.Sleep(31 * time.Second)
			s.ctl.Exit(id, tt.code)
			time.Sleep(tt.ago)
			victim := on[0]
			if tt.another {
				victim = on[len(on)-1]
			}
			s.fake.Kill(victim)
			l.engine.Ask(victim)
			if tt.want > 0 {
				s.wait(2*time.Minute, "the job runs again", s.runs(id))
			}
			time.Sleep(time.Minute)
			if i, _ := s.ctl.Info(id); i.Restarts != tt.want {
				t.Errorf("the job was requeued %d times, and is %s", i.Restarts, i.State)
			}
		})
	}
}

// TestAStrandedJob: Slurm has the job run on a node that it has DOWN.
func TestAStrandedJob(t *testing.T) {
	bubble("its instance dies", t, cloudtest.Options{}, func(t *testing.T, s *story) {
		l := s.start("")
		id, on := s.running(slurmtest.Job{Nodes: 1, Requeue: true, Duration: time.Hour})
		info, _ := s.ctl.Info(id)
		s.ctl.Strand(info.Nodes[0])
		s.fake.Kill(on[0])
		l.engine.Ask(on...)
		s.wait(2*time.Minute, "the job runs again", func() bool { i, _ := s.ctl.Info(id); return i.Restarts == 1 && i.State == "RUNNING" })
	})
	bubble("its instance died while burstd was away, and its node was powered down", t, cloudtest.Options{}, func(t *testing.T, s *story) {
		s.start("")
		id, on := s.running(slurmtest.Job{Nodes: 1, Requeue: true, Duration: time.Hour})
		info, _ := s.ctl.Info(id)
		s.die()
		s.ctl.Strand(info.Nodes[0])
		s.fake.Kill(on[0])
		if _, stderr, err := s.ctl.Run(t.Context(), "scontrol", "update", "NodeName="+info.Nodes[0], "State=POWER_DOWN_FORCE", "Reason=test"); err != nil {
			t.Fatalf("%v: %s", err, stderr)
		}
		s.start("")
		s.wait(5*time.Minute, "the job runs again", func() bool { i, _ := s.ctl.Info(id); return i.Restarts == 1 && i.State == "RUNNING" })
	})
}
