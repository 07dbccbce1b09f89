package crash_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/cloud/cloudtest"
	"github.com/burst-hpc/burst/cloud/fleet"
	"github.com/burst-hpc/burst/slurm/power"
	"github.com/burst-hpc/burst/slurm/slurmtest"
)

// plain is a world with four cloud nodes on demand, and a daemon.
func plain(t *testing.T, c cloudtest.Options) *story {
	if c.Boot == 0 {
		c.Boot = 2 * time.Second
	}
	if c.Lag == 0 {
		c.Lag = 2 * time.Second
	}
	c.Prepare = true
	return &story{world: newWorld(t, slurmtest.Options{Nodes: expand("c[1-4]"), SuspendTime: 60 * time.Second,
		SuspendTimeout: 10 * time.Second, ResumeTimeout: 3 * time.Minute, ReturnToService: 2}, c, fleet.OnDemandOnly)}
}

func (s *story) state(id uint32) string {
	i, known := s.ctl.Info(id)
	if !known {
		return "forgotten"
	}
	return i.State
}

func (s *story) runs(id uint32) func() bool { return func() bool { return s.state(id) == "RUNNING" } }

// bubble runs a test in virtual time.
func bubble(name string, t *testing.T, c cloudtest.Options, f func(t *testing.T, s *story)) {
	t.Run(name, func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := plain(t, c)
			defer s.until()
			f(t, s)
		})
	})
}

