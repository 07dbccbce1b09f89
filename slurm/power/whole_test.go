package power

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/cloud/fleet"
	"github.com/burst-hpc/burst/slurm"
)

var (
	smallA = cloud.Offering{Type: "small", Zone: "a", Market: cloud.OnDemand}
	smallB = cloud.Offering{Type: "small", Zone: "b", Market: cloud.OnDemand}
	bigX   = cloud.Offering{Type: "big", Zone: "x", Market: cloud.OnDemand}
)

// wholeJob are nodes of a job that needs them all.
func wholeJob(id uint32, pool string, phase Phase, names ...string) (all []Node) {
	for _, name := range names {
		n := Node{Name: name, Pool: pool, Phase: phase, Job: id, Whole: true}
		if phase == Launching {
			n.Token = "t"
		}
		all = append(all, n)
	}
	return all
}

// shortOf is the memory of offerings of which so many came last, which are paid for a while yet.
func shortOf(provider string, most int, paid time.Time, all ...cloud.Offering) (c []Cooling) {
	for _, o := range all {
		c = append(c, Cooling{provider, o, fleet.Cooldown{Most: most, Paid: paid}})
	}
	return c
}

// TestAllOrNothingTakesTurns: of two jobs beside each other both could get too few of what is enough for one, and
// pay an hour for it.
func TestAllOrNothingTakesTurns(t *testing.T) {
	open := Launch{Token: "t", Provider: "east", State: Written, Created: at.Add(-20 * time.Second), Nodes: []string{"c1", "c2"},
		Request: cloud.LaunchRequest{Pool: "p", Offering: smallA, Count: 2, AllOrNothing: true}}
	with := func(change func(*Launch)) []Launch {
		l := open
		change(&l)
		return []Launch{l}
	}
	launching, others := wholeJob(7, "p", Launching, "c1", "c2"), wholeJob(8, "p", Wanted, "c3", "c4")
	both := slices.Concat(launching, others)
	const second = "c3,c4 small/a/on-demand"
	const end = 101 * time.Second // a minute, half a second for each instance, and the cloud's Lag, but for what has passed
	for _, tt := range []struct {
		name   string
		st     State
		change func(*planning)
		want   string
		wait   time.Duration
	}{
		{"one after the other", State{Nodes: slices.Concat(wholeJob(7, "p", Wanted, "c1", "c2"), others)}, nil, "c1,c2 small/a/on-demand", doubtFor},
		{"while the first is under way", State{Nodes: both, Launches: []Launch{open}}, nil, "", end},
		{"after it", State{Nodes: slices.Concat(wholeJob(7, "p", Booting, "c1", "c2"), others)}, nil, second, 0},
		{"it is given up", State{Nodes: both, Launches: with(func(l *Launch) { l.State = Abandoned })}, nil, second, 0},
		{"it has had no answer for long", State{Nodes: both, Launches: with(func(l *Launch) { l.Created = at.Add(-3 * time.Minute) })}, nil, second, 0},
		{"burstd has been restarted since", State{Nodes: both, Launches: with(func(l *Launch) { l.Created = at.Add(-3 * time.Minute) })},
			func(p *planning) { p.loaded = at.Add(-20 * time.Second) }, "", end},
		{"nobody waits for it", State{Nodes: others, Launches: []Launch{open}}, nil, second, 0},
		{"nobody waits for it, and it is under way", State{Nodes: others, Launches: []Launch{open}}, func(p *planning) { p.market.called["t"] = at }, "", end},
		{"it is of another offering", State{Nodes: both, Launches: with(func(l *Launch) { l.Request.Offering = smallB })}, nil, second, 0},
		{"it is of another cloud", State{Nodes: both, Launches: with(func(l *Launch) { l.Provider = "west" })}, nil, second, 0},
		{"its nodes serve on their own", State{Nodes: both, Launches: with(func(l *Launch) { l.Request.AllOrNothing = false })}, nil, second, 0},
		{"it is of the same job", State{Nodes: slices.Concat(launching, wholeJob(7, "p", Wanted, "c3", "c4")), Launches: []Launch{open}}, nil, second, 0},
		{"the first offering cools", State{Nodes: both, Launches: []Launch{open}, Coolings: []Cooling{{"east", smallA, fleet.Cooldown{Failures: 1, Until: at.Add(time.Minute)}}}},
			nil, "c3,c4 small/b/on-demand", 0},
		{"the other source has room", State{Nodes: both, Launches: []Launch{open}}, func(p *planning) {
			pool := p.pools["p"]
			pool.Then = []Source{{Provider: "west", Fleet: pool.Fleet}}
			p.pools["p"] = pool
		}, "", end},
		{"a node on its own", State{Nodes: slices.Concat(launching, []Node{{Name: "c3", Pool: "p", Phase: Wanted}}), Launches: []Launch{open}}, nil, "c3 small/a/on-demand", 0},
		{"a cloud that bills seconds", State{Nodes: both, Launches: []Launch{open}},
			func(p *planning) { p.least = func(string, cloud.Offering) time.Duration { return time.Minute } }, second, 0},
		{"all parts of a job wait", State{Nodes: slices.Concat(launching, wholeJob(8, "q", Wanted, "d1"), wholeJob(8, "p", Wanted, "c3")), Launches: []Launch{open}}, nil, "", end},
		{"an older job waits for that, too", State{Nodes: slices.Concat(launching, wholeJob(8, "p", Wanted, "c3"), wholeJob(8, "q", Wanted, "d1"), wholeJob(9, "q", Wanted, "d2")), Launches: []Launch{open}}, nil, "", doubtFor},
		{"the first of two waits for something else", State{Nodes: slices.Concat(wholeJob(7, "p", Wanted, "c1"), wholeJob(7, "q", Wanted, "d1"), others)},
			func(p *planning) { p.shut["q@west"] = shut{brief: true} }, second, 0},
	} {
		p := planning{mem: newMemory(tt.st), pools: map[string]Pool{}, limits: map[string]cloud.Limits{"east": {MaxLaunch: 9, Lag: time.Minute}, "west": {MaxLaunch: 9}},
			now: at, market: newMarket(), shut: map[string]shut{}, least: func(string, cloud.Offering) time.Duration { return time.Hour }}
		for _, pool := range testPools() {
			p.pools[pool.Name] = pool
		}
		if tt.change != nil {
			tt.change(&p)
		}
		out := p.plan()
		var got []string
		for _, d := range out.drafts {
			got = append(got, strings.Join(d.Nodes, ",")+" "+d.Request.Offering.String())
		}
		if text := strings.Join(got, "; "); text != tt.want || len(out.Holds) > 0 {
			t.Errorf("%s: launched are %q, want %q; held %v", tt.name, text, tt.want, out.Holds)
		}
		if wait := out.wait.Sub(at); tt.wait == 0 && !out.wait.IsZero() || tt.wait > 0 && wait != tt.wait {
			t.Errorf("%s: planned again after %s, want %s", tt.name, wait, tt.wait)
		}
	}
}

