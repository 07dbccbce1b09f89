package conf

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/burst-hpc/burst/slurm/hostlist"
)

var (
	yamlNodes = regexp.MustCompile(`(?m)^[ \t-]*nodes:[ \t]*["']?([^"'#\r\n]+)`)
	yamlFlat  = regexp.MustCompile(`(?mi)^[ \t-]*flat:[ \t]*true\b`)
)

// absentFromYAML finds pools that topology.yaml names in no switch and no block. Where it has a topology that asks for none, their
// partition may be of that.
func absentFromYAML(site Site, in Input) []Finding {
	known := map[string]bool{}
	for _, m := range yamlNodes.FindAllStringSubmatch(site.network.yaml, -1) {
		names, _ := hostlist.Expand(strings.TrimSpace(m[1]))
		for _, n := range names {
			known[n] = true
		}
	}
	var all []Finding
	for _, p := range in.Pools {
		lacks := slices.DeleteFunc(slices.Clone(p.Nodes), func(n string) bool { return known[n] })
		if p.Server || len(lacks) == 0 {
			continue
		}
		f := Finding{Level: Wrong, Key: yamlName, Have: hostlist.Fold(lacks), Why: fmt.Sprintf("Pool %s: it has them in no switch and no block, and Slurm refuses jobs on such nodes. "+
			"Add a switch burst-%s with nodes: %q, or a block, to the topology of partition %s.", p.Name, p.Name, hostlist.Fold(p.Nodes), p.Partition)}
		if site.topologyParam("TopoOptional") {
			f.Level = Advice
			f.Why += " With TopoOptional that is so only of jobs that ask for switches."
		}
		if yamlFlat.MatchString(site.network.yaml) {
			f.Level = Advice
			f.Why += " Nothing is to be done where that is a flat one, by Topology= of the partition or cluster_default."
		}
		all = append(all, f)
	}
	return all
}
