package power

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/cloud/fleet"
	"github.com/burst-hpc/burst/slurm"
)

// TestPartsOfAHeterogeneousJobFitTogether: a budget that has room for some of its components launches none of them, and all are told.
func TestPartsOfAHeterogeneousJobFitTogether(t *testing.T) {
	for _, tt := range []struct {
		name string
		room int               // nodes that the budget has room for
		pool map[string]string // where it is not p, and what keeps the node there
		more []uint32          // jobs of one node each beside it
		of   func(nodes map[string]uint32) []Refused
		want string
	}{
		{"none has room", 0, nil, nil, nil, "10 waits, 11 waits"},
		{"one of two", 1, nil, nil, nil, "10 waits, 11 waits"},
		{"one of two, in two pools", 1, map[string]string{"c2": "q"}, nil, nil, "10 waits, 11 waits"},
		{"one is said to be in the way", 1, nil, nil, func(map[string]uint32) []Refused { return []Refused{{Job: 11, Why: "x"}} }, "10 waits, 11 waits"},
		{"both", 2, nil, nil, nil, "c1 c2"},
		{"both, in two pools", 2, map[string]string{"c2": "q"}, nil, nil, "c1, c2"},
		{"one of two, whose other waits for spot", 1, map[string]string{"c2": "cools"}, nil, nil, "10 waits, 11 waits"},
		{"both, one of which waits for spot", 2, map[string]string{"c2": "cools"}, nil, nil, "c1"},
		{"both, and one has waited for spot", 2, map[string]string{"c2": "waited"}, nil, nil, "c1, c2"},
		{"another's node is busy still", 2, map[string]string{"c2": "busy"}, nil, nil, "c1"},
		{"another's node is to be left", 2, map[string]string{"c2": "clearing"}, nil, nil, "c1"},
		{"one waits for spot, and another job does not", 3, map[string]string{"c2": "cools"}, []uint32{12}, nil, "c1 c3"},
		{"one of two, whose other waits for its turn", 1, map[string]string{"c1": "turns", "c2": "turns"}, nil, nil, "10 waits, 11 waits"},
		{"both, one of which waits for its turn", 2, map[string]string{"c1": "turns", "c2": "turns"}, nil, nil, "c1"},
		{"another job has its room", 1, nil, []uint32{12}, nil, "c3, 10 waits, 11 waits"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			st := State{}
			market := newMarket()
			market.jobs = map[uint32]slurm.Job{10: {ID: 10, HetID: 10, NumNodes: 1}, 11: {ID: 11, HetID: 10, NumNodes: 1}}
			for _, id := range tt.more {
				market.jobs[id] = slurm.Job{ID: id, NumNodes: 1}
			}
			job, spot := map[string]uint32{}, false
			var least func(string, cloud.Offering) time.Duration
			for i, id := range slices.Sorted(maps.Keys(market.jobs)) {
				name := fmt.Sprint("c", i+1)
				job[name] = id
				n := Node{Name: name, Pool: "p", Phase: Wanted, Job: id, Made: at}
				if tt.pool[name] != "" {
					n.Pool = "q"
				}
				switch tt.pool[name] {
				case "cools", "waited":
					spot = true
					if tt.pool[name] == "waited" {
						n.Made = at.Add(-2 * time.Minute)
					}
				case "busy":
					st.Instances = append(st.Instances, Instance{Instance: cloud.Instance{ID: "i1", State: cloud.Terminating}, Provider: "east", Assigned: name, Doomed: "x"})
				case "turns":
					n.Whole, least = true, func(string, cloud.Offering) time.Duration { return time.Hour }
				case "clearing":
					n.Reason = overBudget + "x"
				}
				st.Nodes = append(st.Nodes, n)
			}
			q := testPools()[0]
			q.Name = "q"
			if spot {
				q.Fleet.Market, q.Fleet.SpotTimeout = fleet.SpotThenOnDemand, 2*time.Minute
				for _, zone := range q.Fleet.Zones {
					st.Coolings = append(st.Coolings, Cooling{"east", cloud.Offering{Type: "small", Zone: zone, Market: cloud.Spot}, fleet.Cooldown{Failures: 1, Until: at.Add(time.Hour)}})
				}
			}
			e := &Engine{mem: newMemory(st)}
			e.cfg.Budget = func(context.Context, Standing) (Afford, error) {
				left := tt.room
				return func(launches ...Launch) Refusal {
					r, n := Refusal{Why: "x", Rest: map[string][]uint32{}}, 0
					for _, l := range launches {
						n += len(l.Nodes)
						for _, name := range l.Nodes {
							r.Of = append(r.Of, Refused{Job: job[name], Why: "x"})
							r.Rest[name] = nil
						}
					}
					if n <= left {
						left -= n
						return Refusal{}
					}
					if tt.of != nil {
						r.Of, r.Some = tt.of(job), true
						r.Rest["c1"] = []uint32{10}
					}
					return r
				}, nil
			}
			pools := map[string]Pool{"p": testPools()[0], "q": q}
			p := planning{mem: e.mem, pools: pools, limits: map[string]cloud.Limits{"east": {MaxLaunch: 2}}, market: market,
				now: at, bootTimeout: 10 * time.Minute, shut: map[string]shut{}, least: least, purse: e.newPurse(t.Context())}
			out := p.plan()
			var got, waits []string
			for _, d := range out.drafts {
				got = append(got, strings.Join(d.Nodes, " "))
			}
			for _, h := range out.Holds {
				if !strings.HasPrefix(h.Why, overBudget) {
					t.Errorf("told %q", h.Why)
				}
				waits = append(waits, fmt.Sprint(h.Job, " waits"))
			}
			slices.Sort(waits)
			got = append(got, waits...)
			if strings.Join(got, ", ") != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
			freed := 0
			for _, n := range out.Nodes {
				if n.Phase != Freeing {
					t.Errorf("%s is %s", n.Name, n.Phase)
				}
				freed++
			}
			if freed != len(waits) { // also what waits for another thing still: else it is bought alone when that is over
				t.Errorf("%d nodes are given back, of jobs that wait: %d", freed, len(waits))
			}
		})
	}
}

