package power

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/cloud/fleet"
)

// TestLaunchesOfARemovedSource: it hangs, and is taken out. Its launch is not asked for again, but
// watched, and its nodes are launched at what the pool has left.
func TestLaunchesOfARemovedSource(t *testing.T) {
	small := cloud.Offering{Type: "small", Zone: "a", Market: cloud.OnDemand}
	launch := func(token, provider string, nodes ...string) Launch {
		return Launch{Token: token, Provider: provider, Nodes: nodes, State: Written,
			Request: cloud.LaunchRequest{Pool: "p", Token: token, Count: len(nodes), Offering: small}}
	}
	node := func(name, token string) Node {
		return Node{Name: name, Pool: "p", Phase: Launching, Token: token, Job: 7}
	}
	st := State{Nodes: []Node{node("c1", "t"), node("c2", "t"), node("c3", "u")},
		Launches: []Launch{launch("t", "west", "c1", "c2"), launch("u", "east", "c3")}}
	const up = "ALLOCATED+CLOUD+NOT_RESPONDING+POWERING_UP"
	inSlurm(t, st, map[string]string{"c1": up, "c2": "IDLE+CLOUD+POWERED_DOWN", "c3": up}, nil, func(t *testing.T, e *Engine, _ *scripted) {
		e.mem.heard[""] = true
		for name, n := range e.mem.nodes {
			n.Made = time.Now()
			e.mem.nodes[name] = n
		}
		l := e.mem.launches["t"]
		l.Created = time.Now()
		e.mem.launches["t"] = l
		if err := e.reviewWanted(t.Context()); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(map[string]Phase{"c1": Wanted, "c3": Launching}, nodePhases(e)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if l, open := e.mem.launches["t"]; !open || l.State != Abandoned || len(e.mem.cool) > 0 {
			t.Errorf("its launch is %+v, open %v; %v cool", l, open, e.mem.cool)
		}
		p, _ := e.planning()
		if out := p.plan(); len(out.drafts) != 1 || out.drafts[0].Provider != "east" || out.drafts[0].nodes[0].Name != "c1" {
			t.Errorf("planned %+v", out)
		}
	})
}

// TestALaunchIsWaitedForWhereNoOtherSourceHasRoom: nothing is gained by forsaking it, and what comes of
// it would be paid for and ended.
func TestALaunchIsWaitedForWhereNoOtherSourceHasRoom(t *testing.T) {
	big := cloud.Offering{Type: "big", Market: cloud.OnDemand}
	for _, tt := range []struct {
		name    string
		st      State
		forsook bool
	}{
		{"west has room", State{}, true},
		{"west is stopped", State{Breakers: []Breaker{{Pool: "p", Provider: "west", Stopped: at, Why: "x"}}}, false},
		{"west is dry", State{Coolings: []Cooling{{"west", big, fleet.Cooldown{Failures: 1, Until: at.Add(24 * time.Hour)}}}}, false},
		{"west owes an answer for the node too", State{Launches: []Launch{{Token: "u", Provider: "west", Nodes: []string{"c1"}, State: Abandoned, Request: cloud.LaunchRequest{Pool: "p"}}}}, false},
	} {
		for _, hangs := range []bool{true, false} {
			t.Run(fmt.Sprint(tt.name, ", hangs ", hangs), func(t *testing.T) {
				tt.st.Nodes = []Node{{Name: "c1", Pool: "p", Phase: Launching, Token: "t"}}
				inTwoClouds(t, tt.st, nil, nil, nil, func(e *Engine, _ *scripted) {
					e.mem.heard[""], e.providers["east"] = true, mute{}
					p := e.pools["p"]
					p.Then[0].Fleet.Market = fleet.OnDemandOnly
					e.mem.launches["t"] = Launch{Token: "t", Provider: "east", Nodes: []string{"c1"}, State: Written, Created: time.Now(),
						Request: cloud.LaunchRequest{Pool: "p", Token: "t", Count: 1}}
					if hangs {
						e.flying["t"], e.market.called["t"] = true, time.Now()
					}
					time.Sleep(mayTake(1) + time.Second)
					if !hangs {
						e.launched(t.Context(), "t", nil, &cloud.Error{Kind: cloud.Transient, Err: errors.New("reset")})
					} else if due, err := e.overstays(t.Context(), e.mem.launches["t"]); err != nil || !tt.forsook && due <= 0 {
						t.Errorf("looked at again after %s, %v", due, err)
					}
					if l := e.mem.launches["t"]; tt.forsook != (l.State == Abandoned) || tt.forsook != (e.mem.nodes["c1"].Phase == Wanted) {
						t.Errorf("the launch is %s, its node %s", l.State, e.mem.nodes["c1"].Phase)
					}
				})
			})
		}
	}
}

// careful is a cloud that knows no launch tokens: after a start it waits its Lag for what an earlier
// call may have begun, and then makes what is lacking.
type careful struct{ still }

func (careful) Limits() cloud.Limits { return cloud.Limits{Lag: time.Minute, MaxLaunch: 9} }

func (careful) Launch(ctx context.Context, r cloud.LaunchRequest) ([]cloud.Instance, error) {
	if err := pause(ctx, time.Minute+5*time.Second); err != nil {
		return nil, err
	}
	return []cloud.Instance{{ID: "i-1", Token: r.Token, Pool: r.Pool, State: cloud.Pending, Offering: r.Offering}}, nil
}

// TestALaunchAfterAStartIsGivenItsLag: burstd was killed during a launch. What the same request comes to
// is waited for, though another source has room.
func TestALaunchAfterAStartIsGivenItsLag(t *testing.T) {
	for _, again := range []bool{true, false} {
		st := State{Nodes: []Node{{Name: "c1", Pool: "p", Phase: Launching, Token: "t"}}}
		inTwoClouds(t, st, nil, nil, nil, func(e *Engine, _ *scripted) {
			e.mem.heard[""], e.providers["east"], e.doubt["t"] = true, careful{}, again
			e.mem.launches["t"] = Launch{Token: "t", Provider: "east", Nodes: []string{"c1"}, State: Written, Created: time.Now(),
				Request: cloud.LaunchRequest{Pool: "p", Token: "t", Count: 1, Offering: cloud.Offering{Type: "small", Zone: "a", Market: cloud.OnDemand}}}
			ctx, cancel := context.WithCancel(context.Background()) // of the bubble
			defer cancel()
			for range 70 {
				if _, err := e.callWritten(ctx); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Second)
				synctest.Wait()
				e.drain(ctx)
			}
			if n, want := e.mem.nodes["c1"], map[bool]Phase{true: Booting, false: Wanted}[again]; n.Phase != want {
				t.Errorf("in doubt %v: the node is %s, the launches %+v", again, n.Phase, e.mem.launches)
			}
			cancel()
			e.calls.Wait()
		})
	}
}

