package crash_test

import (
	"errors"
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

// twoClouds is a world whose pool buys of fake, and then of other.
func twoClouds(name string, t *testing.T, c cloudtest.Options, f func(t *testing.T, s *story)) {
	bubble(name, t, c, func(t *testing.T, s *story) {
		s.pool.Then = []power.Source{{Provider: "other", Fleet: fleet.Config{Types: []string{"large"}, Market: fleet.OnDemandOnly}}}
		f(t, s)
	})
}

// full takes the first cloud's capacity away.
func (s *story) full() {
	for _, z := range []string{"a", "b"} {
		s.fake.SetCapacity(offering(z, cloud.OnDemand), 0)
		s.fake.SetCapacity(offering(z, cloud.Spot), 0)
	}
}

func liveIn(f *cloudtest.Fake) int {
	n := 0
	for _, i := range f.Instances() {
		if i.State.Live() {
			n++
		}
	}
	return n
}

// has waits until the job runs, with so many live instances in each cloud.
func (s *story) has(id uint32, within time.Duration, fake, other int) {
	s.t.Helper()
	s.wait(within, "the job runs", s.runs(id))
	if a, b := liveIn(s.fake), liveIn(s.other); a != fake || b != other {
		s.t.Errorf("%d and %d instances live, want %d and %d", a, b, fake, other)
	}
	if i, _ := s.ctl.Info(id); i.Restarts != 0 {
		s.t.Errorf("the job was restarted %d times: %s", i.Restarts, i.AdminComment)
	}
}

func TestFailOver(t *testing.T) {
	pair := slurmtest.Job{Nodes: 2, Requeue: true, Duration: time.Hour}
	twoClouds("the first has room", t, choosy, func(t *testing.T, s *story) {
		s.start("")
		s.has(s.ctl.Submit(pair), 10*time.Second, 2, 0)
	})
	twoClouds("it has none", t, choosy, func(t *testing.T, s *story) {
		s.full()
		s.start("")
		s.has(s.ctl.Submit(pair), 10*time.Second, 0, 2)
	})
	twoClouds("it has room for one of two nodes", t, cloudtest.Options{MaxLaunch: 1}, func(t *testing.T, s *story) {
		s.full()
		s.fake.SetCapacity(offering("a", cloud.OnDemand), 1)
		s.start("")
		s.has(s.ctl.Submit(pair), 20*time.Second, 0, 2)
		if len(s.twice) > 0 {
			t.Errorf("two lived for %v", s.twice)
		}
	})
	twoClouds("none has any: the job is told of both", t, choosy, func(t *testing.T, s *story) {
		s.full()
		s.other.SetCapacity(cloud.Offering{Type: "large", Market: cloud.OnDemand}, 0)
		s.start("")
		id := s.ctl.Submit(pair)
		s.told(id, "no capacity in pool p at fake (small/a/on-demand, small/b/on-demand); no capacity in pool p at other (large/on-demand)")
		s.other.SetCapacity(cloud.Offering{Type: "large", Market: cloud.OnDemand}, -1)
		s.wait(2*time.Minute, "it runs at the second", s.runs(id))
		if liveIn(s.other) != 2 {
			t.Errorf("%d instances live at the second", liveIn(s.other))
		}
	})
	twoClouds("spot is waited for, as the pool's own rule is", t, choosy, func(t *testing.T, s *story) {
		s.pool.Fleet.Market, s.pool.Fleet.SpotTimeout = fleet.SpotThenOnDemand, time.Minute
		s.full()
		s.start("")
		id := s.ctl.Submit(pair)
		time.Sleep(50 * time.Second)
		if liveIn(s.other) != 0 {
			t.Error("the second cloud had its turn before spot_timeout")
		}
		s.has(id, 30*time.Second, 0, 2)
	})
	twoClouds("a job is kept to the second", t, choosy, func(t *testing.T, s *story) {
		s.start("")
		job := pair
		job.Features = "other&x86_64"
		s.has(s.ctl.Submit(job), 10*time.Second, 0, 2)
		job.Features = "fake"
		s.has(s.ctl.Submit(job), 10*time.Second, 2, 2)
	})
	twoClouds("a job is kept to the first, which has no room", t, choosy, func(t *testing.T, s *story) {
		s.full()
		s.start("")
		job := pair
		job.Features = "fake"
		id := s.ctl.Submit(job)
		s.told(id, "no capacity in pool p at fake")
		if n := len(s.other.Instances()); n != 0 {
			t.Errorf("%d instances at the second", n)
		}
	})
	twoClouds("two jobs of other clouds go their ways at once", t, choosy, func(t *testing.T, s *story) {
		first := s.ctl.Submit(slurmtest.Job{Nodes: 1, Features: "fake", Duration: time.Hour})
		second := s.ctl.Submit(slurmtest.Job{Nodes: 1, Features: "other", Duration: time.Hour})
		s.start("")
		s.wait(20*time.Second, "both run", func() bool { return s.runs(first)() && s.runs(second)() })
		if a, b := liveIn(s.fake), liveIn(s.other); a != 1 || b != 1 {
			t.Errorf("%d and %d instances live", a, b)
		}
	})
}

// TestFailOverFromACloudThatIsAway: it refuses our credentials, or says nothing.
func TestFailOverFromACloudThatIsAway(t *testing.T) {
	pair := slurmtest.Job{Nodes: 2, Requeue: true, Duration: time.Hour}
	always := 100000
	away := errors.New("connection refused")
	twoClouds("credentials are refused to the launch", t, cloudtest.Options{}, func(t *testing.T, s *story) {
		s.fake.Inject(cloudtest.Launch, cloudtest.Fault{Err: expired, Times: always})
		s.start("")
		s.has(s.ctl.Submit(pair), 10*time.Second, 0, 2)
		s.has(s.ctl.Submit(pair), 10*time.Second, 0, 4)
		if n := s.events("credentials-refused"); n != 1 {
			t.Errorf("%d events that they are refused", n)
		}
	})
	twoClouds("credentials are refused to what prepares it", t, cloudtest.Options{Prepare: true}, func(t *testing.T, s *story) {
		s.fake.RefusePool("p", expired)
		s.start("")
		s.has(s.ctl.Submit(pair), 10*time.Second, 0, 2)
	})
	twoClouds("over the quota", t, cloudtest.Options{Prepare: true}, func(t *testing.T, s *story) {
		s.fake.RefusePool("p", &cloud.Error{Kind: cloud.Quota, Op: "prepare", Err: errors.New("8 vCPUs")})
		s.start("")
		s.has(s.ctl.Submit(pair), 10*time.Second, 0, 2)
	})
	twoClouds("it answers nothing from the start on", t, cloudtest.Options{}, func(t *testing.T, s *story) {
		s.fake.Inject(cloudtest.Launch, cloudtest.Fault{Err: away, Times: always})
		s.fake.Inject(cloudtest.List, cloudtest.Fault{Err: away, Times: always})
		s.start("")
		time.Sleep(time.Second)
		s.has(s.ctl.Submit(pair), 20*time.Second, 0, 2)
	})
	twoClouds("it goes away when a launch is called, which came to something", t, cloudtest.Options{}, func(t *testing.T, s *story) {
		s.start("")
		time.Sleep(65 * time.Second) // between two rounds: the launch is the first to fail
		s.fake.Inject(cloudtest.Launch, cloudtest.Fault{Err: away, Times: always, Lost: true})
		s.fake.Inject(cloudtest.List, cloudtest.Fault{Err: away, Times: 20})
		id := s.ctl.Submit(pair)
		s.wait(3*time.Minute, "the job runs", s.runs(id))
		if liveIn(s.other) != 2 {
			t.Errorf("%d instances live at the second", liveIn(s.other))
		}
		// It answers again: what had come of the launch is ended.
		s.wait(10*time.Minute, "the first cloud's instances end", func() bool { return len(s.fake.Instances()) > 0 && liveIn(s.fake) == 0 })
		if !s.runs(id)() || liveIn(s.other) != 2 {
			t.Errorf("the job is %s, %d instances live at the second", s.state(id), liveIn(s.other))
		}
	})
	twoClouds("a setup's key is missing", t, cloudtest.Options{}, func(t *testing.T, s *story) {
		l := s.start("")
		if err := l.engine.SetUnready(t.Context(), "p", "fake", "no key"); err != nil {
			t.Fatal(err)
		}
		s.has(s.ctl.Submit(pair), 10*time.Second, 0, 2)
		if err := l.engine.SetUnready(t.Context(), "p", "other", "no key there"); err != nil {
			t.Fatal(err)
		}
		id := s.ctl.Submit(pair)
		s.told(id, "pool p at fake is stopped: no key; pool p at other is stopped: no key there")
		if err := l.engine.SetUnready(t.Context(), "p", "other", ""); err != nil {
			t.Fatal(err)
		}
		s.wait(time.Minute, "it runs when one may launch again", s.runs(id))
	})
}

// TestAChangedFile: the sources change while instances live. They are watched to
// their end, and jobs go on.
func TestAChangedFile(t *testing.T) {
	pair := slurmtest.Job{Nodes: 2, Requeue: true, Duration: 10 * time.Minute}
	for name, change := range map[string]func(s *story){
		"the second source is taken out, its provider stays": func(s *story) { s.pool.Then, s.keeps = nil, true },
		"the order is changed": func(s *story) {
			first := power.Source{Provider: s.pool.Provider, Fleet: s.pool.Fleet}
			s.pool.Provider, s.pool.Fleet = s.pool.Then[0].Provider, s.pool.Then[0].Fleet
			s.pool.Then = []power.Source{first}
		},
	} {
		twoClouds(name, t, choosy, func(t *testing.T, s *story) {
			s.full()
			s.start("")
			id := s.ctl.Submit(pair)
			s.has(id, 10*time.Second, 0, 2)
			s.die()
			change(s)
			s.start("")
			time.Sleep(5 * time.Minute)
			s.has(id, time.Second, 0, 2)
			s.wait(20*time.Minute, "nothing is left", func() bool { return liveIn(s.other) == 0 && s.closed() })
			if n := len(s.other.Instances()) + len(s.fake.Instances()); n != 2 || s.state(id) == "FAILED" {
				t.Errorf("%d instances were launched in all, the job is %s", n, s.state(id))
			}
		})
	}
}

// TestARetryAfterARestartIsKeptToTheProvider that the job names, though no order has come since.
func TestARetryAfterARestartIsKeptToTheProvider(t *testing.T) {
	twoClouds("an instance dies while burstd is away", t, cloudtest.Options{Boot: 20 * time.Second}, func(t *testing.T, s *story) {
		s.start("")
		id := s.ctl.Submit(slurmtest.Job{Nodes: 1, Requeue: true, Features: "other", Duration: time.Hour})
		s.wait(10*time.Second, "it boots at the second", func() bool { return liveIn(s.other) == 1 })
		time.Sleep(5 * time.Second)
		s.die()
		s.other.Kill(s.other.Instances()[0].ID)
		s.start("")
		s.has(id, 2*time.Minute, 0, 1)
		if n := len(s.fake.Instances()); n != 0 {
			t.Errorf("%d instances were launched at the first", n)
		}
	})
}

// TestASourceThatMakesNoNodesStopsAlone: the pool's other source goes on.
func TestASourceThatMakesNoNodesStopsAlone(t *testing.T) {
	twoClouds("its instances never boot", t, cloudtest.Options{Boot: time.Second}, func(t *testing.T, s *story) {
		s.pool.MaxBootFailures = 2
		first := s.start("")
		s.complains = func(i cloud.Instance) bool {
			if strings.HasPrefix(i.ID, "o-") {
				return false
			}
			s.mu.Lock()
			l := s.life
			s.mu.Unlock()
			return l == nil || l.engine.Report(l.ctx, i.ID, i.Addr, power.ReportFailed, "no slurmd") != nil || true
		}
		id := s.ctl.Submit(slurmtest.Job{Nodes: 1, Requeue: true, Duration: time.Hour})
		s.wait(10*time.Minute, "the job runs", s.runs(id))
		h := first.engine.Health()
		if b := h.Breakers["p@fake"]; b.Stopped.IsZero() || b.Failures != 2 || b.Provider != "fake" {
			t.Errorf("the breakers are %+v", h.Breakers)
		}
		if b := h.Breakers["p"]; !b.Stopped.IsZero() || b.Failures != 0 || h.Breakers["p@other"].Failures != 0 {
			t.Errorf("the breakers are %+v", h.Breakers)
		}
		if n := liveIn(s.other); n != 1 {
			t.Errorf("%d instances live at the second", n)
		}
		s.die()
		again := s.start("")
		if b := again.engine.Health().Breakers["p@fake"]; b.Stopped.IsZero() {
			t.Error("a start forgets that it is stopped")
		}
		if err := again.engine.StartPool(t.Context(), "p", "root"); err != nil {
			t.Fatal(err)
		}
		if b := again.engine.Health().Breakers["p@fake"]; !b.Stopped.IsZero() || b.Failures != 0 {
			t.Errorf("started, it is %+v", b)
		}
	})
}

// TestKillWithTwoClouds: burstd dies at each point of a fail-over: a job of two
// nodes gets both from the second cloud, is evicted by nobody, ends, and nothing is left.
func TestKillWithTwoClouds(t *testing.T) {
	play := func(t *testing.T, at string) (points []string, reached bool) {
		synctest.Test(t, func(t *testing.T) {
			s := plain(t, cloudtest.Options{Boot: 3 * time.Second, Lag: 2 * time.Second, Shutdown: time.Second, MaxLaunch: 1, Prepare: true})
			defer s.until()
			s.pool.Then = []power.Source{{Provider: "other", Fleet: fleet.Config{Types: []string{"large"}, Market: fleet.OnDemandOnly}}}
			s.full()
			s.fake.SetCapacity(offering("a", cloud.OnDemand), 1) // one of the two comes, and must not be kept
			l := s.start(at)
			revive := func() {
				if s.isDead() {
					s.die()
					time.Sleep(3 * time.Second)
					s.start("")
				}
			}
			id := s.ctl.Submit(slurmtest.Job{Nodes: 2, Requeue: true, Duration: 2 * time.Minute})
			mixed := false
			s.wait(20*time.Minute, "the job is done and nothing lives", func() bool {
				revive()
				mixed = mixed || s.runs(id)() && liveIn(s.other) != 2
				state := s.state(id)
				return (state == "COMPLETED" || state == "forgotten") && liveIn(s.fake)+liveIn(s.other) == 0 && s.closed()
			})
			if mixed || len(s.twice) > 0 {
				t.Errorf("the job had nodes of two clouds: %v; two instances at once were node %v", mixed, s.twice)
			}
			if n := len(s.fake.Instances()) + len(s.other.Instances()); n < 3 || n > 5 {
				t.Errorf("%d instances were launched", n)
			}
			points, reached = l.log, l.reached
		})
		return points, reached
	}
	points, _ := play(t, "")
	if t.Failed() {
		return
	}
	chosen, missed := choose(points), 0
	if testing.Short() {
		var few []string
		for i := 0; i < len(chosen); i += 20 {
			few = append(few, chosen[i])
		}
		chosen = few
	}
	for _, p := range chosen {
		t.Run(strings.ReplaceAll(p, " ", "_"), func(t *testing.T) {
			if _, reached := play(t, p); !reached {
				missed++
			}
		})
	}
	t.Logf("%d points passed, %d tried", len(points), len(chosen))
	if missed > len(chosen)/5 {
		t.Errorf("%d of %d points were not passed again", missed, len(chosen))
	}
}
