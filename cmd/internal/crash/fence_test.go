package crash_test

import (
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/cloud/cloudtest"
	"github.com/burst-hpc/burst/cloud/fleet"
	"github.com/burst-hpc/burst/slurm/power"
	"github.com/burst-hpc/burst/slurm/slurmtest"
)

// cutOff loses the node's network, and waits until slurmctld has given it up.
func (s *story) cutOff(nodes ...string) {
	s.t.Helper()
	for _, n := range nodes {
		s.ctl.Lost(n) // NOT_RESPONDING after five minutes, DOWN after ten
	}
	s.wait(11*time.Minute, "slurmctld gives the nodes up", func() bool {
		for _, n := range nodes {
			if strings.HasPrefix(s.ctl.Node(n), "DOWN") {
				return true
			}
		}
		return false
	})
}

// back gives the node its network again.
func (s *story) back(node string) {
	for _, i := range s.fake.Instances() {
		if s.fake.Nodes()[i.ID] == node && i.State.Live() {
			s.ctl.RegisterBooted(node, i.Launched)
		}
	}
}

// long runs a test in a world whose nodes stay idle, and then powering down, for
// long: a requeued job is given other nodes than the one that it has lost.
func long(name string, t *testing.T, f func(t *testing.T, s *story)) {
	t.Run(name, func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := &story{world: newWorld(t, slurmtest.Options{Nodes: expand("c[1-4]"), SuspendTime: 10 * time.Minute, SuspendTimeout: 20 * time.Minute,
				ResumeTimeout: 3 * time.Minute, ReturnToService: 2}, cloudtest.Options{Boot: 2 * time.Second, Lag: 2 * time.Second, Prepare: true,
				Shutdown: 5 * time.Minute}, fleet.OnDemandOnly)} // longer than Slurm holds a requeued job
			defer s.until()
			f(t, s)
		})
	})
}

// stateOf is the instance's, in truth.
func (s *story) stateOf(instance string) cloud.State {
	for _, i := range s.fake.Instances() {
		if i.ID == instance {
			return i.State
		}
	}
	return "unknown"
}

func TestAVPNThatFlapsRequeuesNothing(t *testing.T) {
	bubble("nodes do not answer for four minutes, and come back", t, cloudtest.Options{}, func(t *testing.T, s *story) {
		s.start("")
		id, on := s.running(slurmtest.Job{Nodes: 3, Requeue: true, Duration: time.Hour})
		updates := s.ctl.Count("scontrol update")
		for _, n := range []string{"c1", "c2", "c3"} {
			s.ctl.Lost(n)
		}
		s.wait(6*time.Minute, "Slurm says so", func() bool { return strings.Contains(s.ctl.Node("c1"), "NOT_RESPONDING") })
		lists := s.fake.Calls(cloudtest.List)
		s.wait(8*time.Second, "the cloud is asked within seconds", func() bool { return s.fake.Calls(cloudtest.List) > lists })
		time.Sleep(4 * time.Minute)
		for _, n := range []string{"c1", "c2", "c3"} {
			s.back(n)
		}
		time.Sleep(5 * time.Minute)
		if n := s.ctl.Count("scontrol update") - updates; n > 0 || s.live() != 3 {
			t.Errorf("%d updates of Slurm, %d of %d instances live", n, s.live(), len(on))
		}
		if i, _ := s.ctl.Info(id); i.State != "RUNNING" || i.Restarts > 0 {
			t.Errorf("the job is %+v", i)
		}
	})
	bubble("burstd begins while a node that has just registered does not answer", t, cloudtest.Options{}, func(t *testing.T, s *story) {
		s.start("")
		id, _ := s.running(slurmtest.Job{Nodes: 1, Requeue: true, Duration: time.Hour})
		s.die()
		s.edit(func(st power.State) power.Change { // it never saw it register
			st.Nodes[0].Phase = power.Booting
			return power.Change{Nodes: st.Nodes}
		})
		s.ctl.Lost("c1")
		time.Sleep(6 * time.Minute)
		s.start("")
		time.Sleep(time.Minute)
		s.back("c1")
		time.Sleep(time.Minute)
		if i, _ := s.ctl.Info(id); i.State != "RUNNING" || i.Restarts > 0 || s.live() != 1 {
			t.Errorf("%d instances live, the job is %+v", s.live(), i)
		}
	})
}

