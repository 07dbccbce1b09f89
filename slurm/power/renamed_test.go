package power

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/burst-hpc/burst/cloud"
)

// TestWhatFollowsAPoolToItsNewName: breakers, and what is learnt later under the tag that its instances have.
func TestWhatFollowsAPoolToItsNewName(t *testing.T) {
	tagged := func(id, node string) Instance {
		return Instance{Provider: "east", Assigned: node, Instance: cloud.Instance{ID: id, Pool: "old", State: cloud.Running, Launched: at}}
	}
	for _, tt := range []struct {
		name  string
		nodes []string
		want  string // the pool of the breaker, and of an instance that is no node
	}{
		{"all its nodes are p's", []string{"c1", "c2"}, "p"},
		{"they are two pools'", []string{"c1", "d1"}, "old"},
		{"one is nobody's", []string{"c1", "x1"}, "old"},
		{"none is known", nil, "old"},
	} {
		var nodes []Node
		for _, n := range tt.nodes {
			nodes = append(nodes, Node{Name: n, Pool: "old", Phase: Wanted})
		}
		j := left{&paper{orders: map[string]bool{}}, State{Nodes: nodes, Breakers: []Breaker{{Pool: "old", Stopped: at, Why: "x", ByHand: true}}}}
		e := New(Config{Cluster: "x", Pools: testPools()}, j, nil, map[string]cloud.Provider{"east": still{}, "west": still{}}, slog.New(slog.DiscardHandler))
		if err := e.Load(t.Context()); err != nil {
			t.Fatal(err)
		}
		if b := e.mem.breakers[tt.want]; b.Stopped.IsZero() || b.Pool != tt.want || len(e.mem.breakers) != 1 {
			t.Errorf("%s: the breakers are %+v", tt.name, e.mem.breakers)
		}
		renamed := tt.want == "p"
		if renamed != (len(j.committed) == 1) || renamed && (j.committed[0].Breakers[0] != (Breaker{Pool: "old"}) || j.committed[0].Breakers[1].Pool != "p") {
			t.Errorf("%s: committed %+v", tt.name, j.committed)
		}
		if err := e.commit(t.Context(), Change{Instances: []Instance{tagged("i-1", ""), tagged("i-2", "c3")}}); err != nil {
			t.Fatal(err)
		}
		if one, two := e.mem.instances["i-1"].Pool, e.mem.instances["i-2"].Pool; one != tt.want || two != "p" {
			t.Errorf("%s: the instances are of %s and %s", tt.name, one, two)
		}
		delete(e.mem.breakers, "p")
		i := tagged("i-3", "").Instance
		i.Offering = smallA
		if e.fits("east", i, Node{Name: "c4", Pool: "p"}) != renamed {
			t.Errorf("%s: whether a spare one fits", tt.name)
		}
	}
}

// TestLaunchesOfAPoolWithAnotherName: what was asked of the cloud has the old name; whether it is stopped, given up and
// too late is the new one's, also where the old one is another pool's by now.
func TestLaunchesOfAPoolWithAnotherName(t *testing.T) {
	for _, old := range []string{"old", "q"} {
		t.Run(old, func(t *testing.T) {
			load := func(e *Engine, state LaunchState, phase Phase, token string) {
				t.Helper()
				l := Launch{Token: "t", Provider: "east", Nodes: []string{"c1"}, State: state, Created: time.Now().Add(-2 * doubtFor), Request: cloud.LaunchRequest{Token: "t", Pool: old, Count: 1}}
				n := Node{Name: "c1", Pool: old, Phase: phase, Token: token, Job: 7, Made: time.Now()}
				e.journal = left{&paper{orders: map[string]bool{}}, State{Nodes: []Node{n}, Launches: []Launch{l}, Breakers: []Breaker{{Pool: "p", Provider: "gone", Stopped: at}}}}
				if err := e.Load(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			inTwoClouds(t, State{}, nil, nil, nil, func(e *Engine, _ *scripted) {
				load(e, Abandoned, Wanted, "")
				p, _ := e.planning()
				if all := p.groups(); len(all) != 1 || !all[0].not["east"] {
					t.Errorf("what may be launched elsewhere: %+v", all)
				}
				ctx, cancel := context.WithCancel(context.Background()) // of the bubble
				defer cancel()
				load(e, Written, Launching, "t")
				if e.mem.breakers["p"] = (Breaker{Pool: "p", Stopped: at, Why: "x"}); e.ofRemovedSource(e.mem.poolOf(e.mem.launches["t"]), "east") {
					t.Error("east is taken for a source that the pool has no more")
				}
				pool := e.pools["p"]
				pool.Then = nil
				e.pools["p"] = pool
				if _, err := e.callWritten(ctx); err != nil {
					t.Fatal(err)
				}
				if h := e.mem.holds[7]; e.mem.launches["t"].State != Abandoned || !strings.Contains(h.Why, "pool p is stopped: x") {
					t.Errorf("launch %+v of a stopped pool; the job is told %q", e.mem.launches["t"], h.Why)
				}
				pool.BootTimeout = time.Minute
				e.pools["p"] = pool
				load(e, Written, Launching, "t")
				e.launched(t.Context(), "t", nil, errNoAnswer)
				if h := e.mem.holds[7]; e.mem.launches["t"].State != Abandoned || !strings.Contains(h.Why, "pool p: ") {
					t.Errorf("launch %+v that took too long; the job is told %q", e.mem.launches["t"], h.Why)
				}
			})
		})
	}
}
