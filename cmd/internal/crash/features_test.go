package crash_test

import (
	"errors"
	"slices"
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

// featured is a world as of twoClouds whose nodes have the names of both clouds as features.
func featured(t *testing.T, c cloudtest.Options, suspend time.Duration) *story {
	c.Boot, c.Lag, c.Shutdown, c.Prepare = 3*time.Second, 2*time.Second, time.Second, true
	s := &story{world: newWorld(t, slurmtest.Options{Nodes: expand("c[1-4]"), Features: []string{"fake", "other"}, SuspendTime: suspend,
		SuspendTimeout: 10 * time.Second, ResumeTimeout: 3 * time.Minute, ReturnToService: 2}, c, fleet.OnDemandOnly)}
	s.pool.Then = []power.Source{{Provider: "other", Fleet: fleet.Config{Types: []string{"large"}, Market: fleet.OnDemandOnly}}}
	return s
}

// behind counts the job's nodes by the cloud of which an instance lives that was told to be it.
func (s *story) behind(id uint32) (fake, other int) {
	info, _ := s.ctl.Info(id)
	count := func(f *cloudtest.Fake) (n int) {
		nodes := f.Nodes()
		for _, i := range f.Instances() {
			if i.State == cloud.Running && slices.Contains(info.Nodes, nodes[i.ID]) {
				n++
			}
		}
		return n
	}
	return count(s.fake), count(s.other)
}

// room gives the first cloud's zone a room for n instances; -1: for any number.
func (s *story) room(n int) { s.fake.SetCapacity(offering("a", cloud.OnDemand), n) }

// passed holds the story to having asked these of Slurm.
func (s *story) passed(asked ...string) {
	s.t.Helper()
	for _, text := range asked {
		if !slices.ContainsFunc(s.ctl.Calls(), func(c slurmtest.Call) bool {
			return strings.Contains(strings.Join(append([]string{c.Name}, c.Args...), " "), text)
		}) {
			s.t.Errorf("Slurm was not asked for %s", text)
		}
	}
}

// over says that the job has ended well.
func (s *story) over(id uint32) func() bool {
	return func() bool { state := s.state(id); return state == "COMPLETED" || state == "forgotten" }
}

// TestAJobLeavesAnIdleNode: one of the job's two nodes is idle at the first cloud, which has no room for the
// other. Both come from the second, and the idle one goes, though it would stay up for long.
func TestAJobLeavesAnIdleNode(t *testing.T) {
	for name, away := range map[string]bool{"the cloud has no room": false, "the cloud is away": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := featured(t, cloudtest.Options{}, 10*time.Hour)
				defer s.until()
				s.full()
				s.room(1)
				s.start("")
				first := s.ctl.Submit(slurmtest.Job{Nodes: 1, Duration: 10 * time.Second})
				s.wait(time.Minute, "the first job is done", s.over(first))
				if away {
					s.fake.Inject(cloudtest.List, cloudtest.Fault{Err: errors.New("no route"), Times: 1000})
					s.fake.Inject(cloudtest.Launch, cloudtest.Fault{Err: errors.New("no route"), Times: 1000})
					time.Sleep(time.Minute)
				}
				pair := s.ctl.Submit(slurmtest.Job{Nodes: 2, Requeue: true, Duration: time.Hour})
				if away {
					s.wait(20*time.Second, "it is told what it waits for", func() bool {
						i, _ := s.ctl.Info(pair)
						return i.State == "CONFIGURING" && strings.Contains(i.AdminComment, "its nodes are launched when a cloud answers")
					})
				}
				s.wait(3*time.Minute, "the job of two nodes runs", s.runs(pair))
				if fake, other := s.behind(pair); fake != 0 || other != 2 {
					t.Errorf("it runs on %d nodes of the first cloud and %d of the second", fake, other)
				}
				if i, _ := s.ctl.Info(pair); i.Restarts != 1 || !strings.Contains(i.AdminComment, "its nodes begin anew at another provider") {
					t.Errorf("restarted %d times, it was told %q", i.Restarts, i.AdminComment)
				}
				if !away {
					s.wait(time.Minute, "the idle node's instance ends", func() bool { return liveIn(s.fake) == 0 })
				}
			})
		})
	}
}

