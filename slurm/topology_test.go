package slurm

import (
	"maps"
	"slices"
	"strings"
	"testing"
)

// Only where Slurm lays jobs out by a topology does it matter which nodes that has. What scontrol prints is 22.05.8's.
func TestConnected(t *testing.T) {
	const tree = "SwitchName=leaf Level=0 LinkSpeed=1 Nodes=o[1-2]\nSwitchName=root Level=1 LinkSpeed=1 Nodes=o[1-2] Switches=leaf\nSwitchName=burst-p Level=0 LinkSpeed=1 Nodes=c1\n"
	for _, tt := range []struct{ name, config, shown, want string }{
		{"none", "TopologyPlugin = topology/none\nTopologyParam = (null)\n", tree, "any"},
		{"none is said", "", tree, "any"},
		{"a tree", "TopologyPlugin = topology/tree\nTopologyParam = (null)\n", tree, "c1,o1,o2"},
		{"for jobs that ask", "TopologyPlugin = topology/tree\nTopologyParam = SwitchAsNodeRank,TopoOptional\n", tree, "any"},
		{"blocks have no such word", "TopologyPlugin = topology/block\nTopologyParam = TopoOptional\n", "BlockName=b1 BlockIndex=0 Nodes=c[1-2] BlockSize=2\n", "c1,c2"},
		{"nothing is shown", "TopologyPlugin = topology/tree\n", "", "any"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := newFake(&fake{answer: func(command []string) (string, string, error) {
				if strings.Join(command, " ") == "scontrol show topology" {
					return tt.shown, "", nil
				}
				return tt.config, "", nil
			}})
			nodes, err := c.Connected(t.Context())
			got := "any"
			if nodes != nil {
				got = strings.Join(slices.Sorted(maps.Keys(nodes)), ",")
			}
			if err != nil || got != tt.want {
				t.Errorf("%s, %v", got, err)
			}
		})
	}
}
