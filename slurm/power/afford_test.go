package power

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/cloud/fleet"
	"github.com/burst-hpc/burst/slurm"
)

// TestZonesThatDoNotSellAType: a budget that refuses what has no price keeps no pool from launching
// of which some type is not sold in some zone; a market is given up for that of no zone alone.
func TestZonesThatDoNotSellAType(t *testing.T) {
	spot := fleet.Config{Types: []string{"big", "small"}, Zones: []string{"a", "b"}, Market: fleet.SpotThenOnDemand}
	for _, tt := range []struct {
		name, unsold string
		nodes        int
		choice       bool
		want         string
	}{
		{"all are sold", "", 1, true, "big/a/spot or big/b/spot small/a/spot small/b/spot"},
		{"a hole behind", "big/b/spot", 1, true, "big/a/spot or small/a/spot small/b/spot"},
		{"a hole in front", "big/a/spot", 1, true, "big/b/spot or small/a/spot small/b/spot"},
		{"a hole in front, and no choice", "big/a/spot", 1, false, "big/b/spot"},
		{"a job in parts", "big/a/spot", 3, true, "big/b/spot, big/b/spot"},
		{"no price of spot is known", "big/a/spot big/b/spot small/a/spot small/b/spot", 1, true,
			"big/a/on-demand or big/b/on-demand small/a/on-demand small/b/on-demand"},
		{"none of it, nor of a type on demand", "big/a/spot big/b/spot small/a/spot small/b/spot big/a/on-demand big/b/on-demand", 1, true,
			"small/a/on-demand or small/b/on-demand"},
		{"none at all", "big/a/spot big/b/spot small/a/spot small/b/spot big/a/on-demand big/b/on-demand small/a/on-demand small/b/on-demand", 1, true,
			"budget: no price"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			priced := func(_ string, o cloud.Offering) bool { return !strings.Contains(tt.unsold, o.String()) }
			pool := testPools()[0]
			pool.Fleet = spot
			var nodes []Node
			for n := range tt.nodes {
				nodes = append(nodes, Node{Name: fmt.Sprint("c", n+1), Pool: "p", Phase: Wanted, Job: 7, Whole: true, Made: at})
			}
			e := &Engine{cfg: Config{Budget: func(context.Context, Standing) (Afford, error) {
				return func(launches ...Launch) Refusal {
					for _, l := range launches {
						for _, o := range l.Request.Offerings() {
							if !priced("", o) {
								return Refusal{Why: "no price"}
							}
						}
					}
					return Refusal{}
				}, nil
			}}, mem: newMemory(State{Nodes: nodes})}
			p := planning{mem: e.mem, pools: map[string]Pool{"p": pool}, limits: map[string]cloud.Limits{"east": {MaxLaunch: 2, Choice: tt.choice}},
				now: at, bootTimeout: 10 * time.Minute, shut: map[string]shut{}, priced: priced, purse: e.newPurse(t.Context())}
			out := p.plan()
			var got []string
			for _, d := range out.drafts {
				text := d.Request.Offering.String()
				for n, o := range d.Request.Or {
					text += map[bool]string{true: " or "}[n == 0] + strings.Repeat(" ", min(n, 1)) + o.String()
				}
				got = append(got, text)
			}
			for _, h := range out.Holds {
				got = append(got, h.Why)
			}
			if strings.Join(got, ", ") != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

// TestWhatHasNoPriceIsNotLeft: a pool of two sources of which the first sells one type in one zone only, or has no price
// of a market. All that asks whether something is left of a source says the same as what would launch it.
func TestWhatHasNoPriceIsNotLeft(t *testing.T) {
	o := func(name string, m cloud.Market) cloud.Offering {
		instanceType, zone, _ := strings.Cut(name, "/")
		return cloud.Offering{Type: instanceType, Zone: zone, Market: m}
	}
	all := map[string][]cloud.Offering{"west": {o("large", cloud.OnDemand)}}
	for _, m := range []cloud.Market{cloud.Spot, cloud.OnDemand} {
		for _, name := range []string{"small/a", "small/b", "big/a", "big/b"} {
			all["east"] = append(all["east"], o(name, m))
		}
	}
	const spot = "small/a/spot small/b/spot big/a/spot big/b/spot"
	const dear = "small/a/on-demand small/b/on-demand big/a/on-demand big/b/on-demand"
	for _, tt := range []struct {
		name, unpriced string // "large/on-demand" is of west
		cools, stopped string // the providers of which all that has a price cools, and is stopped
		want           string // what is launched, or said
		first          string // of each source, as Now has it
		left           bool   // the pool is not dry, and a job may begin anew at one of its sources
	}{
		{"all have one", "", "", "", "small/a/spot", "small/a/spot large/on-demand", true},
		{"a hole, and the rest cools", "big/b/spot", "east", "", "large/on-demand", "- large/on-demand", true},
		{"the second has nothing either", "big/b/spot", "east west", "",
			"no capacity in pool p at east (small/a/spot, small/b/spot, big/a/spot, small/a/on-demand, small/b/on-demand, big/a/on-demand, big/b/on-demand); " +
				"no capacity in pool p at west (large/on-demand)", "- -", false},
		{"none of spot", spot, "", "", "small/a/on-demand", "small/a/on-demand large/on-demand", true},
		{"none of the first", spot + " " + dear, "", "", "large/on-demand", "- large/on-demand", true},
		{"and the second has nothing", spot + " " + dear, "west", "", "no price is known in pool p at east (small/a/spot, small/b/spot, big/a/spot, big/b/spot, " +
			"small/a/on-demand, small/b/on-demand, big/a/on-demand, big/b/on-demand); no capacity in pool p at west (large/on-demand)", "- -", false},
		{"the rest of the first cools", spot, "east west", "", "no capacity in pool p at east (small/a/on-demand, small/b/on-demand, big/a/on-demand, big/b/on-demand); " +
			"no price is known in pool p at east (small/a/spot, small/b/spot, big/a/spot, big/b/spot); no capacity in pool p at west (large/on-demand)", "- -", false},
		{"none of the second", "large/on-demand", "east", "", "no capacity in pool p at east (small/a/spot, small/b/spot, big/a/spot, big/b/spot, " +
			"small/a/on-demand, small/b/on-demand, big/a/on-demand, big/b/on-demand); no price is known in pool p at west (large/on-demand)", "- -", false},
		{"none of both", spot + " " + dear + " large/on-demand", "", "", "budget: no price", "small/a/spot large/on-demand", true},
		{"the second, which has one, is stopped", spot + " " + dear, "", "west", "budget: no price", "small/a/spot large/on-demand", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			priced := func(_ string, o cloud.Offering) bool {
				return !slices.Contains(strings.Fields(tt.unpriced), o.String())
			}
			pool := testPools()[0]
			pool.Fleet = fleet.Config{Types: []string{"small", "big"}, Zones: []string{"a", "b"}, Market: fleet.SpotThenOnDemand}
			pool.Then = []Source{{Provider: "west", Fleet: fleet.Config{Types: []string{"large"}, Market: fleet.OnDemandOnly}}}
			st := State{Nodes: []Node{{Name: "c1", Pool: "p", Phase: Wanted, Job: 7, Whole: true, Made: at}}}
			for _, provider := range strings.Fields(tt.cools) {
				for _, o := range all[provider] {
					if priced(provider, o) {
						st.Coolings = append(st.Coolings, Cooling{provider, o, fleet.Cooldown{Failures: 1, Until: at.Add(time.Minute)}})
					}
				}
			}
			if tt.stopped != "" {
				st.Breakers = []Breaker{{Pool: "p", Provider: tt.stopped, Stopped: at, Why: "why"}}
			}
			e := &Engine{cfg: Config{Priced: priced, Budget: func(context.Context, Standing) (Afford, error) {
				return func(launches ...Launch) Refusal {
					for _, l := range launches {
						if !priced("", l.Request.Offering) {
							return Refusal{Why: "no price"}
						}
					}
					return Refusal{}
				}, nil
			}}, mem: newMemory(st), market: newMarket(), pools: map[string]Pool{"p": pool}}
			p := planning{mem: e.mem, pools: e.pools, limits: map[string]cloud.Limits{"east": {MaxLaunch: 2}, "west": {MaxLaunch: 2}}, market: e.market,
				now: at, bootTimeout: 10 * time.Minute, shut: map[string]shut{}, priced: priced, purse: e.newPurse(t.Context())}
			out := p.plan()
			got := "nothing"
			switch {
			case len(out.drafts) > 0:
				got = out.drafts[0].Request.Offering.String()
				var c Change
				out.drafts[0].write(&c, at)
				_, passed, _ := strings.Cut(c.Events[0].Text, "; before it, no price is known in pool p at ")
				if want := map[string]string{"none of spot": "east (small/a/spot, small/b/spot, big/a/spot, big/b/spot)",
					"none of the first": "east (small/a/spot, small/b/spot, big/a/spot, big/b/spot, small/a/on-demand, small/b/on-demand, big/a/on-demand, big/b/on-demand)"}[tt.name]; passed != want {
					t.Errorf("passed over are %q, want %q", passed, want)
				}
			case len(out.Holds) > 0:
				got = out.Holds[0].Why
			}
			if got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
			var first []string
			for _, s := range pool.Sources() {
				o := e.Now(s, 1, at).First
				if first = append(first, o.String()); o == (cloud.Offering{}) {
					first[len(first)-1] = "-"
				}
			}
			if got := strings.Join(first, " "); got != tt.first {
				t.Errorf("first come %q, want %q", got, tt.first)
			}
			p.of = p.mem.byJob()
			g := group{pool: "p", job: 7, nodes: st.Nodes}
			if dry := p.dry("p", 0); dry.IsZero() != tt.left {
				t.Errorf("dry until %s, and something is left: %v", dry, tt.left)
			}
			if moves, _ := p.elsewhere(g, pool); moves != tt.left {
				t.Errorf("there is a place elsewhere: %v", moves)
			}
			g.not = map[string]bool{"east": true}
			if owed := strings.Join(p.owed(g, pool).why, "; "); strings.HasPrefix(owed, "pool p at east: what became") == (strings.HasPrefix(tt.first, "-")) {
				t.Errorf("of a launch at east that has had no answer: %q", owed)
			}
		})
	}
}

// slow is a cloud that answers no launch.
type slow struct{ still }

func (slow) Launch(ctx context.Context, _ cloud.LaunchRequest) ([]cloud.Instance, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// TestOneJobsBudgetStopsNobodyElse: of jobs that share a node that boots, those wait of whom the budget is. The others keep
// the node, and are not told that the budget was theirs.
func TestOneJobsBudgetStopsNobodyElse(t *testing.T) {
	const bobs, clusters = "user bob's budget for 2026-01-01 is used up", "the cluster's budget is used up"
	for _, tt := range []struct {
		name  string
		of    func(now time.Time) []Refused
		alone bool // the budget was asked before Slurm gave the node to the others
		kind  func(j *slurm.Job)
		want  string // by job: how long it waits, and whether for a budget; what is asked of Slurm; whose the node is then
	}{
		{"bob's, until it counts anew", func(now time.Time) []Refused {
			return []Refused{{Job: 7, Why: bobs, Until: now.Add(5 * time.Hour), Sure: true}}
		}, false, nil, "7 5h0m0s budget, job 7 comment, requeue 7, c1 is of 8"},
		{"bob's, which may have room before", func(now time.Time) []Refused { return []Refused{{Job: 7, Why: bobs, Until: now.Add(5 * time.Hour)}} }, false, nil,
			"7 10m0s budget, job 7 comment, requeue 7, c1 is of 8"},
		{"one that never fits", func(now time.Time) []Refused { return []Refused{{Job: 9, Why: bobs, Never: true}} }, false, nil, "9 1h0m0s budget, job 9 comment, requeue 9, c1 is of 8"},
		{"the cluster's, for one of them", func(now time.Time) []Refused { return []Refused{{Job: 7, Why: clusters}} }, false, nil, "7 10m0s budget, job 7 comment, requeue 7, c1 is of 8"},
		{"that for which it was raised", func(now time.Time) []Refused { return []Refused{{Job: 8, Why: bobs}} }, false, nil, "8 10m0s budget, job 8 comment, requeue 8, c1 is of 7"},
		{"before the others came", func(now time.Time) []Refused { return []Refused{{Job: 7, Why: bobs}} }, true, nil, "7 10m0s budget, job 7 comment, requeue 7, c1 is of 8"},
		{"with --no-requeue", func(now time.Time) []Refused { return []Refused{{Job: 7, Why: bobs}} }, false, func(j *slurm.Job) { j.Requeue = false },
			"7 10m0s budget, job 7 comment, job 7 requeue true, requeue 7, c1 is of 8"},
		{"of salloc", func(now time.Time) []Refused { return []Refused{{Job: 7, Why: bobs}} }, false, func(j *slurm.Job) { j.Batch, j.Requeue = false, false },
			"7 10m0s budget, job 7 comment, cancel 7, c1 is of 8"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var jobs []slurm.Job
			for id := range uint32(3) {
				j := slurm.Job{ID: 7 + id, State: "CONFIGURING", Nodes: "c1", NumNodes: 1, Requeue: true, Batch: true}
				if tt.kind != nil {
					tt.kind(&j)
				}
				jobs = append(jobs, j)
			}
			st := State{Nodes: []Node{{Name: "c1", Pool: "p", Phase: Wanted, Job: 8}}}
			if tt.alone {
				st.Nodes[0].Job = 7
			}
			inSlurm(t, st, map[string]string{"c1": "ALLOCATED+CLOUD+NOT_RESPONDING+POWERING_UP"}, jobs, func(t *testing.T, e *Engine, s *scripted) {
				now := time.Now()
				of := tt.of(now)
				rest := slices.DeleteFunc([]uint32{7, 8, 9}, func(id uint32) bool { return id == of[0].Job })
				refusals := 0
				e.cfg.Budget = func(context.Context, Standing) (Afford, error) {
					return func(...Launch) Refusal {
						s.mu.Lock()
						defer s.mu.Unlock()
						if s.snap.Jobs[of[0].Job].Nodes == "" {
							return Refusal{}
						}
						refusals++
						r := Refusal{Why: of[0].Why, Until: of[0].Until, Of: of, Some: true, Rest: map[string][]uint32{"c1": rest}}
						if tt.alone {
							r.Some, r.Rest["c1"] = false, nil
						}
						return r
					}, nil
				}
				e.mem.heard[""] = true
				clear(e.dry.aside)
				journal := e.journal.(*paper)
				e.providers["east"] = slow{}
				ctx, end := context.WithCancel(t.Context())
				defer func() { end(); e.calls.Wait() }()
				step := func() {
					e.step(ctx)
					for synctest.Wait(); len(e.results) > 0; synctest.Wait() {
						e.drain(ctx)
					}
				}
				for range 5 {
					step()
					time.Sleep(time.Second)
				}
				launches := func() int {
					tokens := map[string]bool{}
					for _, c := range journal.committed {
						for _, l := range c.Launches {
							tokens[l.Token] = true
						}
					}
					return len(tokens)
				}
				if n := e.mem.nodes["c1"]; n.Phase != Wanted || refusals > 2 || launches() > 0 { // a plan that gives something back is made twice
					t.Errorf("before job %d has left it: %+v, %d refusals, %d launches", of[0].Job, n, refusals, launches())
				}
				var got []string
				for _, id := range slices.Sorted(maps.Keys(e.mem.holds)) {
					h := e.mem.holds[id]
					text := fmt.Sprint(id, " ", h.Start.Sub(now).Round(time.Minute))
					if budget, _ := h.ForBudget(); budget {
						text += " budget"
					}
					got = append(got, text)
				}
				s.mu.Lock()
				got = append(got, slices.Compact(s.asked)...)
				s.asked = nil
				s.mu.Unlock()
				synctest.Wait() // for what reads the snapshot still
				left := s.snap.Jobs[of[0].Job]
				left.State, left.Nodes = "PENDING", ""
				s.mu.Lock()
				s.snap.Jobs[left.ID] = left
				s.mu.Unlock()
				for range 3 {
					step()
				}
				got = append(got, fmt.Sprint("c1 is of ", e.mem.nodes["c1"].Job))
				if launches() != 1 || slices.Contains(s.asked, "power_down_force c1") {
					t.Errorf("when job %d has left it: %+v, %d launches, and Slurm was asked %q", of[0].Job, e.mem.nodes["c1"], launches(), s.asked)
				}
				if got := strings.Join(got, ", "); got != tt.want {
					t.Errorf("got %s, want %s", got, tt.want)
				}
			})
		})
	}
}

// TestWhoHasTheNodeThatWasLeft: nobody, when Slurm has powered it down, and then it is not launched.
func TestWhoHasTheNodeThatWasLeft(t *testing.T) {
	const up, off = "ALLOCATED+CLOUD+NOT_RESPONDING+POWERING_UP", "IDLE+CLOUD+POWERED_DOWN"
	job := func(id uint32, nodes int, on string) slurm.Job {
		return slurm.Job{ID: id, State: "CONFIGURING", Batch: true, Requeue: true, NumNodes: nodes, Nodes: on}
	}
	for _, tt := range []struct {
		name  string
		power string
		jobs  []slurm.Job
		want  string
	}{
		{"it powers up for nobody", "IDLE+CLOUD+NOT_RESPONDING+POWERING_UP", nil, "freeing job 8 clearing"},
		{"it is powered down", off, nil, "wanted job 8 clearing"},
		{"it powers down", "IDLE+CLOUD+POWERING_DOWN", nil, "wanted job 8 clearing"},
		{"Slurm does not show it", "", nil, "wanted job 8 clearing"},
		{"its own job", up, []slurm.Job{job(8, 1, "c1")}, "wanted job 8"},
		{"its own, of which it was not known that it needs others", up, []slurm.Job{job(8, 3, "c[1-3]")}, "wanted job 8 whole"},
		{"its own, and one that needs as many", up, []slurm.Job{job(7, 3, "c1,d[1-2]"), job(8, 3, "c[1-3]")}, "wanted job 8 whole"},
		{"its own, and one that needs more", up, []slurm.Job{job(8, 1, "c1"), job(9, 3, "c[1-3]")}, "wanted job 9 whole"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			states := map[string]string{"c1": tt.power}
			if tt.power == "" {
				states = nil
			}
			st := State{Nodes: []Node{{Name: "c1", Pool: "p", Phase: Wanted, Job: 8, Reason: overBudget + "x"}}}
			inSlurm(t, st, states, tt.jobs, func(t *testing.T, e *Engine, s *scripted) {
				due, err := e.clearNodes(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				n := e.mem.nodes["c1"]
				got := fmt.Sprintf("%s job %d", n.Phase, n.Job)
				if n.Whole {
					got += " whole"
				}
				if n.Reason != "" {
					got += " clearing"
				}
				if got != tt.want || n.clearing() && due != 5*time.Second {
					t.Errorf("%s, looked at again after %s; want %s", got, due, tt.want)
				}
			})
		})
	}
}

// heeding is a Slurm that takes what jobs are told.
type heeding struct {
	*scripted
	said []string
}

func (h *heeding) UpdateJob(_ context.Context, id uint32, u slurm.JobUpdate) error {
	j := h.snap.Jobs[id]
	j.AdminComment = *u.AdminComment
	h.snap.Jobs[id], h.said = j, append(h.said, *u.AdminComment)
	return nil
}

// TestOnlyWhatEndsIsToldSo: a job of salloc's whose nodes may come yet is not told that it has ended, and is so no more.
func TestOnlyWhatEndsIsToldSo(t *testing.T) {
	const why = overBudget + "x"
	clearing := Node{Name: "c1", Pool: "p", Phase: Wanted, Job: 8, Reason: why}
	free := clearing
	free.Phase = Freeing
	kept := clearing
	kept.Reason = ""
	for _, tt := range []struct {
		name  string
		node  Node
		why   string
		state string
		had   string
		want  []string
		asked string
	}{
		{"it has to leave its node", clearing, why, "CONFIGURING", "", []string{endedText + why}, "cancel 7"},
		{"its node is given back", free, why, "CONFIGURING", "", []string{endedText + why}, ""},
		{"it may stay", kept, why, "CONFIGURING", "", nil, ""},
		{"burstd was started since", clearing, anewLook, "CONFIGURING", "", nil, ""},
		{"burstd was started since it was told", clearing, anewLook, "CONFIGURING", endedText + why, []string{""}, ""},
		{"an admin's word", clearing, anewLook, "CONFIGURING", "see me", nil, ""},
		{"it has no node yet", kept, why, "PENDING", "", []string{heldText(Hold{Why: why}, true)}, "job 7 release"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			job := slurm.Job{ID: 7, State: tt.state, NumNodes: 1, AdminComment: tt.had}
			if tt.state != "PENDING" {
				job.Nodes = "c1"
			}
			h := Hold{Job: 7, Why: tt.why}
			inSlurm(t, State{Nodes: []Node{tt.node}, Holds: []Hold{h}}, nil, []slurm.Job{job}, func(t *testing.T, e *Engine, s *scripted) {
				hears := &heeding{scripted: s}
				e.slurm = hears
				if err := e.tell(t.Context(), h); err == nil != (tt.state == "PENDING") {
					t.Errorf("told: %v", err)
				}
				if !slices.Equal(hears.said, tt.want) || strings.Join(s.asked, "; ") != tt.asked {
					t.Errorf("it is told %q, want %q; and asked is %q, want %q", hears.said, tt.want, s.asked, tt.asked)
				}
			})
		})
	}
}

// TestWhoIsInTheWayIsToldFirst: of many that wait to be told, those that a budget refused, who may keep a node from others.
func TestWhoIsInTheWayIsToldFirst(t *testing.T) {
	var st State
	for id := range uint32(2 * maxTelling) {
		h := Hold{Job: id + 1, Why: "no capacity"}
		if id >= 2*maxTelling-2 {
			h.Why = overBudget + "x"
		}
		st.Holds = append(st.Holds, h)
	}
	inSlurm(t, st, nil, nil, func(t *testing.T, e *Engine, s *scripted) {
		if _, err := e.tellJobs(t.Context()); err != nil {
			t.Fatal(err)
		}
		if n := uint32(2 * maxTelling); len(e.releasing) != maxTelling || !e.releasing[n] || !e.releasing[n-1] {
			t.Errorf("told are %v", slices.Sorted(maps.Keys(e.releasing)))
		}
		e.calls.Wait()
	})
}

// TestWhatNeverFitsStays: a job for which a budget never has room is kept from what has none for a day, as long as burstd lives.
func TestWhatNeverFitsStays(t *testing.T) {
	never := overBudget + "user ann's budget: by the time limit this could cost more than all of it" + neverFits
	st := State{Holds: []Hold{{Job: 7, Start: at.Add(-time.Hour), Why: never, Released: true}, {Job: 8, Start: at.Add(time.Hour), Why: never, Released: true},
		{Job: 9, Start: at.Add(-time.Hour), Why: overBudget + "user ann's budget is used up", Released: true}}}
	e, _ := testEngine(st)
	if got := slices.Sorted(maps.Keys(e.Back(at))); !slices.Equal(got, []uint32{7, 8}) {
		t.Errorf("back are %v", got)
	}
	if got := slices.Sorted(maps.Keys(e.Back(at.Add(24 * time.Hour)))); !slices.Equal(got, []uint32{8}) {
		t.Errorf("back are %v after a day", got)
	}
	e, _ = testEngine(anewBudget(st, at, true))
	if got := e.Back(at); len(got) > 0 {
		t.Errorf("after a start: %v", got)
	}
	if h := e.mem.holds[7]; !h.Released {
		t.Errorf("its start was over, and it is told again: %+v", h)
	}
}
