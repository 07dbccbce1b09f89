package crash_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/cloud/cloudtest"
	"github.com/burst-hpc/burst/cloud/fleet"
	"github.com/burst-hpc/burst/cloud/price"
	"github.com/burst-hpc/burst/cmd/internal/ledger"
	"github.com/burst-hpc/burst/cmd/internal/spending"
	"github.com/burst-hpc/burst/slurm"
	"github.com/burst-hpc/burst/slurm/overflow/budget"
	"github.com/burst-hpc/burst/slurm/power"
	"github.com/burst-hpc/burst/slurm/slurmtest"
)

// spender is a story of jobs of one node each that come at once, two hours before midnight,
// and of which a day's budget lets only some be launched. An hour of an instance costs a dollar.
type spender struct {
	*story
	caps budget.Caps
	inc  price.Increment
	idle time.Duration // SuspendTime
	ids  []uint32
	free string // the offering that has no price; empty: none
}

func beginSpender(t *testing.T, nodes int, caps budget.Caps, prepare bool) *spender {
	return beginIdler(t, nodes, caps, prepare, time.Minute)
}

// beginIdler is one whose nodes may be idle for so long.
func beginIdler(t *testing.T, nodes int, caps budget.Caps, prepare bool, idle time.Duration) *spender {
	caps.Location = time.FixedZone("here", 22*3600)
	s := &spender{caps: caps, inc: price.PerSecond, idle: idle}
	s.story = &story{world: newWorld(t, slurmtest.Options{Nodes: expand(fmt.Sprintf("c[1-%d]", nodes)), SuspendTime: idle, SuspendTimeout: 10 * time.Second,
		ResumeTimeout: 5 * time.Minute, MinJobAge: 48 * time.Hour, ReturnToService: 2},
		cloudtest.Options{Boot: 3 * time.Second, Lag: 2 * time.Second, Shutdown: time.Second, Choice: true, Prepare: prepare, MaxLaunch: 20,
			Latency: map[cloudtest.Op]time.Duration{cloudtest.Launch: 500 * time.Millisecond}}, fleet.OnDemandOnly)}
	s.world.spends = s.spend
	return s
}

// spend gives a life its budget and a ledger, as burstd has them.
func (s *spender) spend(l *life, latest func() *slurm.Snapshot, c *power.Config) {
	k := &spending.Keeper{Caps: s.caps, Pools: map[string]spending.Times{"p": {Boot: 5 * time.Minute, Suspend: s.idle, End: 10 * time.Second}},
		Price:     func(_ string, o cloud.Offering) (float64, bool) { return s.usd(o), true },
		Increment: func(string, cloud.Offering) price.Increment { return s.inc }, Latest: latest, Ledger: l.store, Log: slog.New(slog.DiscardHandler)}
	c.Budget, c.Priced = k.Open, k.Priced
	l.done.Go(func() {
		for ; l.ctx.Err() == nil; pauseFor(l.ctx, 20*time.Second) {
			snap := latest()
			if snap == nil {
				continue
			}
			instances, rows, err := l.store.LoadUsage(l.ctx)
			if err != nil || l.point("before commit ledger") != nil {
				continue
			}
			all := ledger.Book(rows, ledger.Input{Instances: instances, Snapshot: snap, Increment: k.Increment,
				Price: func(_ string, o cloud.Offering) ledger.Price {
					return ledger.Price{USDPerHour: s.usd(o), Source: "table"}
				}})
			if err := l.store.PutUsage(l.ctx, all); err == nil {
				l.point("after commit ledger")
			}
		}
	})
}

func (s *spender) usd(o cloud.Offering) float64 {
	if o.String() == s.free {
		return 0
	}
	return 1
}

