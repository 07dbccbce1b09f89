package power

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/cloud/fleet"
	"github.com/burst-hpc/burst/slurm"
)

// TestAPartIsPaidFor: the next try of a heterogeneous job begins when what its other components have got for this one is not paid
// for any more; all of them wait until then.
func TestAPartIsPaidFor(t *testing.T) {
	for _, tt := range []struct {
		name  string
		phase Phase
		het   uint32
		least time.Duration
		want  time.Duration // after now; 0: as if nothing was paid for
	}{
		{"for an hour", Booting, 10, time.Hour, 50 * time.Minute},
		{"not asked for yet", Launching, 10, time.Hour, time.Hour},
		{"for a minute", Booting, 10, time.Minute, 0},
		{"it is up, and found again", Up, 10, time.Hour, 0},
		{"another job's", Booting, 0, time.Hour, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			market := newMarket()
			market.jobs = map[uint32]slurm.Job{10: {ID: 10, HetID: tt.het, NumNodes: 1}, 11: {ID: 11, HetID: tt.het, NumNodes: 1}}
			c1 := Node{Name: "c1", Pool: "p", Phase: tt.phase, Job: 10, Made: at}
			st := State{Nodes: []Node{c1, {Name: "c2", Pool: "none", Phase: Wanted, Job: 11, Made: at}}}
			if tt.phase == Launching {
				st.Nodes[0].Token = "t"
				st.Launches = []Launch{{Token: "t", Provider: "east", Nodes: []string{"c1"}, State: Written}}
			} else {
				st.Nodes[0].Instance = "i1"
				st.Instances = []Instance{{Instance: cloud.Instance{ID: "i1", State: cloud.Running, Launched: at.Add(-10 * time.Minute)}, Provider: "east", Assigned: "c1"}}
			}
			p := planning{mem: newMemory(st), pools: map[string]Pool{"p": testPools()[0]}, limits: map[string]cloud.Limits{"east": {MaxLaunch: 2}},
				market: market, now: at, bootTimeout: time.Hour, shut: map[string]shut{}, least: func(string, cloud.Offering) time.Duration { return tt.least }}
			out := p.plan()
			if want := max(1, min(2, int(tt.het))); len(out.Holds) != want {
				t.Errorf("%+v, want %d", out.Holds, want)
			}
			want := at.Add(tt.want)
			if tt.want == 0 {
				want = retryAt(Hold{}, at)
			}
			for _, h := range out.Holds {
				if !h.Start.Equal(want) {
					t.Errorf("job %d starts again at %s, want %s", h.Job, h.Start, want)
				}
			}
		})
	}
}

// TestDearest: what a node waits for is judged by all that may be bought for it, of the dearest source.
func TestDearest(t *testing.T) {
	for _, tt := range []struct {
		name   string
		prices map[string]float64 // by type and market
		max    float64
		want   string
	}{
		{"each has a price", map[string]float64{"small/spot": 1, "small/on-demand": 3, "big/on-demand": 2}, 0, "east small/spot small/on-demand"},
		{"the second is dearer", map[string]float64{"small/spot": 1, "small/on-demand": 3, "big/on-demand": 4}, 0, "west big/on-demand"},
		{"one has none", map[string]float64{"small/spot": 1, "big/on-demand": 0.5}, 0, "east small/spot"},
		{"the dearer source has none", map[string]float64{"big/on-demand": 0.5}, 0, "west big/on-demand"},
		{"none has one", nil, 0, "east small/spot small/on-demand"},
		{"spot above max_price is not bought", map[string]float64{"small/spot": 5, "small/on-demand": 1, "big/on-demand": 2}, 3, "west big/on-demand"},
	} {
		pool := Pool{Name: "p", Provider: "east", Fleet: fleet.Config{Types: []string{"small"}, Market: fleet.SpotThenOnDemand, MaxPrice: tt.max},
			Then: []Source{{Provider: "west", Fleet: fleet.Config{Types: []string{"big"}}}}}
		price := func(_ string, o cloud.Offering) (float64, bool) {
			usd, is := tt.prices[o.Type+"/"+string(o.Market)]
			return usd, is
		}
		p := planning{mem: newMemory(State{}), pools: map[string]Pool{"p": pool}, market: newMarket(), now: at, price: price,
			priced: func(provider string, o cloud.Offering) bool { _, is := price(provider, o); return is }}
		l, may := p.dearest(Node{Name: "c1", Pool: "p", Phase: Wanted, Made: at})
		got := l.Provider
		for _, o := range l.Request.Offerings() {
			got += " " + o.Type + "/" + string(o.Market)
		}
		if !may || got != tt.want {
			t.Errorf("%s: %q (%v), want %q", tt.name, got, may, tt.want)
		}
	}
}

