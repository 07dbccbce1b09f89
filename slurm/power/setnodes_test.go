package power

import (
	"slices"
	"testing"

	"github.com/burst-hpc/burst/slurm"
)

// TestFreedNodesWithoutAnAddress: slurmctld does not look the names of nodes up that are freed before they got an
// address. What has an address keeps it, and what is up is still spoken to.
func TestFreedNodesWithoutAnAddress(t *testing.T) {
	const boots, up = "ALLOCATED+CLOUD+NOT_RESPONDING+POWERING_UP", "ALLOCATED+CLOUD"
	st := State{}
	nodes, addrs := map[string]string{"c1": boots, "c2": boots, "c3": boots, "c4": up, "c5": boots, "c6": boots}, map[string]string{"c1": "c1", "c2": "c2.site", "c3": "10.0.0.3", "c4": "c4", "c5": "c5", "c6": "fd00::6"}
	for name, why := range map[string]string{"c1": "x", "c2": "x", "c3": "x", "c4": "x", "c5": "y", "c6": "x"} {
		st.Nodes = append(st.Nodes, Node{Name: name, Pool: "p", Phase: Freeing, Reason: why})
	}
	inSlurm(t, st, nodes, nil, func(t *testing.T, e *Engine, s *scripted) {
		for name, addr := range addrs {
			s.snap.Nodes[name] = slurm.Node{Name: name, Addr: addr, State: parseState(nodes[name])}
		}
		if _, err := e.freeNodes(t.Context()); err != nil {
			t.Fatal(err)
		}
		want := []string{"down c4", "power_down_force c1,c2 at 255.255.255.255,255.255.255.255", "power_down_force c3,c4,c6", "power_down_force c5 at 255.255.255.255"}
		if !slices.Equal(s.asked, want) {
			t.Errorf("asked %q, want %q", s.asked, want)
		}
	})
}
