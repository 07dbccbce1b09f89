package crash_test

import (
	"strings"
	"testing"
	"time"

	"github.com/burst-hpc/burst/cloud/cloudtest"
	"github.com/burst-hpc/burst/slurm/slurmtest"
)

// running submits a job and waits until it runs; it returns the instances of its nodes.
func (s *story) running(j slurmtest.Job) (id uint32, instances []string) {
	s.t.Helper()
	id = s.ctl.Submit(j)
	s.wait(3*time.Minute, "the job runs", s.runs(id))
	info, _ := s.ctl.Info(id)
	for _, n := range info.Nodes {
		instances = append(instances, s.instanceOf(n))
	}
	return id, instances
}

func TestADeathWithoutANoticeIsBelievedOfTheCloudAlone(t *testing.T) {
	bubble("the cloud confirms it", t, cloudtest.Options{}, func(t *testing.T, s *story) {
		l := s.start("")
		id, on := s.running(slurmtest.Job{Nodes: 2, Requeue: true, Duration: time.Hour})
		time.Sleep(31 * time.Second)
		s.fake.Kill(on[0])
		l.engine.Ask("i-unknown", on[0], on[0])
		s.wait(3*time.Second, "its node is DOWN or off, its job waits", func() bool {
			return s.state(id) == "PENDING" && !strings.HasPrefix(s.ctl.Node("c1"), "ALLOCATED")
		})
		s.wait(5*time.Minute, "the job runs again", s.runs(id))
		if i, _ := s.ctl.Info(id); i.Restarts != 1 {
			t.Errorf("the job was requeued %d times", i.Restarts)
		}
	})
	bubble("the cloud says that it runs", t, cloudtest.Options{}, func(t *testing.T, s *story) {
		l := s.start("")
		id, on := s.running(slurmtest.Job{Nodes: 1, Requeue: true, Duration: time.Hour})
		time.Sleep(time.Minute)
		before, updates := s.fake.Calls(cloudtest.List), s.ctl.Count("scontrol update")
		for range 1000 {
			l.engine.Ask(on...)
			time.Sleep(10 * time.Millisecond)
		}
		if n := s.fake.Calls(cloudtest.List) - before; n < 3 || n > 8 {
			t.Errorf("a thousand questions in ten seconds were %d calls", n)
		}
		if n := s.ctl.Count("scontrol update") - updates; n > 0 || s.state(id) != "RUNNING" {
			t.Errorf("%d updates of Slurm, the job is %s", n, s.state(id))
		}
	})
	bubble("the cloud does not answer at first", t, cloudtest.Options{}, func(t *testing.T, s *story) {
		l := s.start("")
		id, on := s.running(slurmtest.Job{Nodes: 1, Requeue: true, Duration: time.Hour})
		time.Sleep(time.Minute)
		s.fake.Kill(on[0])
		s.fake.Inject(cloudtest.List, cloudtest.Fault{Err: transient(cloudtest.List), Times: 3})
		l.engine.Ask(on...)
		s.wait(20*time.Second, "the job waits", func() bool { return s.state(id) == "PENDING" })
	})
}
