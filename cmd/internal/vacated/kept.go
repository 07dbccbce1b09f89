package vacated

import (
	"fmt"
	"slices"
	"strings"

	"github.com/burst-hpc/burst/slurm"
	"github.com/burst-hpc/burst/slurm/hostlist"
)

// Kept are the nodes that slurm.conf keeps from being suspended; the zero value has
// none. Slurm heeds it for what is idle, and not for what it is told.
type Kept struct{ nodes, partitions, states []string }

// KeptBy reads SuspendExcNodes, SuspendExcParts and SuspendExcStates of slurmctld's
// configuration. Of "c[1-8]:2", which keeps any two of them up, all are kept.
func KeptBy(config map[string]string) (Kept, error) {
	k := Kept{partitions: words(config["SuspendExcParts"]), states: words(strings.ToUpper(config["SuspendExcStates"]))}
	for _, list := range lists(config["SuspendExcNodes"]) {
		list, _, _ = strings.Cut(list, ":")
		names, err := hostlist.Expand(list)
		if err != nil {
			return Kept{}, fmt.Errorf("SuspendExcNodes: %w", err)
		}
		k.nodes = append(k.nodes, names...)
	}
	slices.Sort(k.nodes)
	return k, nil
}

// Has says whether the node is kept.
func (k Kept) Has(n slurm.Node) bool {
	if _, ok := slices.BinarySearch(k.nodes, n.Name); ok {
		return true
	}
	in := func(list []string) func(string) bool {
		return func(s string) bool { return slices.Contains(list, s) }
	}
	return slices.ContainsFunc(n.Partitions, in(k.partitions)) || slices.ContainsFunc(n.State.Flags, in(k.states))
}

func words(list string) []string {
	return strings.FieldsFunc(list, func(r rune) bool { return r == ',' || r == ' ' })
}

// lists parts "c[1,3]:1,d2" at the commas outside of brackets.
func lists(text string) []string {
	depth := 0
	return strings.FieldsFunc(text, func(r rune) bool {
		switch r {
		case '[':
			depth++
		case ']':
			depth--
		}
		return r == ' ' || r == ',' && depth == 0
	})
}