// TestATurnThatComesTooLate: job 8 waits for job 7's launch for a third of ResumeTimeout, is told after half a minute, and then
// goes beside it.
func TestATurnThatComesTooLate(t *testing.T) {
	for _, tt := range []struct {
		waited time.Duration
		told   string
		drafts int
		wait   time.Duration
	}{
		{waited: 10 * time.Second, wait: 20 * time.Second},
		{waited: 40 * time.Second, told: quietText + "job 7's launch of small/a/on-demand is waited for", wait: 101 * time.Second},
		{waited: 4 * time.Minute, told: quietText + "job 7's launch of small/a/on-demand is waited for", wait: time.Minute},
		{waited: 5 * time.Minute, drafts: 1},
	} {
		st := State{Nodes: slices.Concat(wholeJob(7, "p", Launching, "c1", "c2"), wholeJob(8, "p", Wanted, "c3", "c4")),
			Launches: []Launch{{Token: "t", Provider: "east", State: Written, Created: at.Add(-20 * time.Second), Nodes: []string{"c1", "c2"},
				Request: cloud.LaunchRequest{Pool: "p", Offering: smallA, Count: 2, AllOrNothing: true}}}}
		for i := range st.Nodes[2:] {
			n := &st.Nodes[2+i]
			n.Since, n.Made, n.Order = at.Add(-tt.waited), at.Add(-tt.waited), "o"
		}
		p := planning{mem: newMemory(st), pools: map[string]Pool{"p": testPools()[0]}, limits: map[string]cloud.Limits{"east": {MaxLaunch: 9, Lag: time.Minute}},
			now: at, market: newMarket(), least: func(string, cloud.Offering) time.Duration { return time.Hour }, bootTimeout: 15 * time.Minute}
		out := p.plan()
		if len(out.Holds) > 0 || out.told[asking{8, "o"}] != tt.told || len(out.drafts) != tt.drafts {
			t.Errorf("after %s: held %v, told %q, launched %+v", tt.waited, out.Holds, out.told[asking{8, "o"}], out.drafts)
		}
		if wait := out.wait.Sub(at); tt.wait == 0 && !out.wait.IsZero() || tt.wait > 0 && wait != tt.wait {
			t.Errorf("after %s: planned again after %s, want %s", tt.waited, wait, tt.wait)
		}
	}
}