func TestRule2OrdersAreComparedWithSlurmBeforeTheyAreCarriedOut(t *testing.T) {
	bubble("a resume that a suspend has overtaken", t, cloudtest.Options{}, func(t *testing.T, s *story) {
		id := s.ctl.Submit(slurmtest.Job{Nodes: 1, Duration: time.Hour}) // no daemon: the order is spooled
		s.wait(time.Minute, "the order", func() bool { s.mu.Lock(); defer s.mu.Unlock(); return len(s.spool) == 1 })
		s.ctl.Cancel(id)
		if _, _, err := s.ctl.Run(t.Context(), "scontrol", "update", "nodename=c1", "state=power_down_force"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		s.start("")
		s.wait(time.Minute, "the orders are settled", func() bool { return s.closed() })
		if n := len(s.fake.Instances()); n != 0 {
			t.Errorf("%d instances were launched for a node that Slurm has powered down", n)
		}
	})
	bubble("spooled orders are done when burstd is back after 20 s", t, cloudtest.Options{}, func(t *testing.T, s *story) {
		id := s.ctl.Submit(slurmtest.Job{Nodes: 2, Duration: time.Hour})
		time.Sleep(20 * time.Second)
		s.start("")
		s.wait(10*time.Second, "the job runs", s.runs(id))
	})
}

func TestRule3LostOrdersAreMadeAgainFromSlurm(t *testing.T) {
	bubble("the resume order is lost", t, cloudtest.Options{}, func(t *testing.T, s *story) {
		s.start("")
		s.ctl.LoseResume()
		id := s.ctl.Submit(slurmtest.Job{Nodes: 2, Duration: time.Hour})
		s.wait(2*time.Minute, "the job runs", s.runs(id))
	})
	bubble("journal and spool are lost while nodes run", t, cloudtest.Options{}, func(t *testing.T, s *story) {
		s.start("")
		id := s.ctl.Submit(slurmtest.Job{Nodes: 2, Duration: 10 * time.Minute})
		s.wait(time.Minute, "the job runs", s.runs(id))
		s.die()
		if err := os.Remove(s.db); err != nil {
			t.Fatal(err)
		}
		s.start("")
		s.wait(time.Minute, "both instances are adopted", func() bool { return strings.Count(s.open(), "Phase:up") == 2 })
		s.wait(20*time.Minute, "the job is done and nothing lives", func() bool { return s.live() == 0 && s.state(id) != "RUNNING" })
		if i, _ := s.ctl.Info(id); i.Restarts > 0 {
			t.Errorf("the job was restarted %d times", i.Restarts)
		}
	})
	bubble("the suspend order is lost", t, cloudtest.Options{}, func(t *testing.T, s *story) {
		s.start("")
		id := s.ctl.Submit(slurmtest.Job{Nodes: 1, Duration: time.Minute})
		s.wait(time.Minute, "the job runs", s.runs(id))
		s.wait(3*time.Minute, "suspension", func() bool { return strings.Contains(s.ctl.Node("c1"), "POWERING_DOWN") || s.swallow() })
		s.wait(2*time.Minute, "no instance lives", func() bool { return s.live() == 0 })
	})
}

// swallow loses every order from now on.
func (s *story) swallow() bool {
	s.orderless(true)
	return false
}

func TestRule4ALostAnswerLaunchesNothingTwice(t *testing.T) {
	for _, tt := range []struct {
		name  string
		fault func(f *cloudtest.Fake)
	}{
		{"the answer is lost", func(f *cloudtest.Fake) { f.LoseAnswer(cloudtest.Launch) }},
		{"three answers are lost", func(f *cloudtest.Fake) {
			f.Inject(cloudtest.Launch, cloudtest.Fault{Err: &cloud.Error{Kind: cloud.Transient, Op: "launch", Err: errKilled}, Times: 3, Lost: true})
		}},
		{"throttled", func(f *cloudtest.Fake) { f.Fail(cloudtest.Launch, cloud.Throttled) }},
	} {
		bubble(tt.name, t, cloudtest.Options{}, func(t *testing.T, s *story) {
			tt.fault(s.fake)
			s.start("")
			id := s.ctl.Submit(slurmtest.Job{Nodes: 2, Duration: time.Minute})
			s.wait(time.Minute, "the job runs", s.runs(id))
			if n := len(s.fake.Instances()); n != 2 {
				t.Errorf("%d instances for two nodes", n)
			}
		})
	}
	bubble("suspended while the answer is on its way", t, cloudtest.Options{Latency: map[cloudtest.Op]time.Duration{cloudtest.Launch: 20 * time.Second}}, func(t *testing.T, s *story) {
		s.start("")
		id := s.ctl.Submit(slurmtest.Job{Nodes: 1, Duration: time.Minute})
		time.Sleep(5 * time.Second)
		s.ctl.Cancel(id)
		s.wait(2*time.Minute, "the launch has been called", func() bool { return len(s.fake.Instances()) == 1 })
		s.wait(2*time.Minute, "nothing lives, all is closed", func() bool { return s.live() == 0 && s.closed() })
	})
}

func TestRule7AnEmptyAnswerIsNoAnswer(t *testing.T) {
	bubble("the cloud does not answer for ten minutes", t, cloudtest.Options{}, func(t *testing.T, s *story) {
		s.start("")
		id := s.ctl.Submit(slurmtest.Job{Nodes: 2, Duration: 20 * time.Minute})
		s.wait(time.Minute, "the job runs", s.runs(id))
		s.fake.Inject(cloudtest.List, cloudtest.Fault{Err: &cloud.Error{Kind: cloud.Transient, Op: "list", Err: errKilled}, Times: 20})
		s.wait(30*time.Minute, "the job is done", func() bool { return s.state(id) == "COMPLETED" })
		if i, _ := s.ctl.Info(id); i.Restarts > 0 {
			t.Errorf("the job was restarted")
		}
	})
	bubble("a node does not respond, its instance lives", t, cloudtest.Options{}, func(t *testing.T, s *story) {
		s.start("")
		id := s.ctl.Submit(slurmtest.Job{Nodes: 1, Duration: 4 * time.Minute})
		s.wait(time.Minute, "the job runs", s.runs(id))
		before := s.ctl.Count("scontrol update")
		s.ctl.Lost("c1") // a VPN that flaps; SlurmdTimeout is five minutes
		time.Sleep(3 * time.Minute)
		if n := s.ctl.Count("scontrol update") - before; n > 0 {
			t.Errorf("%d updates of Slurm though the cloud said nothing", n)
		}
		if s.live() != 1 {
			t.Error("the instance was ended")
		}
	})
	bubble("slurmctld is away", t, cloudtest.Options{}, func(t *testing.T, s *story) {
		s.start("")
		id := s.ctl.Submit(slurmtest.Job{Nodes: 2, Duration: 3 * time.Minute})
		s.wait(time.Minute, "the job runs", s.runs(id))
		s.ctl.Down()
		time.Sleep(5 * time.Minute)
		if s.live() != 2 {
			t.Error("instances were ended while Slurm did not answer")
		}
		s.ctl.Up()
		s.wait(20*time.Minute, "all is over", func() bool { return s.live() == 0 && s.closed() })
	})
	bubble("orphans end a bounded number a round, and not in the first", t, cloudtest.Options{}, func(t *testing.T, s *story) {
		l := s.start("")
		id, err := l.store.ClusterID(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.fake.Launch(t.Context(), cloud.LaunchRequest{Token: "foreign", Cluster: id, Pool: "p", Count: 50, Offering: cloud.Offering{Type: "small", Zone: "a", Market: cloud.OnDemand}}); err != nil {
			t.Fatal(err)
		}
		s.die()
		s.start("")
		time.Sleep(10 * time.Second)
		if s.live() != 50 {
			t.Errorf("the first round ended %d instances", 50-s.live())
		}
		s.wait(time.Minute, "some end", func() bool { return s.live() < 50 })
		if s.live() < 50-20 {
			t.Errorf("one round ended %d instances", 50-s.live())
		}
		s.wait(5*time.Minute, "all end", func() bool { return s.live() == 0 })
	})
}

func TestRule8WhatIsStaleHitsNothingNew(t *testing.T) {
	bubble("an old suspend order after a new resume", t, cloudtest.Options{}, func(t *testing.T, s *story) {
		l := s.start("")
		old := time.Now()
		time.Sleep(time.Second)
		id := s.ctl.Submit(slurmtest.Job{Nodes: 1, Duration: 10 * time.Minute})
		for _, p := range []string{"while it boots", "while it runs"} {
			if p == "while it runs" {
				s.wait(time.Minute, "the job runs", s.runs(id))
			} else {
				time.Sleep(2 * time.Second)
			}
			if err := l.engine.AddOrder(l.ctx, power.Order{ID: "stale " + p, Kind: power.Suspend, Nodes: "c1", Made: old}); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Minute)
		if s.live() != 1 || s.state(id) != "RUNNING" {
			t.Errorf("%d instances live, the job is %s", s.live(), s.state(id))
		}
	})
	bubble("a notice for the node's former instance", t, cloudtest.Options{}, func(t *testing.T, s *story) {
		s.start("")
		id := s.ctl.Submit(slurmtest.Job{Nodes: 1, Duration: 10 * time.Minute})
		s.wait(time.Minute, "the job runs", s.runs(id))
		s.fake.Announce(cloud.Notice{Instance: "i-former", Kind: cloud.SpotInterruption, Deadline: time.Now().Add(time.Minute)})
		s.wait(time.Minute, "it is counted", func() bool { _, foreign := s.life.guard.Active(); return foreign == 1 })
		if strings.Contains(s.ctl.Node("c1"), "DRAIN") || s.state(id) != "RUNNING" {
			t.Errorf("node %s, job %s", s.ctl.Node("c1"), s.state(id))
		}
	})
	bubble("the same notice again after the job runs elsewhere", t, cloudtest.Options{}, func(t *testing.T, s *story) {
		s.start("")
		id := s.ctl.Submit(slurmtest.Job{Nodes: 1, Requeue: true, Duration: 10 * time.Minute})
		s.wait(time.Minute, "the job runs", s.runs(id))
		info, _ := s.ctl.Info(id)
		n := cloud.Notice{Instance: s.instanceOf(info.Nodes[0]), Kind: cloud.SpotInterruption, Deadline: time.Now().Add(time.Minute)}
		s.fake.Announce(n)
		s.wait(5*time.Minute, "the job runs again", func() bool { i, _ := s.ctl.Info(id); return i.Restarts == 1 && i.State == "RUNNING" })
		s.fake.Announce(n)
		n.Deadline = n.Deadline.Add(-30 * time.Second)
		s.fake.Announce(n)
		time.Sleep(2 * time.Minute)
		if i, _ := s.ctl.Info(id); i.Restarts != 1 || i.State != "RUNNING" {
			t.Errorf("the job was hit again: %+v", i)
		}
	})
}

func TestNoCapacityDoesNotSpin(t *testing.T) {
	bubble("ten minutes without any capacity", t, cloudtest.Options{}, func(t *testing.T, s *story) {
		for _, z := range []string{"a", "b"} {
			s.fake.SetCapacity(cloud.Offering{Type: "small", Zone: z, Market: cloud.OnDemand}, 0)
		}
		s.start("")
		id := s.ctl.Submit(slurmtest.Job{Nodes: 2, Requeue: true, Duration: time.Minute})
		time.Sleep(10 * time.Minute)
		i, _ := s.ctl.Info(id)
		if i.Restarts < 2 || i.Restarts > 10 {
			t.Errorf("requeued %d times in ten minutes", i.Restarts)
		}
		if n := s.fake.Calls(cloudtest.Launch); n > 20 {
			t.Errorf("%d launches were tried in ten minutes", n)
		}
		if !strings.Contains(i.AdminComment, "no capacity") {
			t.Errorf("the job is not told why it waits: %q", i.AdminComment)
		}
		s.fake.SetCapacity(cloud.Offering{Type: "small", Zone: "b", Market: cloud.OnDemand}, -1)
		s.wait(15*time.Minute, "the job runs when there is capacity", s.runs(id))
	})
	bubble("a job with --no-requeue waits too", t, cloudtest.Options{}, func(t *testing.T, s *story) {
		for _, z := range []string{"a", "b"} {
			s.fake.SetCapacity(cloud.Offering{Type: "small", Zone: z, Market: cloud.OnDemand}, 0)
		}
		s.start("")
		id := s.ctl.Submit(slurmtest.Job{Nodes: 2, Duration: time.Minute})
		s.wait(time.Minute, "the job waits and knows why", func() bool {
			i, _ := s.ctl.Info(id)
			return i.State == "PENDING" && strings.Contains(i.AdminComment, "no capacity")
		})
		s.wait(time.Minute, "it may not be requeued again", func() bool {
			out, _, err := s.ctl.Run(t.Context(), "scontrol", "-o", "show", "job", fmt.Sprint(id))
			return err == nil && strings.Contains(string(out), "Requeue=0")
		})
		s.fake.SetCapacity(cloud.Offering{Type: "small", Zone: "b", Market: cloud.OnDemand}, -1)
		s.wait(15*time.Minute, "the job runs when there is capacity", s.runs(id))
	})
	bubble("capacity for half of the job", t, cloudtest.Options{}, func(t *testing.T, s *story) {
		s.fake.SetCapacity(cloud.Offering{Type: "small", Zone: "a", Market: cloud.OnDemand}, 1)
		s.start("")
		id := s.ctl.Submit(slurmtest.Job{Nodes: 2, Requeue: true, Duration: time.Minute})
		s.wait(time.Minute, "the job runs", s.runs(id))
		for _, i := range s.fake.Instances() {
			if i.State.Live() && i.Offering.Zone != "b" {
				t.Errorf("an instance in %s: the job's nodes are in two zones", i.Offering)
			}
		}
	})
}

func TestNodesThatNobodyNeedsAreGivenBack(t *testing.T) {
	bubble("a job cancelled while its nodes boot", t, cloudtest.Options{Boot: time.Minute}, func(t *testing.T, s *story) {
		s.start("")
		id := s.ctl.Submit(slurmtest.Job{Nodes: 2, Duration: time.Hour})
		time.Sleep(10 * time.Second)
		s.ctl.Cancel(id)
		s.wait(40*time.Second, "the instances end long before SuspendTime", func() bool { return s.live() == 0 })
		s.wait(time.Minute, "the nodes are off", func() bool { return strings.Contains(s.ctl.Node("c1"), "POWERED_DOWN") })
	})
	bubble("an instance that never registers", t, cloudtest.Options{Boot: time.Hour}, func(t *testing.T, s *story) {
		s.start("")
		id := s.ctl.Submit(slurmtest.Job{Nodes: 1, Requeue: true, Duration: time.Minute})
		s.wait(10*time.Minute, "its instance ends after ResumeTimeout", func() bool { return s.live() == 0 && len(s.fake.Instances()) > 0 })
		s.wait(2*time.Minute, "the job is told", func() bool { i, _ := s.ctl.Info(id); return strings.Contains(i.AdminComment, "ResumeTimeout") })
	})
	bubble("instances that die before they register", t, cloudtest.Options{Boot: time.Hour}, func(t *testing.T, s *story) {
		s.start("")
		id := s.ctl.Submit(slurmtest.Job{Nodes: 1, Requeue: true, Duration: time.Minute})
		for n := 1; n <= 3; n++ {
			s.wait(2*time.Minute, fmt.Sprint("instance ", n), func() bool { return len(s.fake.Instances()) == n })
			time.Sleep(time.Second)
			s.fake.Kill(s.fake.Instances()[n-1].ID)
		}
		s.wait(2*time.Minute, "the job is told", func() bool { i, _ := s.ctl.Info(id); return strings.Contains(i.AdminComment, "3 instances in a row") })
	})
}