func pauseFor(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// submit has so many jobs come, each with a limit of half an hour, of which it needs the half. They end
// when no other is tried again, which Slurm could start on their nodes: that is no launch, and nobody is asked.
func (s *spender) submit(n int) {
	for i := range n {
		s.ids = append(s.ids, s.ctl.Submit(slurmtest.Job{Name: "one", User: []string{"ann", "bob"}[i%2], UID: 1000 + i%2, Account: "physics", Requeue: true,
			TimeLimit: 30 * time.Minute, Duration: 15 * time.Minute}))
	}
}

func (s *spender) revive() {
	if s.isDead() {
		s.die()
		time.Sleep(3 * time.Second)
		s.start("")
	}
}

func (s *spender) completed() (n int) {
	for _, id := range s.ids {
		if i, known := s.ctl.Info(id); !known || i.State == "COMPLETED" {
			n++
		}
	}
	return n
}

// perDay is what the cloud bills of each day, by the dates here.
func (s *spender) perDay() map[string]float64 {
	days := map[string]float64{}
	for _, i := range s.fake.Instances() {
		end := time.Now()
		if !i.State.Live() && !i.Ended.IsZero() {
			end = i.Ended
		}
		end = i.Launched.Add(s.inc.Billed(end.Sub(i.Launched)))
		for at := i.Launched; at.Before(end); {
			next := s.caps.Day(at).To
			if next.After(end) {
				next = end
			}
			days[at.In(s.caps.Location).Format(time.DateOnly)] += next.Sub(at).Hours()
			at = next
		}
	}
	return days
}

// most is how many instances lived at once, at the most.
func (s *spender) most() (n int) {
	all := s.fake.Instances()
	for _, i := range all {
		beside := 0
		for _, j := range all {
			if !j.Launched.After(i.Launched) && (j.State.Live() || j.Ended.IsZero() || j.Ended.After(i.Launched)) {
				beside++
			}
		}
		n = max(n, beside)
	}
	return n
}

// check: no day costs more than its cap, and the first came near it.
func (s *spender) check(least float64) {
	s.t.Helper()
	days := s.perDay()
	for day, usd := range days {
		if usd > s.caps.Cluster.Day {
			s.t.Errorf("%s cost %.4f USD, and %.2f are its budget: %v", day, usd, s.caps.Cluster.Day, days)
		}
	}
	if usd := days["2000-01-01"]; usd < least {
		s.t.Errorf("the first day cost %.4f USD, and could have had %.2f: %v", usd, s.caps.Cluster.Day, days)
	}
}

// TestBudgetOfFiftyOrders: of fifty jobs that come at once so many are launched as a day's budget has
// for them by their time limits, and more as the first end before theirs; the others are told why.
func TestBudgetOfFiftyOrders(t *testing.T) {
	if testing.Short() {
		t.Skip("much virtual time: TestBudgetKilledAtEveryPoint spends a budget, too")
	}
	for name, prepare := range map[string]bool{"launched at once": false, "prepared first": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := beginSpender(t, 50, budget.Caps{Cluster: budget.Limits{Day: 8}}, prepare)
				defer s.until()
				s.start("")
				s.submit(50)
				s.wait(10*time.Minute, "the first run", func() bool { return s.live() > 0 })
				// An instance counts with 5 minutes of boot, 30 of the limit, 1 of idle time and 10 s of its end: 0.6028 USD.
				time.Sleep(time.Minute)
				if n := s.live(); n != 13 {
					t.Errorf("%d instances are launched, and 8 USD are for 13", n)
				}
				told := 0
				for _, id := range s.ids {
					if i, _ := s.ctl.Info(id); strings.Contains(i.AdminComment, "budget: the cluster's budget for 2000-01-01: by the time limit this could cost more than is left of it") {
						told++
					}
				}
				if told != 37 {
					t.Errorf("%d of 37 jobs are told of the budget", told)
				}
				s.wait(2*time.Hour, "more jobs end than were launched at first", func() bool { return s.completed() > 20 })
				s.check(6)
			})
		})
	}
}

// TestBudgetOfUsersAndHours: a user's cap is the user's alone, and a begun hour counts whole.
func TestBudgetOfUsersAndHours(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := beginSpender(t, 12, budget.Caps{Cluster: budget.Limits{Day: 9}, Users: map[string]budget.Limits{"ann": {Day: 2.5}}}, false)
		s.inc = price.PerHour
		defer s.until()
		s.start("")
		s.submit(12)
		time.Sleep(5 * time.Minute)
		ann, bob := 0, 0
		for n, id := range s.ids {
			if i, _ := s.ctl.Info(id); i.State == "RUNNING" && n%2 == 0 {
				ann++
			} else if i.State == "RUNNING" {
				bob++
			} else if !strings.Contains(i.AdminComment, "budget: user ann's budget for 2000-01-01: by the time limit this could cost more than is left of it") {
				t.Errorf("job %d is %s: %s", id, i.State, i.AdminComment)
			}
		}
		if ann != 2 || bob != 6 {
			t.Errorf("%d of ann's jobs run, and %d of bob's", ann, bob)
		}
	})
}

