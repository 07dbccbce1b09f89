package crash_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/burst-hpc/burst/cloud/cloudtest"
	"github.com/burst-hpc/burst/cloud/fleet"
	"github.com/burst-hpc/burst/slurm/power"
	"github.com/burst-hpc/burst/slurm/slurmtest"
)

// served is a world whose nodes mount from s1, which goes when it was not used for ten minutes.
func served(t *testing.T) *story {
	s := &story{world: newWorld(t, slurmtest.Options{Nodes: expand("c[1-2]"), Servers: []string{"s1"},
		SuspendTime: 30 * time.Second, SuspendTimeout: 10 * time.Second, ResumeTimeout: 10 * time.Minute, ReturnToService: 2},
		cloudtest.Options{Boot: 20 * time.Second, Lag: 2 * time.Second, Shutdown: time.Second, Prepare: true, Latency: map[cloudtest.Op]time.Duration{cloudtest.Launch: 500 * time.Millisecond}},
		fleet.OnDemandOnly)}
	s.pool.Needs = []string{"s1"}
	s.more = []power.Pool{{Name: "s", Provider: "fake", Nodes: []string{"s1"}, EndUnused: 10 * time.Minute,
		Fleet: fleet.Config{Types: []string{"small"}, Zones: []string{"a"}, Market: fleet.OnDemandOnly}}}
	s.boot = 10 * time.Minute
	return s
}

// serve plays a job on two nodes that mount from s1, until all is gone again.
func (s *story) serve(at string) *life {
	first := s.start(at)
	waitFor := func(d time.Duration, what string, cond func() bool) {
		s.t.Helper()
		s.wait(d, what, func() bool {
			if s.isDead() {
				s.die()
				time.Sleep(3 * time.Second)
				s.start("")
			}
			return cond()
		})
	}
	s.pair = s.ctl.Submit(slurmtest.Job{Name: "pair", Nodes: 2, Requeue: true, Duration: 2 * time.Minute})
	waitFor(5*time.Minute, "the job runs", s.runs(s.pair))
	waitFor(5*time.Minute, "the job is done", func() bool { return s.state(s.pair) == "COMPLETED" })
	waitFor(5*time.Minute, "the server alone lives", func() bool { return s.live() == 1 })
	if s.instanceOf("s1") == "" {
		return first
	}
	// The ten minutes begin anew with a new burstd.
	waitFor(25*time.Minute, "the server goes", func() bool { return s.live() == 0 })
	waitFor(5*time.Minute, "the journal is closed", func() bool { return s.closed() })
	return first
}

// fits holds the story to what is promised of servers.
func (s *story) fits() {
	s.t.Helper()
	for node := range s.twice {
		s.t.Errorf("node %s had two live instances at once", node)
	}
	var up time.Time
	for _, h := range s.ctl.History("s1") {
		if h.State == "IDLE+CLOUD" && up.IsZero() {
			up = h.At
		}
	}
	servers, early := 0, 0
	for _, i := range s.fake.Instances() {
		switch {
		case i.Pool == "s":
			servers++
		case up.IsZero() || i.Launched.Before(up):
			early++
		}
	}
	if servers != 1 || early != 0 {
		s.t.Errorf("%d servers were launched, and %d nodes before theirs was up", servers, early)
	}
	if i, _ := s.ctl.Info(s.pair); i.Restarts > 0 {
		s.t.Errorf("the job was restarted %d times", i.Restarts)
	}
	if n := strings.Count(s.asked(), "state=power_up"); n > 2 {
		s.t.Errorf("Slurm was asked %d times for the server", n)
	}
}

// asked is what was asked of Slurm, a line each.
func (s *story) asked() string {
	var b strings.Builder
	for _, c := range s.ctl.Calls() {
		b.WriteString(strings.Join(c.Args, " ") + "\n")
	}
	return b.String()
}

// TestKillWithAServer: burstd dies at each point of a story with a server of files: before it
// asks Slurm for it, between that and anything else, while it boots, when it goes. There is one
// server, which is watched until it is gone.
func TestKillWithAServer(t *testing.T) {
	var points []string
	synctest.Test(t, func(t *testing.T) {
		s := served(t)
		defer s.until()
		points = s.serve("").log
		s.fits()
	})
	if t.Failed() {
		return
	}
	most := 60
	if testing.Short() {
		most = 10
	}
	chosen := choose(points)
	every, tried := max(1, len(chosen)/most), 0
	for n, p := range chosen {
		about := !testing.Short() && (strings.Contains(p, "scontrol update") || strings.Contains(p, "server-"))
		if n%every != 0 && !about {
			continue
		}
		tried++
		t.Run(strings.ReplaceAll(p, " ", "_"), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := served(t)
				defer s.until()
				s.serve(p)
				s.fits()
			})
		})
	}
	t.Logf("%d points passed, %d tried", len(points), tried)
	if tried < 10 {
		t.Errorf("only %d points", tried)
	}
}

// TestAServerThatNobodyCanHave: no capacity for it. The job's nodes are not launched, its job is
// told which server it waits for, and starts when there is one.
func TestAServerThatNobodyCanHave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := served(t)
		defer s.until()
		o := s.more[0].Fleet.Offerings()[0]
		s.fake.SetCapacity(o, 0)
		s.start("")
		id := s.ctl.Submit(slurmtest.Job{Nodes: 2, Requeue: true, Duration: time.Minute})
		s.wait(time.Minute, "the job is told what it waits for", func() bool {
			i, _ := s.ctl.Info(id)
			return strings.Contains(i.AdminComment, "launched when server s1 is up")
		})
		s.wait(12*time.Minute, "the job is told why it goes back", func() bool {
			i, _ := s.ctl.Info(id)
			return strings.Contains(i.AdminComment, "server s1, which its nodes mount from, was not up within 8m0s: ") && strings.Contains(i.AdminComment, "no capacity")
		})
		if n := len(s.fake.Instances()); n != 0 {
			t.Errorf("%d instances were launched", n)
		}
		if n := s.fake.Calls(cloudtest.Launch); n > 20 {
			t.Errorf("%d launches were tried in ten minutes", n)
		}
		s.fake.SetCapacity(o, -1)
		s.wait(25*time.Minute, "the job runs when there is capacity", s.runs(id))
	})
}

// TestAServerDies: its files are lost, and new nodes get another one.
func TestAServerDies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := served(t)
		defer s.until()
		l := s.start("")
		id := s.ctl.Submit(slurmtest.Job{Nodes: 1, Requeue: true, Duration: time.Minute})
		s.wait(5*time.Minute, "the job runs", s.runs(id))
		dead := s.instanceOf("s1")
		s.fake.Kill(dead)
		l.engine.Ask(dead)
		s.wait(5*time.Minute, "the job is done", func() bool { return s.state(id) == "COMPLETED" })
		s.wait(5*time.Minute, "nothing lives", func() bool { return s.live() == 0 })
		id = s.ctl.Submit(slurmtest.Job{Nodes: 1, Requeue: true, Duration: time.Minute})
		s.wait(5*time.Minute, "the next job runs", s.runs(id))
		if s.instanceOf("s1") == dead {
			t.Error("it runs with the dead server")
		}
	})
}
