package crash_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/cloud/cloudtest"
	"github.com/burst-hpc/burst/cloud/fleet"
	"github.com/burst-hpc/burst/slurm/power"
	"github.com/burst-hpc/burst/slurm/slurmtest"
)

var choosy = cloudtest.Options{Choice: true, Latency: map[cloudtest.Op]time.Duration{cloudtest.Launch: time.Second, cloudtest.Prepare: 200 * time.Millisecond}}

func offering(zone string, m cloud.Market) cloud.Offering {
	return cloud.Offering{Type: "small", Zone: zone, Market: m}
}

// events counts the events of a kind.
func (s *story) events(kind string) int {
	s.t.Helper()
	all, err := s.life.store.Events(s.t.Context(), 0, 0)
	if err != nil {
		s.t.Fatal(err)
	}
	n := 0
	for _, e := range all {
		if e.Kind == kind {
			n++
		}
	}
	return n
}

// cooling lists the zones and markets that cool down, as "a/spot".
func (s *story) cooling() string {
	s.t.Helper()
	st, err := s.life.store.LoadPower(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	var all []string
	for _, c := range st.Coolings {
		all = append(all, fmt.Sprintf("%s/%s", c.Offering.Zone, c.Offering.Market))
	}
	return strings.Join(all, " ")
}

// markets counts the live instances by zone and market, as "a/spot".
func (s *story) markets() map[string]int {
	n := map[string]int{}
	for _, i := range s.fake.Instances() {
		if i.State.Live() {
			n[i.Offering.Zone+"/"+string(i.Offering.Market)]++
		}
	}
	return n
}

// told waits until the job waits, and its comment has the text.
func (s *story) told(id uint32, text string) {
	s.t.Helper()
	s.wait(2*time.Minute, fmt.Sprintf("job %d is told %q", id, text), func() bool {
		i, _ := s.ctl.Info(id)
		return i.State == "PENDING" && strings.Contains(i.AdminComment, text)
	})
}

func TestFaultNoCapacityInSomeZones(t *testing.T) {
	bubble("the first zone has none", t, choosy, func(t *testing.T, s *story) {
		s.fake.SetCapacity(offering("a", cloud.OnDemand), 0)
		s.start("")
		id := s.ctl.Submit(slurmtest.Job{Nodes: 2, User: "ann", Account: "chem", Duration: time.Hour})
		s.wait(10*time.Second, "the job runs", s.runs(id))
		if n := s.fake.Calls(cloudtest.Launch); n != 1 || s.markets()["b/on-demand"] != 2 {
			t.Errorf("%d launches, live are %v", n, s.markets())
		}
		tags := s.fake.Request(s.fake.Instances()[0].ID).Tags
		if tags[cloud.TagJob] != fmt.Sprint(id) || tags[cloud.TagUser] != "ann" || tags[cloud.TagAccount] != "chem" {
			t.Errorf("tags are %v", tags)
		}
	})
}

func TestFaultNoCapacityAtAll(t *testing.T) {
	bubble("in any zone", t, choosy, func(t *testing.T, s *story) {
		s.fake.SetCapacity(offering("a", cloud.OnDemand), 0)
		s.fake.SetCapacity(offering("b", cloud.OnDemand), 0)
		s.start("")
		id := s.ctl.Submit(slurmtest.Job{Nodes: 2, Requeue: true, Duration: time.Hour})
		s.told(id, "no capacity in pool p (small/a/on-demand, small/b/on-demand)")
		if n := s.fake.Calls(cloudtest.Launch); n != 1 || s.cooling() != "a/on-demand b/on-demand" {
			t.Errorf("%d launches; cooling are %s", n, s.cooling())
		}
	})
}

func TestFaultNoCapacityOnSpot(t *testing.T) {
	spot := func(s *story, room int) {
		s.pool.Fleet.Market, s.pool.Fleet.SpotTimeout, s.pool.Fleet.MaxPrice = fleet.SpotThenOnDemand, time.Minute, 0.2
		for _, z := range []string{"a", "b"} {
			s.fake.SetCapacity(offering(z, cloud.Spot), room)
		}
	}
	bubble("on-demand takes over after spot_timeout", t, choosy, func(t *testing.T, s *story) {
		spot(s, 0)
		s.start("")
		id := s.ctl.Submit(slurmtest.Job{Nodes: 2, Duration: time.Hour})
		time.Sleep(55 * time.Second)
		if s.live() != 0 || s.state(id) != "CONFIGURING" {
			t.Errorf("before spot_timeout: live are %v, the job is %s", s.markets(), s.state(id))
		}
		s.wait(15*time.Second, "the job runs", s.runs(id))
		if n := s.markets()["a/on-demand"]; n != 2 {
			t.Errorf("live are %v", s.markets())
		}
		if r := s.fake.Request(s.fake.Instances()[0].ID); r.MaxPrice != 0 {
			t.Errorf("on-demand has max_price %g", r.MaxPrice)
		}
	})
	bubble("spot comes back in time", t, choosy, func(t *testing.T, s *story) {
		spot(s, 0)
		s.start("")
		id := s.ctl.Submit(slurmtest.Job{Nodes: 2, Duration: time.Hour})
		time.Sleep(10 * time.Second)
		spot(s, -1)
		s.wait(40*time.Second, "the job runs", s.runs(id))
		if r := s.fake.Request(s.fake.Instances()[0].ID); s.markets()["a/spot"] != 2 || r.MaxPrice != 0.2 {
			t.Errorf("live are %v, max_price is %g", s.markets(), r.MaxPrice)
		}
	})
	bubble("nodes on their own: what spot has not given by then", t, choosy, func(t *testing.T, s *story) {
		spot(s, 1)
		s.start("")
		for range 4 {
			s.ctl.Submit(slurmtest.Job{Nodes: 1, Duration: time.Hour})
		}
		s.wait(75*time.Second, "four instances", func() bool { return s.live() == 4 })
		if m := s.markets(); m["a/spot"] != 1 || m["b/spot"] != 1 || m["a/on-demand"] != 2 {
			t.Errorf("live are %v", m)
		}
	})
}

func TestFaultThrottled(t *testing.T) {
	bubble("the call is refused three times", t, cloudtest.Options{}, func(t *testing.T, s *story) {
		s.fake.Inject(cloudtest.Launch, cloudtest.Fault{Times: 3,
			Err: &cloud.Error{Kind: cloud.Throttled, Op: "launch", RetryAfter: 5 * time.Second, Err: errors.New("RequestLimitExceeded")}})
		s.start("")
		id := s.ctl.Submit(slurmtest.Job{Nodes: 2, Duration: time.Hour})
		s.wait(25*time.Second, "the job runs", s.runs(id))
		if s.cooling() != "" || s.events("launch") != 1 || s.events("no-capacity") != 0 || s.fake.Calls(cloudtest.Launch) != 4 {
			t.Errorf("cooling %q, %d launches written, %d calls", s.cooling(), s.events("launch"), s.fake.Calls(cloudtest.Launch))
		}
	})
}

func TestFaultCapacityAndThrottlingInOneAnswer(t *testing.T) {
	bubble("each by its own", t, choosy, func(t *testing.T, s *story) {
		s.fake.Throttle(offering("a", cloud.OnDemand), 1)
		s.fake.SetCapacity(offering("b", cloud.OnDemand), 0)
		s.start("")
		id := s.ctl.Submit(slurmtest.Job{Nodes: 2, Duration: time.Hour})
		s.wait(12*time.Second, "the job runs", s.runs(id))
		if s.cooling() != "b/on-demand" || s.markets()["a/on-demand"] != 2 || s.events("launch") != 2 {
			t.Errorf("cooling %q, live %v, %d launches", s.cooling(), s.markets(), s.events("launch"))
		}
	})
}

func TestFaultPartialFleet(t *testing.T) {
	bubble("three of four", t, choosy, func(t *testing.T, s *story) {
		s.fake.SetCapacity(offering("a", cloud.OnDemand), 1)
		s.fake.SetCapacity(offering("b", cloud.OnDemand), 2)
		s.start("")
		jobs := make([]uint32, 4)
		for i := range jobs {
			jobs[i] = s.ctl.Submit(slurmtest.Job{Nodes: 1, Requeue: true, Duration: time.Hour})
		}
		running := func(want int) func() bool {
			return func() bool {
				n := 0
				for _, id := range jobs {
					if s.state(id) == "RUNNING" {
						n++
					}
				}
				return n == want
			}
		}
		s.wait(30*time.Second, "three run", running(3))
		for _, id := range jobs {
			if s.state(id) != "RUNNING" {
				s.told(id, "no capacity")
			}
		}
		s.fake.SetCapacity(offering("b", cloud.OnDemand), -1)
		s.wait(5*time.Minute, "all run", running(4))
		if s.live() != 4 {
			t.Errorf("live are %v", s.markets())
		}
	})
}

func TestFaultInstancesInvisible(t *testing.T) {
	late := cloudtest.Options{Lag: time.Minute, AddrDelay: 50 * time.Second}
	bubble("for 60 s", t, late, func(t *testing.T, s *story) {
		s.start("")
		id := s.ctl.Submit(slurmtest.Job{Nodes: 2, Duration: time.Hour})
		s.wait(2*time.Minute, "the job runs", s.runs(id))
		if n := len(s.fake.Instances()); n != 2 {
			t.Errorf("%d instances were launched", n)
		}
	})
	bubble("for 60 s, and the answer is lost", t, late, func(t *testing.T, s *story) {
		s.fake.LoseAnswer(cloudtest.Launch)
		s.start("")
		id := s.ctl.Submit(slurmtest.Job{Nodes: 2, Duration: time.Hour})
		s.wait(2*time.Minute, "the job runs", s.runs(id))
		if n := len(s.fake.Instances()); n != 2 {
			t.Errorf("%d instances were launched", n)
		}
	})
}

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
		for _, op := range []cloudtest.Op{cloudtest.Launch, cloudtest.List} {
			s.fake.Inject(op, cloudtest.Fault{Err: expired, Times: 5})
		}
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
			s.wait(10*time.Minute, "all is over", func() bool { return s.live() == 0 && s.open() == "" })
		})
	}
}
