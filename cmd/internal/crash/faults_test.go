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
		m := s.markets() // the zone that has cooled first: cooldowns have jitter
		if r := s.fake.Request(s.fake.Instances()[0].ID); m["a/spot"] != 2 && m["b/spot"] != 2 || r.MaxPrice != 0.2 {
			t.Errorf("live are %v, max_price is %g", m, r.MaxPrice)
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