// TestRule9TheNextAttemptWaitsForTheEndOfTheOld: the old one runs on where
// Slurm cannot see it.
func TestRule9TheNextAttemptWaitsForTheEndOfTheOld(t *testing.T) {
	for _, tt := range []struct {
		name string
		then func(t *testing.T, s *story) // after the node is lost
		full bool                         // only in the full run: much virtual time
	}{
		{"undisturbed", func(_ *testing.T, s *story) { s.cutOff("c1") }, false},
		{"burstd dies when the fence is written", func(_ *testing.T, s *story) {
			s.cutOff("c1")
			s.wait(10*time.Second, "the fence is in the journal", func() bool { return strings.Contains(s.open(), "Fences:[{") })
			s.die()
			time.Sleep(3 * time.Minute)
			s.start("")
		}, false},
		{"burstd is away when Slurm gives the node up", func(_ *testing.T, s *story) {
			s.die()
			s.cutOff("c1")
			time.Sleep(3 * time.Minute)
			s.start("")
		}, true},
		{"the node is powered down while burstd is away", func(t *testing.T, s *story) {
			s.die()
			s.cutOff("c1")
			if _, _, err := s.ctl.Run(t.Context(), "scontrol", "update", "nodename=c1", "state=power_down_force", "reason=admin"); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Minute)
			s.start("")
		}, false},
		{"the cloud refuses to end it at first", func(_ *testing.T, s *story) {
			s.fake.Inject(cloudtest.Terminate, cloudtest.Fault{Err: transient(cloudtest.Terminate), Times: 20})
			s.cutOff("c1")
		}, true},
		{"the cloud does not answer for long", func(_ *testing.T, s *story) {
			s.cutOff("c1")
			s.wait(10*time.Second, "the fence is in the journal", func() bool { return strings.Contains(s.open(), "Fences:[{") })
			s.fake.Inject(cloudtest.List, cloudtest.Fault{Err: transient(cloudtest.List), Times: 40})
		}, true},
		{"an admin looks at the node, and ends it in the end", func(t *testing.T, s *story) {
			if _, _, err := s.ctl.Run(t.Context(), "scontrol", "update", "nodename=c1", "state=drain", "reason=mine"); err != nil {
				t.Fatal(err)
			}
			s.cutOff("c1")
			time.Sleep(20 * time.Minute)
			if _, _, err := s.ctl.Run(t.Context(), "scontrol", "update", "nodename=c1", "state=power_down_force", "reason=mine"); err != nil {
				t.Fatal(err)
			}
		}, true},
	} {
		if tt.full && testing.Short() {
			continue
		}
		long(tt.name, t, func(t *testing.T, s *story) {
			var old atomic.Value // a mutex would hold the bubble's time
			var early atomic.Bool
			s.start("")
			id, on := s.running(slurmtest.Job{Nodes: 1, Requeue: true, Duration: 20 * time.Minute, OnStart: func(_ uint32, restarts int) {
				if restarts > 0 && s.stateOf(old.Load().(string)) != cloud.Terminated {
					early.Store(true)
				}
			}})
			old.Store(on[0])
			time.Sleep(time.Minute)
			s.ctl.Lost("c1")
			tt.then(t, s)
			told := false
			s.wait(90*time.Minute, "the job runs again", func() bool {
				i, _ := s.ctl.Info(id)
				told = told || i.State == "CONFIGURING" && strings.Contains(i.AdminComment, "until instance "+on[0])
				return i.State == "RUNNING" && i.Restarts > 0
			})
			if early.Load() || !told {
				t.Errorf("it began while its old attempt might run: %v; it was told why it waits: %v", early.Load(), told)
			}
			s.wait(time.Hour, "all is over", func() bool { return s.live() == 0 && s.closed() })
		})
	}
	long("the node comes back before its instance is ended", t, func(t *testing.T, s *story) {
		s.start("")
		id, on := s.running(slurmtest.Job{Nodes: 1, Requeue: true, Duration: 20 * time.Minute})
		s.cutOff("c1")
		s.wait(10*time.Second, "the fence is in the journal", func() bool { return strings.Contains(s.open(), "Fences:[{") })
		s.back("c1")
		s.wait(30*time.Second, "the fence falls", func() bool { return !strings.Contains(s.open(), "Fences:[{") })
		s.wait(5*time.Minute, "the job runs again", s.runs(id))
		if s.stateOf(on[0]) != cloud.Running {
			t.Errorf("the instance is %s", s.stateOf(on[0]))
		}
	})
	long("first attempts and jobs elsewhere wait for nothing", t, func(t *testing.T, s *story) {
		s.start("")
		_, _ = s.running(slurmtest.Job{Nodes: 1, Requeue: true, Duration: time.Hour})
		s.cutOff("c1")
		id := s.ctl.Submit(slurmtest.Job{Nodes: 1, Duration: time.Minute})
		s.wait(30*time.Second, "a new job runs", s.runs(id))
	})
	long("the instance stops by itself, and takes its time", t, func(t *testing.T, s *story) {
		l := s.start("")
		var old atomic.Value
		id, on := s.running(slurmtest.Job{Nodes: 1, Requeue: true, Duration: time.Hour, OnStart: func(_ uint32, restarts int) {
			if restarts > 0 && s.stateOf(old.Load().(string)) != cloud.Terminated {
				t.Errorf("it began while its old instance was %s", s.stateOf(old.Load().(string)))
			}
		}})
		old.Store(on[0])
		time.Sleep(time.Minute)
		if err := s.fake.Terminate(t.Context(), on); err != nil { // somebody in the cloud's console
			t.Fatal(err)
		}
		l.engine.Ask(on...)
		s.wait(5*time.Second, "its job is requeued", func() bool { return s.state(id) != "RUNNING" })
		s.wait(20*time.Minute, "the job runs again", s.runs(id))
	})
}