// TestAJobThatIsTooLargeForAPool: of p's offerings one came last, so that job 7 of two nodes goes to q, if that has two.
// Jobs of one node get p's as ever.
func TestAJobThatIsTooLargeForAPool(t *testing.T) {
	const off = "IDLE+CLOUD+POWERED_DOWN"
	goes := []string{"reserve c1,c2,c3,c4"}
	for _, tt := range []struct {
		name   string
		change func(e *Engine, c *Change)
		want   []string
		start  time.Duration // of the job
	}{
		{"q has room", func(*Engine, *Change) {}, goes, 0},
		{"q had one", func(_ *Engine, c *Change) {
			c.Coolings = append(c.Coolings, shortOf("west", 1, time.Now().Add(time.Hour/2), bigX)...)
		}, nil, time.Hour / 2},
		{"q had two", func(_ *Engine, c *Change) {
			c.Coolings = append(c.Coolings, shortOf("west", 2, time.Now().Add(time.Hour/2), bigX)...)
		}, goes, 0},
		{"q cools", func(_ *Engine, c *Change) {
			c.Coolings = append(c.Coolings, Cooling{"west", bigX, fleet.Cooldown{Failures: 3, Until: time.Now().Add(4 * time.Minute)}})
		}, nil, 4 * time.Minute},
		{"q is a server of files", func(e *Engine, _ *Change) {
			q := e.pools["q"]
			q.Serves = true
			e.pools["q"] = q
		}, nil, time.Hour},
	} {
		t.Run(tt.name, func(t *testing.T) {
			states := map[string]string{"c1": off, "c2": off, "c3": off, "c4": off, "d1": off, "d2": off}
			job := slurm.Job{ID: 7, State: "PENDING", Batch: true, NumNodes: 2, Partition: "both"}
			inSlurm(t, State{Heard: []string{""}}, states, []slurm.Job{job}, func(t *testing.T, e *Engine, s *scripted) {
				for name, n := range s.snap.Nodes {
					n.Partitions = []string{"both"}
					s.snap.Nodes[name] = n
				}
				clear(e.dry.aside)
				e.sawJobs(s.snap)
				c := Change{Coolings: shortOf("east", 1, time.Now().Add(time.Hour), smallA, smallB), Nodes: wholeJob(7, "p", Wanted, "c1", "c2")}
				tt.change(e, &c)
				e.apply(c)
				begin := time.Now()
				plan := func() planned {
					p, _ := e.planning()
					out := p.plan()
					e.apply(out.Change)
					return out
				}
				if out := plan(); len(out.drafts) > 0 || len(out.Coolings) > 0 || !strings.Contains(e.mem.holds[7].Why, "1 of small/a/on-demand came last and are paid for") ||
					!e.mem.holds[7].names("p") || e.mem.holds[7].Start.Sub(begin) != time.Hour {
					t.Errorf("planned %+v; the job is told %q", out, e.mem.holds[7].Why)
				}
				e.apply(Change{DropNodes: []string{"c1", "c2"}, Nodes: []Node{{Name: "c3", Pool: "p", Phase: Wanted, Job: 8}}})
				if out := plan(); len(out.drafts) != 1 || out.drafts[0].Request.Offering != smallA {
					t.Errorf("for a job of one node is planned %+v", out)
				}
				e.apply(Change{DropNodes: []string{"c3"}})
				look := func(want []string) {
					t.Helper()
					for range 2 {
						if _, err := e.failOver(t.Context()); err != nil {
							t.Fatal(err)
						}
					}
					if diff := cmp.Diff(want, s.asked); diff != "" {
						t.Errorf("asked (-want +got):\n%s", diff)
					}
				}
				look(tt.want)
				if h := e.mem.holds[7]; h.Start.Sub(begin) != tt.start || strings.Contains(h.Why, "; it goes to pool q") != (tt.start == 0) {
					t.Errorf("after %s it starts at %s: %s", time.Since(begin), h.Start.Sub(begin), h.Why)
				}
				if tt.start == 0 { // jobs that need fewer nodes do without p's for no longer
					time.Sleep(leastWait + time.Second)
					look(append(slices.Clone(tt.want), "unreserve burst-dry-p"))
				}
			})
		})
	}
}

