package power

import (
	"log/slog"
	"testing"

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