// TestAnIdleNodeOfARemovedSource: Slurm has given it to a job beside one that is launched. The job is not
// spread over two clouds: it begins anew without that node.
func TestAnIdleNodeOfARemovedSource(t *testing.T) {
	up := Node{Name: "c1", Pool: "p", Phase: Up, Job: 107, Instance: "i-1", Made: at.Add(-time.Hour)}
	other := up
	other.Pool = "q" // Slurm's choice: the two pools have nothing in common
	i := onInstance("i-1", "c1", at.Add(-time.Hour))
	i.Provider, i.Offering = "lon", cloud.Offering{Type: "big", Zone: "lhr", Market: cloud.OnDemand}
	wanted := Node{Name: "c2", Pool: "p", Phase: Wanted, Job: 107, Whole: true, Made: at, Since: at}
	dry := append(cools("east", cloud.Spot, cloud.OnDemand), cools("west", cloud.Spot, cloud.OnDemand)...)
	for _, tt := range []struct {
		name     string
		node     Node
		coolings []Cooling
		want     []string
	}{
		{"another source has room", up, nil, []string{"c1 up job 107", "c2 freeing job 107 whole", "hold 107"}},
		{"none has", up, dry, []string{"c2 freeing job 107 whole", "hold 107"}},
		{"it is of another pool", other, nil, []string{}},
	} {
		for _, several := range []bool{true, false} {
			out := planInTwoClouds(State{Nodes: []Node{tt.node, wanted}, Instances: []Instance{i}, Coolings: tt.coolings}, func(p *planning) {
				if pool := p.pools["p"]; !several {
					pool.Then = nil
					p.pools["p"] = pool
				}
			})
			if diff := cmp.Diff(tt.want, sum(out.Change)); diff != "" || (len(out.drafts) > 0) != (tt.node.Pool == "q") {
				t.Errorf("%s, several sources %v: planned %+v (-want +got):\n%s", tt.name, several, out.drafts, diff)
			}
			if want := "its other nodes are of lon; its nodes begin anew at another provider"; tt.name == "another source has room" && len(out.Holds) > 0 && out.Holds[0].Why != want {
				t.Errorf("the job is told %q", out.Holds[0].Why)
			}
		}
	}
}

// TestANewJournalWaitsForAllSources: a source that has answered launches nothing while another
// of the pool may have instances for its nodes.
func TestANewJournalWaitsForAllSources(t *testing.T) {
	for _, tt := range []struct {
		name  string
		heard []string
		waits string
	}{
		{"none has answered", nil, "east"},
		{"the first has", []string{"east"}, "west"},
		{"the second has", []string{"west"}, "east"},
		{"both have", []string{"east", "west"}, ""},
		{"the journal is not new", []string{""}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inTwoClouds(t, State{}, nil, nil, nil, func(e *Engine, s *scripted) {
				e.providers["west"] = e.providers["east"]
				e.mem.heard = map[string]bool{}
				for _, name := range tt.heard {
					e.mem.heard[name] = true
				}
				wait, at := e.strangeTo(e.pools["p"])
				if got := map[bool]string{true: at}[wait > 0]; got != tt.waits {
					t.Errorf("it waits for %q, want %q", got, tt.waits)
				}
				if sh, _ := e.shutOf(e.pools["p"]); (sh != shut{}) != (tt.waits != "") {
					t.Errorf("it is shut: %+v", sh)
				}
			})
		})
	}
}

