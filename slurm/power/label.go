package power

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/burst-hpc/burst/slurm"
)

// A node of a pool with several sources has the names of all their providers as
// features, by which a job is kept to one of them. Behind a node that is up is one of
// them alone: Slurm gives nodes to jobs by their active features, so those of the
// others are taken away from it, and given back when it goes. slurmctld forgets that
// when it starts or is reconfigured, so each round looks.

// labelNodes sets the active features that are not as they should be.
func (e *Engine) labelNodes(ctx context.Context) (time.Duration, error) {
	if !e.relabel {
		return 0, nil
	}
	snap, err := e.slurm.Fresh(ctx, time.Now())
	if err != nil {
		return 0, err
	}
	if err := e.label(ctx, snap); err != nil {
		return 0, err
	}
	e.relabel = false
	return 0, nil
}

func (e *Engine) label(ctx context.Context, snap *slurm.Snapshot) error {
	by := map[string][]string{} // features -> nodes
	for _, pool := range e.pools {
		for _, name := range pool.Nodes {
			n := snap.Nodes[name]
			if len(pool.Then) == 0 && !e.leftOver(pool, n) {
				continue
			}
			want := pool.active(n.Available, e.behind(name))
			if len(want) > 0 && !slices.Equal(slices.Sorted(slices.Values(want)), slices.Sorted(slices.Values(n.Features))) {
				key := strings.Join(want, ",")
				by[key] = append(by[key], name)
			}
		}
	}
	var errs []error
	for _, features := range slices.Sorted(maps.Keys(by)) {
		nodes := slices.Sorted(slices.Values(by[features]))
		if err := e.slurm.UpdateNodes(ctx, slurm.NodeUpdate{Nodes: nodes, Features: strings.Split(features, ",")}); err != nil {
			errs = append(errs, fmt.Errorf("setting the active features of %d nodes: %w", len(nodes), err))
		}
	}
	return errors.Join(errs...)
}

// leftOver says that the pool had another source once, for which a name of a provider was
// taken out of the node's active features: nobody else would put it back.
func (e *Engine) leftOver(pool Pool, n slurm.Node) bool {
	if len(n.Features) == len(n.Available) {
		return false
	}
	if at := e.behind(n.Name); at != "" && at != pool.Provider {
		return false // an instance of that source serves it still
	}
	lacks := slices.DeleteFunc(slices.Clone(n.Available), func(f string) bool { return slices.Contains(n.Features, f) })
	return len(lacks) > 0 && !slices.ContainsFunc(lacks, func(f string) bool { return f != pool.Provider && e.providers[f] == nil })
}

// behind is the provider whose instance the node is, or is to be; empty: none is chosen.
func (e *Engine) behind(node string) string {
	n := e.mem.nodes[node]
	if i, ok := e.mem.instances[n.Instance]; ok {
		return i.Provider
	}
	if l, ok := e.mem.launches[n.Token]; ok && n.Phase == Launching {
		return l.Provider
	}
	return ""
}

// active are the features, of those that slurm.conf has, of a node behind which is
// an instance of the provider, which may have left the pool; "": of one that has none.
func (p Pool) active(available []string, provider string) []string {
	if provider == "" {
		return available
	}
	return slices.DeleteFunc(slices.Clone(available), func(f string) bool {
		_, other := p.source(f)
		return other && f != provider
	})
}

// moves says whether a change may change which provider is behind a node of a
// pool with several.
func (e *Engine) moves(c Change) bool {
	if !e.several {
		return false
	}
	several := func(node string) bool { return len(e.pools[e.poolOf[node]].Then) > 0 }
	return slices.ContainsFunc(c.Nodes, func(n Node) bool { return several(n.Name) }) || slices.ContainsFunc(c.DropNodes, several)
}