// TestAHangingCloudIsPassedOver: a launch has no answer for nearly two minutes. The job runs at the second
// cloud after one, and what comes of the launch is nobody's.
func TestAHangingCloudIsPassedOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := featured(t, cloudtest.Options{Latency: map[cloudtest.Op]time.Duration{cloudtest.Launch: 110 * time.Second}}, time.Hour)
		defer s.until()
		s.other = cloudtest.NewFake(cloudtest.Options{Boot: 3 * time.Second, Lag: 2 * time.Second, Prepare: true, Name: "o"})
		s.start("")
		pair := s.ctl.Submit(slurmtest.Job{Nodes: 2, Requeue: true, Duration: time.Hour})
		s.wait(80*time.Second, "the job runs", s.runs(pair))
		if fake, other := s.behind(pair); fake != 0 || other != 2 {
			t.Errorf("it runs on %d nodes of the first cloud and %d of the second", fake, other)
		}
		// The call is answered after all.
		s.wait(5*time.Minute, "what it brought ends", func() bool { return len(s.fake.Instances()) == 2 && liveIn(s.fake) == 0 })
		if i, _ := s.ctl.Info(pair); i.State != "RUNNING" || i.Restarts != 0 || liveIn(s.other) != 2 {
			t.Errorf("the job is %s, restarted %d times, with %d instances", i.State, i.Restarts, liveIn(s.other))
		}
	})
}

// TestKillWithFeatures: burstd dies at each point of a story in which nodes are told apart by their clouds: a
// job leaves an idle node, one keeps to the first cloud though too few nodes may be of it, and
// a launch's answer is lost while the cloud is away.
func TestKillWithFeatures(t *testing.T) {
	play := func(t *testing.T, at string) (points []string, reached bool) {
		synctest.Test(t, func(t *testing.T) {
			s := featured(t, cloudtest.Options{}, time.Minute)
			defer s.until()
			l := s.start(at)
			mixed, strayed := false, false
			var kept uint32
			waitFor := func(d time.Duration, what string, cond func() bool) {
				t.Helper()
				s.wait(d, what, func() bool {
					if s.isDead() {
						s.die()
						time.Sleep(3 * time.Second)
						s.start("")
					}
					for id := range uint32(5) {
						if fake, other := s.behind(id); s.runs(id)() {
							mixed, strayed = mixed || fake > 0 && other > 0, strayed || id == kept && other > 0
						}
					}
					return cond()
				})
			}
			s.full()
			s.room(1)
			first := s.ctl.Submit(slurmtest.Job{Nodes: 1, Requeue: true, Duration: 20 * time.Second})
			waitFor(5*time.Minute, "the first job is done", s.over(first))
			s.full()
			pair := s.ctl.Submit(slurmtest.Job{Nodes: 2, Requeue: true, Duration: 20 * time.Second})
			waitFor(10*time.Minute, "the job of two nodes is done", s.over(pair))
			s.room(-1)
			kept = s.ctl.Submit(slurmtest.Job{Nodes: 3, Requeue: true, Features: "fake", Duration: 20 * time.Second})
			waitFor(20*time.Minute, "the job that keeps to the first cloud is done", s.over(kept))
			waitFor(5*time.Minute, "no instance lives", func() bool { return liveIn(s.fake)+liveIn(s.other) == 0 && s.closed() })
			away := errors.New("no route")
			s.fake.Inject(cloudtest.Launch, cloudtest.Fault{Err: away, Times: 1000, Lost: true})
			calls := s.fake.Calls(cloudtest.Launch)
			lost := s.ctl.Submit(slurmtest.Job{Nodes: 2, Requeue: true, Duration: 5 * time.Minute})
			waitFor(time.Minute, "its launch is called", func() bool { return s.fake.Calls(cloudtest.Launch) > calls })
			s.fake.Inject(cloudtest.List, cloudtest.Fault{Err: away, Times: 15})
			waitFor(20*time.Minute, "the job whose launch was lost is done", s.over(lost))
			waitFor(20*time.Minute, "nothing is left", func() bool { return liveIn(s.fake)+liveIn(s.other) == 0 && s.closed() })
			if mixed || strayed || len(s.twice) > 0 {
				t.Errorf("a job had nodes of two clouds: %v; one of a cloud that it did not want: %v; two instances at once were node %v", mixed, strayed, s.twice)
			}
			waitFor(time.Minute, "all nodes have all features", func() bool {
				return !slices.ContainsFunc(expand("c[1-4]"), func(n string) bool { return len(s.ctl.Features(n)) != 2 })
			})
			if at == "" {
				s.passed("state=power_down_asap", "scontrol release", "activefeatures=other")
				if s.events("launch-withdrawn") == 0 {
					t.Error("no launch was withdrawn")
				}
			}
			points, reached = l.log, l.reached
		})
		return points, reached
	}
	points, _ := play(t, "")
	if t.Failed() {
		return
	}
	// Of an account only the first questions: they change nothing.
	chosen, missed := slices.DeleteFunc(choose(points), func(p string) bool { return strings.Contains(p, " account #") && len(p) > len("before account #3") }), 0
	if testing.Short() {
		var few []string
		for i := 0; i < len(chosen); i += 100 {
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