// BenchmarkPlanUnderABudget plans for jobs of two nodes each, of which a budget allows all or none.
func BenchmarkPlanUnderABudget(b *testing.B) {
	for _, jobs := range []int{500, 2000} {
		for _, het := range []bool{false, true} {
			for _, refusal := range []string{"", "x"} {
				b.Run(fmt.Sprintf("%d jobs, het %t, refused %t", jobs, het, refusal != ""), func(b *testing.B) {
					market := newMarket()
					market.jobs = map[uint32]slurm.Job{}
					var st State
					for i := range jobs {
						lead, part := uint32(2*i+1), uint32(2*i+1)
						if het {
							part++
						}
						for k, id := range []uint32{lead, part} {
							j := slurm.Job{ID: id, State: "CONFIGURING", NumNodes: 2, Nodes: fmt.Sprintf("c[%d-%d]", 2*i, 2*i+1)}
							if het {
								j.HetID, j.NumNodes, j.Nodes = lead, 1, fmt.Sprint("c", 2*i+k)
							}
							market.jobs[id] = j
							st.Nodes = append(st.Nodes, Node{Name: fmt.Sprint("c", 2*i+k), Pool: "p", Phase: Wanted, Job: id, Whole: !het, Made: at})
						}
					}
					ask := func(launches ...Launch) Refusal {
						r := Refusal{Why: refusal, Rest: map[string][]uint32{}}
						for _, l := range launches {
							for _, name := range l.Nodes {
								r.Rest[name] = nil
							}
						}
						return r
					}
					p := planning{mem: newMemory(st), pools: map[string]Pool{"p": testPools()[0]}, limits: map[string]cloud.Limits{"east": {MaxLaunch: 2}},
						market: market, now: at, bootTimeout: time.Hour, shut: map[string]shut{}}
					for b.Loop() {
						p.purse = &purse{ask: ask}
						p.plan()
					}
				})
			}
		}
	}
}

// TestWhatIsPlannedIsPrepared: of two heterogeneous jobs that have begun, the one whose node can be launched now has the room. What the
// plan allows is not refused again when it is prepared, round after round.
func TestWhatIsPlannedIsPrepared(t *testing.T) {
	st := State{Heard: []string{""},
		Nodes: []Node{{Name: "c1", Pool: "p", Phase: Booting, Job: 10, Instance: "i1"}, {Name: "c2", Pool: "p", Phase: Wanted, Job: 11},
			{Name: "c3", Pool: "p", Phase: Booting, Job: 20, Instance: "i3"}, {Name: "c4", Pool: "p", Phase: Wanted, Job: 21}},
		Instances: []Instance{{Instance: cloud.Instance{ID: "i1", State: cloud.Running}, Provider: "east", Assigned: "c1"},
			{Instance: cloud.Instance{ID: "i3", State: cloud.Running}, Provider: "east", Assigned: "c3"},
			{Instance: cloud.Instance{ID: "i4", State: cloud.Terminating}, Provider: "east", Assigned: "c4", Doomed: "x"}}}
	var jobs []slurm.Job
	for i, id := range []uint32{10, 11, 20, 21} {
		jobs = append(jobs, slurm.Job{ID: id, HetID: id / 10 * 10, State: "CONFIGURING", NumNodes: 1, Nodes: fmt.Sprint("c", i+1)})
	}
	const boots = "ALLOCATED+CLOUD+POWERING_UP"
	inSlurm(t, st, map[string]string{"c1": boots, "c2": boots, "c3": boots, "c4": boots}, jobs, func(t *testing.T, e *Engine, s *scripted) {
		r := &round{}
		e.providers["east"] = r
		e.cfg.Budget = func(_ context.Context, s Standing) (Afford, error) {
			left := 1 - len(s.Launches)
			return func(launches ...Launch) Refusal {
				if len(launches) > left {
					return Refusal{Why: "x", Of: []Refused{{Job: 11, Why: "x"}}}
				}
				left -= len(launches)
				return Refusal{}
			}, nil
		}
		for name, n := range e.mem.nodes {
			n.Made = time.Now()
			e.mem.nodes[name] = n
		}
		e.sawJobs(s.snap)
		for range 6 {
			if _, err := e.launchWanted(t.Context()); err != nil {
				t.Fatal(err)
			}
			time.Sleep(2 * time.Second)
			e.drain(t.Context())
		}
		e.calls.Wait()
		if n := e.mem.nodes["c2"]; n.Phase != Launching && n.Phase != Booting || r.rounds > 2 {
			t.Errorf("c2 is %s after %d rounds of preparing; held: %+v", n.Phase, r.rounds, e.mem.holds)
		}
	})
}
