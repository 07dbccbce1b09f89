package crash_test

import (
	"slices"
	"strconv"
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

// twoPools is a world with two pools in one partition: p, of c[1-3], of which Slurm takes
// nodes first, and whose instances are small, and q, of c[4-6], whose are large.
func twoPools(t *testing.T) *story {
	s := &story{world: newWorld(t, slurmtest.Options{Nodes: expand("c[1-6]"), SuspendTime: 30 * time.Second,
		SuspendTimeout: 15 * time.Second, ResumeTimeout: 3 * time.Minute, ReturnToService: 2},
		cloudtest.Options{Boot: 3 * time.Second, Lag: 2 * time.Second, Shutdown: time.Second, Prepare: true}, fleet.OnDemandOnly)}
	s.pool.Nodes = expand("c[1-3]")
	s.more = []power.Pool{{Name: "q", Provider: "fake", Partition: "cloud", Nodes: expand("c[4-6]"),
		Fleet: fleet.Config{Types: []string{"large"}, Zones: []string{"a"}, Market: fleet.OnDemandOnly}}}
	return s
}

// capacity says whether there are small and large instances.
func (s *story) capacity(small, large bool) {
	of := map[bool]int{true: -1, false: 0}
	for _, z := range []string{"a", "b"} {
		s.fake.SetCapacity(offering(z, cloud.OnDemand), of[small])
	}
	s.fake.SetCapacity(cloud.Offering{Type: "large", Zone: "a", Market: cloud.OnDemand}, of[large])
}

// aside lists the nodes that are set aside.
func (s *story) aside() string {
	var nodes []string
	for name, r := range s.ctl.Reservations() {
		if strings.HasPrefix(name, "burst-dry-") && r.End.After(time.Now()) {
			nodes = append(nodes, r.Nodes...)
		}
	}
	slices.Sort(nodes)
	return strings.Join(nodes, " ")
}

func (s *story) scontrol(args ...string) {
	s.t.Helper()
	if _, errOut, err := s.ctl.Run(s.t.Context(), "scontrol", args...); err != nil {
		s.t.Fatal(err, string(errOut))
	}
}

// reserves counts the commands that set nodes aside.
func (s *story) reserves() int { return s.ctl.Count("scontrol create reservation") }

// otherPool plays a job that finds p dry and runs in q, until p has capacity again and
// another job uses it.
func (s *story) otherPool(at string) *life {
	s.capacity(false, true)
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
	s.pair = s.ctl.Submit(slurmtest.Job{Name: "pair", Nodes: 2, Requeue: true, Duration: 20 * time.Second})
	within := 25 * time.Second
	if at != "" {
		within = 4 * time.Minute // Slurm's own hold, at worst
	}
	waitFor(within, "the job runs", s.runs(s.pair))
	if i, _ := s.ctl.Info(s.pair); at == "" && (i.Restarts != 1 || strings.Join(i.Nodes, " ") != "c4 c5" || s.aside() != "c1 c2 c3" ||
		!strings.Contains(i.AdminComment, "no capacity in pool p (small/a/on-demand, small/b/on-demand); it goes to pool q; starts again from ")) {
		s.t.Errorf("the job was restarted %d times, runs on %v, and was told %q; aside are %q", i.Restarts, i.Nodes, i.AdminComment, s.aside())
	}
	s.capacity(true, true)
	waitFor(4*time.Minute, "the job is done", func() bool { return s.state(s.pair) == "COMPLETED" })
	waitFor(4*time.Minute, "no instance lives", func() bool { return s.live() == 0 })
	waitFor(4*time.Minute, "no node is aside", func() bool { return s.aside() == "" })
	waitFor(2*time.Minute, "all nodes are off", func() bool {
		return !slices.ContainsFunc(expand("c[1-6]"), func(n string) bool { return s.ctl.Node(n) != "IDLE+CLOUD+POWERED_DOWN" })
	})
	s.single = s.ctl.Submit(slurmtest.Job{Name: "single", Nodes: 1, Requeue: true, Duration: 20 * time.Second})
	waitFor(4*time.Minute, "the next job runs", s.runs(s.single))
	if i, _ := s.ctl.Info(s.single); at == "" && (i.Restarts != 0 || strings.Join(i.Nodes, " ") != "c1") {
		s.t.Errorf("the next job was restarted %d times, and runs on %v", i.Restarts, i.Nodes)
	}
	waitFor(4*time.Minute, "the next job is done", func() bool { return s.state(s.single) == "COMPLETED" })
	waitFor(5*time.Minute, "the journal is closed", func() bool { return s.aside() == "" && s.closed() })
	return first
}

// TestASecondPool: burstd dies at each point of the story of two pools. No node stays
// aside, and both jobs run.
func TestASecondPool(t *testing.T) {
	var points []string
	synctest.Test(t, func(t *testing.T) {
		s := twoPools(t)
		defer s.until()
		points = s.otherPool("").log
		if n := s.reserves(); n != 1 {
			t.Errorf("%d commands to set nodes aside", n)
		}
		if a, b := s.events("pool-dry"), s.events("pool-back"); a != 1 || b != 1 {
			t.Errorf("%d events that the pool is dry, and %d that it is back", a, b)
		}
	})
	if t.Failed() {
		return
	}
	most := 100
	if testing.Short() {
		most = 10
	}
	chosen := choose(points)
	every, tried := max(1, len(chosen)/most), 0
	for n, p := range chosen {
		about := !testing.Short() && slices.ContainsFunc([]string{"scontrol create", "scontrol update", "scontrol delete", "pool-"},
			func(what string) bool { return strings.Contains(p, what) })
		if n%every != 0 && !about {
			continue
		}
		tried++
		t.Run(strings.ReplaceAll(p, " ", "_"), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := twoPools(t)
				defer s.until()
				s.otherPool(p)
				if len(s.twice) > 0 {
					t.Errorf("two lived for %v", s.twice)
				}
				if i, _ := s.ctl.Info(s.pair); i.Restarts > 2 {
					t.Errorf("the job was restarted %d times", i.Restarts)
				}
			})
		})
	}
	t.Logf("%d points passed, %d tried", len(points), tried)
	if tried < 10 {
		t.Errorf("only %d points", tried)
	}
}