// TestALaunchIsWaitedForWhereNoOtherSourceHasEnough nodes for its job.
func TestALaunchIsWaitedForWhereNoOtherSourceHasEnough(t *testing.T) {
	for most, want := range map[int]bool{1: false, 2: false, 3: true} {
		nodes := slices.Concat(wholeJob(7, "p", Launching, "c1", "c2"), wholeJob(7, "p", Booting, "c3"))
		st := State{Nodes: nodes, Coolings: shortOf("west", most, at.Add(24*time.Hour), cloud.Offering{Type: "big", Market: cloud.OnDemand})}
		inTwoClouds(t, st, nil, nil, nil, func(e *Engine, _ *scripted) {
			l := Launch{Token: "t", Provider: "east", State: Written, Nodes: []string{"c1", "c2"}}
			if got := e.saved(l, nodes[:2]); got != want {
				t.Errorf("with %d at west: %v", most, got)
			}
		})
	}
}

// TestNodesOfOtherOfferingsAreNotCounted: a job's nodes in a pool that buys other types of the same cloud.
func TestNodesOfOtherOfferingsAreNotCounted(t *testing.T) {
	other := testPools()[1]
	other.Provider = "east"
	p := planning{pools: map[string]Pool{"p": testPools()[0], "q": other}, limits: map[string]cloud.Limits{"east": {MaxLaunch: 9}}, now: at, market: newMarket()}
	for most, want := range map[int]string{1: "small/b/on-demand", 2: "small/a/on-demand"} {
		p.mem = newMemory(State{Nodes: slices.Concat(wholeJob(7, "p", Wanted, "c1", "c2"), wholeJob(7, "q", Wanted, "d1", "d2")), Coolings: shortOf("east", most, at.Add(time.Hour), smallA)})
		if out := p.plan(); len(out.drafts) != 2 || out.drafts[0].Request.Offering.String() != want {
			t.Errorf("%d came last: planned %+v", most, out.drafts)
		}
	}
}

// TestALaunchOfAJobsOtherNodesIsWaitedFor, before it is given back as one pool's cloud refuses the credentials.
func TestALaunchOfAJobsOtherNodesIsWaitedFor(t *testing.T) {
	const up = "ALLOCATED+CLOUD+NOT_RESPONDING+POWERING_UP"
	nodes := slices.Concat(wholeJob(7, "p", Wanted, "c1"), wholeJob(7, "r", Launching, "r1"))
	l := Launch{Token: "t", Provider: "west", Nodes: []string{"r1"}, State: Written, Request: cloud.LaunchRequest{Pool: "r"}}
	states := offNodes("d1", "d2")
	states["c1"], states["r1"] = up, up
	job := slurm.Job{ID: 7, State: "CONFIGURING", Batch: true, Requeue: true, NumNodes: 2, Partition: "both", Nodes: "c1,r1"}
	for name, under := range map[string]func(*Engine) map[string]bool{
		"under way": func(e *Engine) map[string]bool { return e.flying },
		"in doubt":  func(e *Engine) map[string]bool { return e.doubt },
	} {
		inSlurm(t, State{Heard: []string{""}, Nodes: nodes, Launches: []Launch{l}}, states, []slurm.Job{job}, func(t *testing.T, e *Engine, s *scripted) {
			for name, n := range s.snap.Nodes {
				n.Partitions = []string{"both"}
				s.snap.Nodes[name] = n
			}
			e.pools["r"] = Pool{Name: "r", Provider: "west", Nodes: []string{"r1"}, Fleet: e.pools["q"].Fleet}
			e.market.denied["east"] = denial{op: opLaunch, since: time.Now().Add(-doubtFor), last: time.Now()}
			for _, open := range []bool{true, false} {
				if under(e)["t"] = open; !open {
					delete(under(e), "t")
				}
				if _, err := e.turnBack(t.Context()); err != nil {
					t.Fatal(err)
				}
				if _, held := e.mem.holds[7]; held == open {
					t.Errorf("%s: %v, and the job is held: %v; nodes are %s", name, open, held, fmt.Sprint(nodePhases(e)))
				}
			}
		})
	}
}