// TestAJournalIsWhole when all of a start's providers have answered: one that is added later is not waited for.
func TestAJournalIsWhole(t *testing.T) {
	for _, tt := range []struct {
		name   string
		answer []string
		want   bool
	}{{"one has not answered", []string{"east"}, false}, {"all have", []string{"east", "west"}, true}} {
		t.Run(tt.name, func(t *testing.T) {
			inTwoClouds(t, State{}, nil, nil, nil, func(e *Engine, s *scripted) {
				e.providers["east"], e.providers["west"] = mute{}, mute{}
				e.mem.heard = map[string]bool{}
				time.Sleep(time.Hour)
				l := newListing(time.Now())
				for _, name := range tt.answer {
					l.lists[name] = nil
				}
				if err := e.round(t.Context(), l); err != nil {
					t.Fatal(err)
				}
				if e.mem.heard[""] != tt.want {
					t.Errorf("heard is %v", e.mem.heard)
				}
				e.providers["later"] = mute{}
				if wait := e.strange("later"); wait > 0 == tt.want {
					t.Errorf("launches at a provider that is added wait for %s", wait)
				}
			})
		})
	}
}

// TestNoOrderIsMadeAgain for a node of which a source that has not answered since the start may
// have the instance.
func TestNoOrderIsMadeAgain(t *testing.T) {
	for _, heard := range []bool{false, true} {
		inTwoClouds(t, State{Heard: []string{""}}, nil, map[string]string{"c1": "ALLOCATED+CLOUD+NOT_RESPONDING+POWERING_UP"}, nil, func(e *Engine, s *scripted) {
			e.providers["east"], e.providers["west"] = mute{}, mute{}
			e.heard["east"], e.heard["west"], e.rounds = true, heard, 2
			for range 2 {
				if err := e.settleNodes(t.Context(), s.snap, &listing{began: time.Now(), lists: map[string][]cloud.Instance{"east": nil}}); err != nil {
					t.Fatal(err)
				}
				time.Sleep(settle)
			}
			if made := len(e.mem.orders) > 0; made != heard {
				t.Errorf("west has answered: %v; orders: %v", heard, e.mem.orders)
			}
		})
	}
}

// TestARefusingCloudHasNoRoom, for jobs of other pools and sources, also while its gate is open for one that tries.
func TestARefusingCloudHasNoRoom(t *testing.T) {
	for op, room := range map[string]bool{"": true, opList: true, opLaunch: false, opPrepare: false} {
		inTwoClouds(t, State{Heard: []string{""}}, nil, nil, nil, func(e *Engine, s *scripted) {
			for _, name := range []string{"east", "west"} {
				if op != "" {
					e.market.denied[name] = denial{op: op, since: time.Now(), last: time.Now()}
				}
			}
			p, _ := e.planning()
			if dry := p.dry("p", 0); dry.IsZero() != room {
				t.Errorf("refused is %q: dry until %s", op, dry)
			}
			if now, _ := p.elsewhere(group{pool: "p", nodes: []Node{{Name: "c1", Pool: "p"}}}, e.pools["p"]); now != room {
				t.Errorf("refused is %q: room elsewhere: %v", op, now)
			}
		})
	}
}

// left is a journal with what an earlier life left.
type left struct {
	*paper
	st State
}

func (l left) LoadPower(context.Context) (State, error) { return l.st, nil }

// TestAPoolWithANewName has the nodes and instances that it had under its old one, also if that is another
// pool's by now; what is of no pool's nodes stays as it was.
func TestAPoolWithANewName(t *testing.T) {
	e, p := testEngine(State{})
	e.pools, e.poolOf = map[string]Pool{"new": {Name: "new"}, "other": {Name: "other"}}, map[string]string{"c1": "new", "c2": "new"}
	e.journal = left{p, State{
		Nodes: []Node{{Name: "c1", Pool: "old", Phase: Booting}, {Name: "c2", Pool: "other", Phase: Up}, {Name: "x1", Pool: "old", Phase: Up}},
		Instances: []Instance{{Instance: cloud.Instance{ID: "i-1", Pool: "old"}, Assigned: "c1"},
			{Instance: cloud.Instance{ID: "i-2", Pool: "other"}, Assigned: "c2"}, {Instance: cloud.Instance{ID: "i-3", Pool: "old"}, Assigned: "x1"}},
	}}
	if err := e.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for name, n := range e.mem.nodes {
		got[name] = n.Pool
	}
	for id, i := range e.mem.instances {
		got[id] = i.Pool
	}
	if diff := cmp.Diff(map[string]string{"c1": "new", "c2": "new", "x1": "old", "i-1": "new", "i-2": "new", "i-3": "old"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
