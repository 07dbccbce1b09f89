package power

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"time"

	"github.com/burst-hpc/burst/slurm"
)

// noAddr is an address at which Linux finds nobody, and says so at once.
const noAddr = "255.255.255.255"

// nameless says which nodes that boot have a name for their address in Slurm, as no other was set. From
// power_down_force until it powers the node down, a second at most, Slurm may want to speak to it. It
// looks the name up then, and answers nobody meanwhile: Debian's 24.11 for 10 s, node by node.
func nameless(snap *slurm.Snapshot) func(node string) bool {
	return func(node string) bool {
		addr := snap.Nodes[node].Addr
		_, err := netip.ParseAddr(addr)
		return powerOf(snap, node) == poweringUp && addr != "" && err != nil
	}
}

// setNodes sets the nodes to a state, with a call for each reason, and those of which nameless says so
// to no address too: each launch gives them another.
func (e *Engine) setNodes(ctx context.Context, state string, nodes []Node, nameless func(node string) bool) error {
	type call struct {
		why     string
		nowhere bool
	}
	by := map[call][]string{} // nodes
	for _, n := range nodes {
		c := call{n.Reason, nameless != nil && nameless(n.Name)}
		by[c] = append(by[c], n.Name)
	}
	var errs []error
	for _, c := range slices.SortedFunc(maps.Keys(by), func(a, b call) int {
		return cmp.Or(cmp.Compare(a.why, b.why), before(a.nowhere, b.nowhere))
	}) {
		u := slurm.NodeUpdate{Nodes: by[c], State: state, Reason: "burst: " + c.why}
		if c.nowhere {
			u.Addrs = slices.Repeat([]string{noAddr}, len(u.Nodes))
		}
		if err := e.slurm.UpdateNodes(ctx, u); err != nil {
			errs = append(errs, fmt.Errorf("setting %d nodes %s: %w", len(u.Nodes), state, err))
			continue
		}
		for _, n := range u.Nodes {
			if state != "down" {
				e.freed[n] = time.Now()
			}
		}
	}
	return errors.Join(errs...)
}