// TestPartsOfAHeterogeneousJobAreGivenBackTogether: what Slurm takes from all components is bought for none, with a budget or without.
func TestPartsOfAHeterogeneousJobAreGivenBackTogether(t *testing.T) {
	lost := Node{Name: "c2", Pool: "q", Phase: Freeing, Job: 11, Since: at, Made: at.Add(-time.Minute), Reason: "no capacity"}
	for _, tt := range []struct {
		name string
		c2   Node
		made time.Time // c1's order
		het  uint32
		want string
	}{
		{"one is given back in this round", Node{Name: "c2", Pool: "none", Phase: Wanted, Job: 11, Made: at}, at, 10, "c1 c2, 10 waits, 11 waits"},
		{"one was given back before", lost, lost.Made, 10, "c1, 10 waits"},
		{"one was given back at another try", lost, at.Add(time.Second), 10, "launched"},
		{"they are two jobs", lost, lost.Made, 0, "launched"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			market := newMarket()
			market.jobs = map[uint32]slurm.Job{10: {ID: 10, HetID: tt.het, NumNodes: 1}, 11: {ID: 11, HetID: tt.het, NumNodes: 1}}
			st := State{Nodes: []Node{{Name: "c1", Pool: "p", Phase: Wanted, Job: 10, Made: tt.made}, tt.c2}, Holds: []Hold{{Job: 11, Start: at.Add(time.Hour), Why: "no capacity"}}}
			p := planning{mem: newMemory(st), pools: map[string]Pool{"p": testPools()[0]}, limits: map[string]cloud.Limits{"east": {MaxLaunch: 2}},
				market: market, now: at.Add(2 * time.Second), bootTimeout: 10 * time.Minute, shut: map[string]shut{}}
			out := p.plan()
			var freed, got []string
			for _, n := range out.Nodes {
				if n.Phase == Freeing {
					freed = append(freed, n.Name)
				}
			}
			slices.Sort(freed)
			if len(freed) > 0 {
				got = append(got, strings.Join(freed, " "))
			}
			for _, h := range out.Holds {
				got = append(got, fmt.Sprint(h.Job, " waits"))
				if h.Job == 10 && tt.c2.Phase == Freeing && (h.Why != lost.Reason || !h.Start.Equal(at.Add(time.Hour))) {
					t.Errorf("%+v", h)
				}
			}
			slices.Sort(got)
			if len(out.drafts) > 0 {
				got = append(got, "launched")
			}
			slices.SortFunc(got, func(a, b string) int { return before(strings.HasPrefix(a, "c"), strings.HasPrefix(b, "c")) })
			if s := strings.Join(got, ", "); s != tt.want {
				t.Errorf("got %q, want %q", s, tt.want)
			}
		})
	}
}