// TestARaisedBudgetLetsJobsGoOn: burstd with a higher cap tries at once what an earlier one refused.
func TestARaisedBudgetLetsJobsGoOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := beginSpender(t, 6, budget.Caps{Cluster: budget.Limits{Day: 1.3}}, false)
		defer s.until()
		s.start("")
		s.submit(6)
		time.Sleep(2 * time.Minute)
		if n := s.live(); n != 2 {
			t.Errorf("%d instances are launched, and 1.3 USD are for 2", n)
		}
		s.die()
		s.caps.Cluster.Day = 4
		s.start("")
		s.wait(2*time.Minute, "all jobs run", func() bool { return s.live() == 6 })
	})
}

// TestALoweredBudgetKeepsBackWhatWasNotCalled: wherever burstd dies before the journal has a launch as called, one with a lower cap
// calls no more than that has room for.
func TestALoweredBudgetKeepsBackWhatWasNotCalled(t *testing.T) {
	play := func(t *testing.T, at string) (points []string, lived int) {
		s := beginSpender(t, 4, budget.Caps{Cluster: budget.Limits{Day: 8}}, true)
		defer s.until()
		first := s.start(at)
		s.submit(4)
		for range 120 { // it dies in the first, if at all
			if time.Sleep(time.Second); s.isDead() {
				s.caps.Cluster.Day = 1 // an instance counts with 0.6028 USD
				s.revive()
			}
		}
		return first.log, s.most()
	}
	var points []string
	synctest.Test(t, func(t *testing.T) {
		all, lived := play(t, "")
		n := slices.Index(all, "after commit launches #1") // from then on the journal has them as called
		if lived != 4 || n < 0 || !slices.Contains(all[n:], "before launch #1") {
			t.Fatalf("%d instances, %q", lived, all)
		}
		points = slices.DeleteFunc(all[:n], func(p string) bool { return !strings.Contains(p, "commit") })
	})
	if testing.Short() {
		points = points[len(points)-2:]
	}
	for _, p := range points {
		synctest.Test(t, func(t *testing.T) {
			if _, lived := play(t, p); lived != 1 {
				t.Errorf("died at %s: %d instances lived at once, and 1 USD is for one", p, lived)
			}
		})
	}
}

// TestBudgetKilledAtEveryPoint: wherever burstd dies, no day costs more than its budget, and never are more
// instances there than it has for them by their time limits.
func TestBudgetKilledAtEveryPoint(t *testing.T) {
	play := func(t *testing.T, at string) (points []string, reached bool) {
		s := beginSpender(t, 8, budget.Caps{Cluster: budget.Limits{Day: 2}}, true)
		defer s.until()
		first := s.start(at)
		s.submit(8)
		s.wait(3*time.Hour, "all jobs end", func() bool { s.revive(); return s.completed() == 8 })
		s.check(1)
		// An instance counts with 0.6028 USD until it ends, and costs 0.27: launched at once, even seven would stay below the cap.
		if n := s.most(); n > 3 {
			t.Errorf("%d instances lived at once, and 2 USD are for 3", n)
		}
		return first.log, first.reached
	}
	var points []string
	synctest.Test(t, func(t *testing.T) { points, _ = play(t, "") })
	var chosen []string
	for _, p := range points {
		name, n, _ := strings.Cut(p, " #")
		if (strings.Contains(name, "commit") || strings.Contains(name, "launch") || strings.Contains(name, "prepare") || strings.HasSuffix(name, " update")) && len(n) == 1 {
			chosen = append(chosen, p)
		}
	}
	few := min(24, len(chosen)) // all of them take minutes
	var tried []string
	for n := range few {
		tried = append(tried, chosen[(2*n+1)*len(chosen)/(2*few)]) // the middle of each part
	}
	if testing.Short() && few > 0 {
		few, tried = 1, tried[few/4:][:1] // the first jobs run then
	}
	missed := 0
	for _, p := range tried {
		t.Run(strings.ReplaceAll(p, " ", "_"), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				if _, reached := play(t, p); !reached {
					missed++
				}
			})
		})
	}
	t.Logf("%d points passed, %d of them tried, %d not passed again", len(points), few, missed)
	if missed == few || missed > few/10+1 {
		t.Errorf("%d of %d points were not passed again", missed, few)
	}
}