func TestALongOutageOfTheNetworkEndsFewInstancesARound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &story{world: newWorld(t, slurmtest.Options{Nodes: expand("c[1-60]"), SuspendTime: 5 * time.Hour,
			SuspendTimeout: 10 * time.Second, ResumeTimeout: 3 * time.Minute, ReturnToService: 2}, cloudtest.Options{Boot: 2 * time.Second, Lag: 2 * time.Second, Prepare: true}, fleet.OnDemandOnly)}
		defer s.until()
		s.start("")
		var jobs []uint32
		for range 60 {
			jobs = append(jobs, s.ctl.Submit(slurmtest.Job{Nodes: 1, Requeue: true, Duration: 4 * time.Hour}))
		}
		for _, id := range jobs {
			s.wait(3*time.Minute, "the job runs", s.runs(id))
		}
		s.cutOff(expand("c[1-60]")...)
		if s.live() != 60 {
			t.Errorf("%d instances live when slurmctld gives them up", s.live())
		}
		ended := func() int {
			n := 0
			for _, i := range s.fake.Instances() {
				if i.State == cloud.Terminated || i.State == cloud.Terminating {
					n++
				}
			}
			return n
		}
		s.wait(2*time.Minute, "some are ended", func() bool { return ended() > 0 })
		if n := ended(); n > 20 {
			t.Errorf("%d instances were ended at once", n)
		}
		for n := range 60 { // the network is back: what lives is kept
			s.back(fmt.Sprint("c", n+1))
		}
		kept := 60 - ended()
		time.Sleep(10 * time.Minute)
		if n := ended(); n > 60-kept+1 {
			t.Errorf("%d were ended though the network was back", n)
		}
	})
}

func TestNothingIsConcludedFromABadList(t *testing.T) {
	bubble("another account: an empty list, for hours", t, cloudtest.Options{}, func(t *testing.T, s *story) {
		s.start("")
		id, _ := s.running(slurmtest.Job{Nodes: 3, Requeue: true, Duration: 5 * time.Hour})
		s.die()
		s.cloud = cloudtest.NewFake(cloudtest.Options{})
		s.start("")
		time.Sleep(2 * time.Hour)
		if i, _ := s.ctl.Info(id); i.State != "RUNNING" || i.Restarts > 0 || s.live() != 3 {
			t.Errorf("%d instances live, the job is %+v", s.live(), i)
		}
		if n := s.events("other-account"); n != 1 || !strings.Contains(s.life.engine.Health().Providers["fake"], "which was launched in") {
			t.Errorf("%d events, and health says %v", n, s.life.engine.Health().Providers)
		}
		s.die()
		s.cloud = s.fake
		s.start("")
		time.Sleep(20 * time.Minute)
		if i, _ := s.ctl.Info(id); i.State != "RUNNING" || s.live() != 3 {
			t.Errorf("after its end: %d instances live, the job is %+v", s.live(), i)
		}
	})
	bubble("and the journal is lost too, and nodes do not answer", t, cloudtest.Options{}, func(t *testing.T, s *story) {
		s.start("")
		id, _ := s.running(slurmtest.Job{Nodes: 3, Requeue: true, Duration: 5 * time.Hour})
		s.die()
		if err := os.Remove(s.db); err != nil {
			t.Fatal(err)
		}
		s.cloud = cloudtest.NewFake(cloudtest.Options{})
		s.ctl.Lost("c1")
		time.Sleep(6 * time.Minute)
		s.start("")
		time.Sleep(3 * time.Minute)
		s.back("c1")
		time.Sleep(time.Minute)
		if i, _ := s.ctl.Info(id); i.State != "RUNNING" || i.Restarts > 0 {
			t.Errorf("the job is %+v", i)
		}
	})
}
