package power

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/burst-hpc/burst/cloud"
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