// TestPreparedPartsFitTogether: of what is prepared by now a component's launch is not written if another's has no room.
func TestPreparedPartsFitTogether(t *testing.T) {
	nodes := []Node{{Name: "c1", Job: 10}, {Name: "c2", Job: 12}, {Name: "c3", Job: 11}}
	var drafts []draft
	for _, n := range nodes {
		drafts = append(drafts, draft{Launch: Launch{Nodes: []string{n.Name}}, nodes: []Node{n}})
	}
	for room, want := range map[int]string{0: "[0 2 1]", 1: "[0 2]", 2: "[1]", 3: "[]"} {
		e := &Engine{mem: newMemory(State{}), market: newMarket()}
		e.market.jobs = map[uint32]slurm.Job{10: {ID: 10, HetID: 10}, 11: {ID: 11, HetID: 10}, 12: {ID: 12}}
		e.cfg.Budget = func(context.Context, Standing) (Afford, error) {
			left := room
			return func(launches ...Launch) Refusal {
				if len(launches) > left {
					return Refusal{Why: "x"}
				}
				left -= len(launches)
				return Refusal{}
			}, nil
		}
		if got := fmt.Sprint(e.tooDear(t.Context(), drafts, func(int) bool { return false })); got != want {
			t.Errorf("room for %d: too dear are %s, want %s", room, got, want)
		}
	}
}

// TestRoomIsKeptForAJobThatHasBegun: what a heterogeneous job waits for still, when a component of it is launched, no other job takes.
func TestRoomIsKeptForAJobThatHasBegun(t *testing.T) {
	for _, tt := range []struct {
		name  string
		phase Phase  // of job 10's node
		pool  string // of job 11's
		het   uint32 // of which they are components
		room  int
		want  string
	}{
		{"its other waits for spot", Launching, "cools", 10, 1, "12 waits"},
		{"its other waits for spot, and one boots", Booting, "cools", 10, 1, "12 waits"},
		{"one is up", Up, "cools", 10, 1, "12 waits"},
		{"there is room for both", Launching, "cools", 10, 2, "c0 launched"},
		{"there is room for none", Launching, "cools", 10, 0, "12 waits"},
		{"its other is launched now, after it", Launching, "p", 10, 1, "c2 launched, 12 waits"},
		{"both are launched", Launching, "p", 10, 2, "c0 launched, c2 launched"},
		{"they are two jobs", Launching, "cools", 0, 1, "c0 launched"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			market, cools := newMarket(), testPools()[0]
			market.jobs = map[uint32]slurm.Job{10: {ID: 10, HetID: tt.het, NumNodes: 1}, 11: {ID: 11, HetID: tt.het, NumNodes: 1}, 12: {ID: 12, NumNodes: 1}}
			cools.Name, cools.Fleet.Market, cools.Fleet.SpotTimeout = "cools", fleet.SpotThenOnDemand, 2*time.Minute
			st := State{Nodes: []Node{{Name: "c1", Pool: "p", Phase: tt.phase, Job: 10, Made: at, Token: "t", Whole: true},
				{Name: "c2", Pool: tt.pool, Phase: Wanted, Job: 11, Made: at, Whole: true}, {Name: "c0", Pool: "p", Phase: Wanted, Job: 12, Made: at.Add(-time.Second), Whole: true}}}
			for _, zone := range cools.Fleet.Zones {
				st.Coolings = append(st.Coolings, Cooling{"east", cloud.Offering{Type: "small", Zone: zone, Market: cloud.Spot}, fleet.Cooldown{Failures: 1, Until: at.Add(time.Hour)}})
			}
			e := &Engine{mem: newMemory(st)}
			e.cfg.Budget = func(context.Context, Standing) (Afford, error) {
				left := tt.room
				return func(launches ...Launch) Refusal {
					r := Refusal{Why: "x"}
					for _, l := range launches {
						for _, name := range l.Nodes {
							r.Of = append(r.Of, Refused{Job: map[string]uint32{"c0": 12, "c2": 11}[name], Why: "x"})
						}
					}
					if len(r.Of) > left {
						return r
					}
					left -= len(r.Of)
					return Refusal{}
				}, nil
			}
			p := planning{mem: e.mem, pools: map[string]Pool{"p": testPools()[0], "cools": cools}, limits: map[string]cloud.Limits{"east": {MaxLaunch: 2}}, market: market,
				now: at, bootTimeout: 10 * time.Minute, shut: map[string]shut{}, purse: e.newPurse(t.Context())}
			out := p.plan()
			var got []string
			for _, d := range out.drafts {
				got = append(got, strings.Join(d.Nodes, " ")+" launched")
			}
			slices.Sort(got)
			for _, h := range out.Holds {
				got = append(got, fmt.Sprint(h.Job, " waits"))
			}
			if s := strings.Join(got, ", "); s != tt.want {
				t.Errorf("got %q, want %q", s, tt.want)
			}
		})
	}
}
