package crash_test

import (
	"errors"
	"fmt"
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

func TestFaultDuplicateOrders(t *testing.T) {
	bubble("while they are prepared and launched", t, choosy, func(t *testing.T, s *story) {
		l := s.start("")
		id := s.ctl.Submit(slurmtest.Job{Nodes: 2, Duration: time.Hour})
		for n := range 20 {
			if err := l.engine.AddOrder(l.ctx, power.Order{ID: fmt.Sprint("again-", n), Kind: power.Resume, Nodes: "c[1-2]", Made: time.Now()}); err != nil {
				t.Fatal(err)
			}
			time.Sleep(100 * time.Millisecond)
		}
		s.wait(time.Minute, "the job runs", s.runs(id))
		if n := s.live(); n != 2 || len(s.twice) > 0 {
			t.Errorf("%d instances live for two nodes", n)
		}
	})
}

func TestFaultQuotaTooSmall(t *testing.T) {
	bubble("known before the launch", t, cloudtest.Options{}, func(t *testing.T, s *story) {
		s.fake.RefusePool("p", &cloud.Error{Kind: cloud.Quota, Op: "prepare", Err: errors.New("8 vCPUs are wanted, the account may have 4 (L-1216C47A)")})
		s.start("")
		id := s.ctl.Submit(slurmtest.Job{Nodes: 2, Requeue: true, Duration: time.Hour})
		s.told(id, "over the account's quota")
		if i, _ := s.ctl.Info(id); !strings.Contains(i.AdminComment, "L-1216C47A") || strings.Contains(i.AdminComment, "capacity") {
			t.Errorf("the job is told %q", i.AdminComment)
		}
		if n := s.fake.Calls(cloudtest.Launch); n != 0 {
			t.Errorf("%d launches were tried", n)
		}
		s.fake.RefusePool("p", nil)
		s.wait(5*time.Minute, "the job runs when the quota is raised", s.runs(id))
	})
}

var expired = &cloud.Error{Kind: cloud.Auth, Op: "launch", Code: "ExpiredToken", Err: errors.New("the security token has expired")}

func TestFaultExpiredCredentials(t *testing.T) {
	recovers := func(t *testing.T, s *story, id uint32) {
		t.Helper()
		s.wait(time.Minute, "the job runs", s.runs(id))
		if a, b := s.events("credentials-refused"), s.events("credentials-accepted"); a != 1 || b != 1 || s.events("no-auth") != 0 {
			t.Errorf("%d events that they are refused, %d that they are accepted", a, b)
		}
		if n := s.fake.Calls(cloudtest.Launch) + s.fake.Calls(cloudtest.Prepare); n > 30 {
			t.Errorf("%d calls", n)
		}
		if i, _ := s.ctl.Info(id); i.Restarts != 0 || s.cooling() != "" {
			t.Errorf("%d restarts, cooling %q", i.Restarts, s.cooling())
		}
	}
	bubble("while launches are prepared", t, cloudtest.Options{}, func(t *testing.T, s *story) {
		s.fake.RefusePool("p", expired)
		s.start("")
		id := s.ctl.Submit(slurmtest.Job{Nodes: 2, Duration: time.Hour})
		time.Sleep(time.Minute)
		s.fake.RefusePool("p", nil)
		recovers(t, s, id)
	})
	bubble("while they are launched", t, cloudtest.Options{MaxLaunch: 1}, func(t *testing.T, s *story) {
		s.fake.Inject(cloudtest.Launch, cloudtest.Fault{Err: expired, Times: 8})
		s.start("")
		id := s.ctl.Submit(slurmtest.Job{Nodes: 2, Duration: time.Hour})
		recovers(t, s, id)
	})
	bubble("all calls", t, cloudtest.Options{}, func(t *testing.T, s *story) {
		s.fake.Inject(cloudtest.List, cloudtest.Fault{Err: expired, Times: 2}) // over before the launches' are
		s.fake.Inject(cloudtest.Launch, cloudtest.Fault{Err: expired, Times: 6})
		s.start("")
		id := s.ctl.Submit(slurmtest.Job{Nodes: 2, Duration: time.Hour})
		s.wait(3*time.Minute, "they are accepted", func() bool { return s.events("credentials-accepted") == 1 })
		recovers(t, s, id)
	})
	bubble("for longer than ResumeTimeout leaves", t, cloudtest.Options{}, func(t *testing.T, s *story) {
		s.boot = 100 * time.Second
		s.fake.RefusePool("p", expired)
		s.start("")
		id := s.ctl.Submit(slurmtest.Job{Nodes: 2, Requeue: true, Duration: time.Hour})
		time.Sleep(75 * time.Second)
		if s.state(id) != "CONFIGURING" {
			t.Errorf("given up too early: the job is %s", s.state(id))
		}
		s.told(id, "credentials not accepted")
		s.fake.RefusePool("p", nil)
		s.wait(5*time.Minute, "the job runs", s.runs(id))
	})
}

func TestFaultClockStep(t *testing.T) {
	for name, skew := range map[string]time.Duration{"set back after the order": time.Hour, "set ahead after the order": -time.Hour} {
		bubble(name, t, cloudtest.Options{}, func(t *testing.T, s *story) {
			s.pool.Fleet.Market, s.pool.Fleet.SpotTimeout = fleet.SpotThenOnDemand, 30*time.Second
			for _, z := range []string{"a", "b"} {
				s.fake.SetCapacity(offering(z, cloud.Spot), 0)
			}
			s.skew = skew
			s.start("")
			id := s.ctl.Submit(slurmtest.Job{Nodes: 2, Requeue: true, Duration: 2 * time.Minute})
			time.Sleep(2 * time.Second)
			s.mu.Lock()
			s.skew = 0
			s.mu.Unlock()
			s.wait(4*time.Minute, "the job runs", s.runs(id))
			s.wait(10*time.Minute, "all is over", func() bool { return s.live() == 0 && s.closed() })
		})
	}
}

// TestManyNodesAtOnce: a job larger than one launch, and what it costs in calls.
func TestManyNodesAtOnce(t *testing.T) {
	if testing.Short() {
		t.Skip("1000 nodes: other tests launch a few")
	}
	for _, nodes := range []int{1000, 1100} { // of one launch, and of two
		t.Run(fmt.Sprint(nodes), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &story{world: newWorld(t, slurmtest.Options{Nodes: expand("c[0001-1100]"), SuspendTime: time.Hour, ResumeTimeout: 10 * time.Minute},
					cloudtest.Options{Choice: true, Prepare: true, Boot: 20 * time.Second, Lag: 10 * time.Second, AddrDelay: 3 * time.Second,
						Latency: map[cloudtest.Op]time.Duration{cloudtest.Launch: 2 * time.Second, cloudtest.Prepare: 100 * time.Millisecond, cloudtest.List: 100 * time.Millisecond}}, fleet.OnDemandOnly)}
				defer s.until()
				s.start("")
				begun := time.Now()
				id := s.ctl.Submit(slurmtest.Job{Nodes: nodes, Duration: time.Hour})
				s.wait(10*time.Second, "all instances are known", func() bool { return s.live() == nodes })
				took := time.Since(begun)
				if took > 3500*time.Millisecond {
					t.Errorf("the launches took %s", took)
				}
				if n := s.fake.Calls(cloudtest.Launch); n != (nodes+999)/1000 || s.fake.Calls(cloudtest.Prepare) != 1 {
					t.Errorf("%d launches, %d preparations", n, s.fake.Calls(cloudtest.Prepare))
				}
				s.wait(time.Minute, "the job runs", s.runs(id))
				if n := s.ctl.Count("scontrol update"); n > 3 {
					t.Errorf("%d updates", n)
				}
				t.Logf("%s to the launches' answers; %d scontrol, %d lists", took, s.ctl.Count("scontrol"), s.fake.Calls(cloudtest.List))
			})
		})
	}
}