func TestDryPools(t *testing.T) {
	job := slurmtest.Job{Nodes: 1, Requeue: true, Duration: time.Hour}
	for name, f := range map[string]func(t *testing.T, s *story){
		"all are dry: the job waits, and does not go to and fro": func(t *testing.T, s *story) {
			s.capacity(false, false)
			s.start("")
			id := s.ctl.Submit(job)
			s.told(id, "; none in pool p either")
			time.Sleep(15 * time.Minute)
			// Cooldowns double from 30 s to 10 min: six tries for each of three offerings, and at worst
			// a look at the other pool before.
			if i, _ := s.ctl.Info(id); i.Restarts > 24 || s.fake.Calls(cloudtest.Launch) > 18 {
				t.Errorf("the job was restarted %d times in 15 minutes, with %d launches", i.Restarts, s.fake.Calls(cloudtest.Launch))
			}
			s.capacity(false, true)
			s.wait(12*time.Minute, "the job runs", s.runs(id))
		},
		"the other pool has fewer nodes than the job wants": func(t *testing.T, s *story) {
			s.more[0].Nodes = expand("c[4-5]")
			s.pool.Nodes = expand("c[1-3]")
			s.capacity(false, true)
			s.start("")
			j := job
			j.Nodes = 3
			s.waitsAsEver(s.ctl.Submit(j))
		},
		"the other pool's nodes lack the job's feature": func(t *testing.T, s *story) {
			s.capacity(false, true)
			s.start("")
			j := job
			j.Features = "gpu"
			s.waitsAsEver(s.ctl.Submit(j))
		},
		"the other pool's nodes are drained": func(t *testing.T, s *story) {
			s.scontrol("update", "nodename=c4,c5,c6", "state=drain", "reason=disks")
			s.capacity(false, true)
			s.start("")
			s.waitsAsEver(s.ctl.Submit(job))
		},
		"an admin's drain, and one's hand on the reservation": func(t *testing.T, s *story) {
			s.capacity(false, true)
			s.scontrol("update", "nodename=c2", "state=drain", "reason=disks")
			s.start("")
			s.wait(time.Minute, "the job runs", s.runs(s.ctl.Submit(job)))
			if a := s.aside(); a != "c1 c2 c3" {
				t.Errorf("aside are %q", a)
			}
			s.scontrol("delete", "reservationname=burst-dry-p")
			time.Sleep(5 * time.Second)
			if a := s.aside(); a != "" {
				t.Errorf("aside are %q again", a)
			}
			// The next job finds the pool dry.
			id := s.ctl.Submit(job)
			s.wait(time.Minute, "the next job runs", s.runs(id))
			if i, _ := s.ctl.Info(id); i.Restarts != 1 || s.aside() != "c1 c2 c3" {
				t.Errorf("it was restarted %d times; aside are %q", i.Restarts, s.aside())
			}
			s.wait(5*time.Minute, "p's nodes are in use again", func() bool { return s.aside() == "" && s.events("pool-back") > 0 })
			if n := s.ctl.Node("c2"); n != "IDLE+CLOUD+DRAIN+POWERED_DOWN" {
				t.Errorf("the node that the admin has drained is %s", n)
			}
		},
		"nodes that an earlier burstd has left, whose journal is lost": func(t *testing.T, s *story) {
			s.scontrol("create", "reservation", "reservationname=burst-dry-p", "nodes=c1,c2", "starttime=now", "endtime=uts"+strconv.FormatInt(time.Now().Add(time.Hour).Unix(), 10), "user=root", "flags=ignore_jobs,overlap")
			s.start("")
			s.wait(10*time.Second, "they are back", func() bool { return s.aside() == "" })
		},
		"a pool that is stopped, until it is started": func(t *testing.T, s *story) {
			s.capacity(true, true)
			l := s.start("")
			if err := l.engine.StopPool(t.Context(), "p", "tests", "root"); err != nil {
				t.Fatal(err)
			}
			id := s.ctl.Submit(job)
			s.wait(time.Minute, "the job runs", s.runs(id))
			s.die()
			l = s.start("")
			time.Sleep(5 * time.Minute)
			if a := s.aside(); a != "c1 c2 c3" {
				t.Errorf("after a restart aside are %q", a)
			}
			if err := l.engine.StartPool(t.Context(), "p", "root"); err != nil {
				t.Fatal(err)
			}
			s.wait(10*time.Second, "they are back", func() bool { return s.aside() == "" })
		},
		"what is up in the dry pool goes on being used": func(t *testing.T, s *story) {
			s.capacity(true, true)
			s.start("")
			j := job
			j.Duration = 20 * time.Second
			s.wait(time.Minute, "a job runs", s.runs(s.ctl.Submit(j)))
			s.capacity(false, true)
			s.wait(time.Minute, "another runs in q", s.runs(s.ctl.Submit(job)))
			if a := s.aside(); a != "c2 c3" {
				t.Errorf("aside are %q", a)
			}
			s.wait(time.Minute, "the first is done", func() bool { return s.ctl.Node("c1") == "IDLE+CLOUD" })
			id := s.ctl.Submit(j)
			s.wait(5*time.Second, "the next runs", s.runs(id))
			if i, _ := s.ctl.Info(id); strings.Join(i.Nodes, " ") != "c1" {
				t.Errorf("it runs on %v", i.Nodes)
			}
		},
		"a job with --no-requeue goes, too": func(t *testing.T, s *story) {
			s.capacity(false, true)
			s.start("")
			id := s.ctl.Submit(slurmtest.Job{Nodes: 1, Duration: time.Hour})
			s.wait(time.Minute, "the job runs", s.runs(id))
			if i, _ := s.ctl.Info(id); i.Restarts != 1 || strings.Join(i.Nodes, " ") != "c4" {
				t.Errorf("it was restarted %d times, and runs on %v", i.Restarts, i.Nodes)
			}
		},
		"many jobs at once: few commands": func(t *testing.T, s *story) {
			s.capacity(false, true)
			s.start("")
			var ids []uint32
			for range 3 {
				ids = append(ids, s.ctl.Submit(job))
			}
			s.wait(2*time.Minute, "all run", func() bool { return !slices.ContainsFunc(ids, func(id uint32) bool { return !s.runs(id)() }) })
			if n := s.reserves(); n > 3 {
				t.Errorf("%d commands", n)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := twoPools(t)
				defer s.until()
				f(t, s)
			})
		})
	}
}

// waitsAsEver: the job has no other pool. It starts again when p's cooldown ends, and no
// node is set aside.
func (s *story) waitsAsEver(id uint32) {
	s.t.Helper()
	s.told(id, "no capacity in pool p (small/a/on-demand, small/b/on-demand); starts again from ")
	if i, _ := s.ctl.Info(id); i.Begin.Before(time.Now().Add(15*time.Second)) || s.reserves() > 0 {
		s.t.Errorf("it begins at %s, now is %s; %d commands to set nodes aside", i.Begin, time.Now(), s.reserves())
	}
	s.capacity(true, true)
	s.wait(2*time.Minute, "the job runs", s.runs(id))
}
