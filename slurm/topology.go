package slurm

import (
	"context"
	"fmt"
	"strings"

	"github.com/burst-hpc/burst/slurm/hostlist"
)

// Connected returns the nodes that are in a switch or block of Slurm's topology, where Slurm gives jobs no others; nil: it
// gives them any.
func (c *Client) Connected(ctx context.Context) (map[string]bool, error) {
	config, err := c.ShowConfig(ctx)
	if err != nil {
		return nil, err
	}
	optional := strings.Contains(strings.ToLower(config["TopologyParam"]), "topooptional") // a job that asks for no switches gets any
	switch plugin := config["TopologyPlugin"]; {
	case plugin == "topology/block", plugin == "topology/tree" && !optional:
	default:
		return nil, nil
	}
	out, err := c.run(ctx, "scontrol", "show", "topology")
	if err != nil {
		return nil, fmt.Errorf("reading the topology: %w", err)
	}
	return parseTopology(out)
}

// parseTopology reads the nodes of `scontrol show topology`; nil: it has none, and proves nothing.
func parseTopology(out []byte) (map[string]bool, error) {
	var all map[string]bool
	for line := range strings.Lines(string(out)) {
		for field := range strings.FieldsSeq(line) {
			list, ok := strings.CutPrefix(field, "Nodes=")
			if !ok {
				continue
			}
			names, err := hostlist.Expand(list)
			if err != nil {
				return nil, fmt.Errorf("reading the topology: %w", err)
			}
			for _, n := range names {
				if all == nil {
					all = map[string]bool{}
				}
				all[n] = true
			}
		}
	}
	return all, nil
}
