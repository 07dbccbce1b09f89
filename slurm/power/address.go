package power

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/slurm"
)

// setAddresses tells the provider which instance is which node, and Slurm the
// addresses of all nodes that have one, in one update.
func (e *Engine) setAddresses(ctx context.Context) (time.Duration, error) {
	names := map[string]map[string]string{} // provider -> instance -> node
	var u slurm.NodeUpdate
	var ready []Node
	for _, n := range e.mem.inPhase(Booting, Up) {
		i, ok := e.mem.instances[n.Instance]
		if n.AddrSet || !ok || i.Addr == "" {
			continue
		}
		if names[i.Provider] == nil {
			names[i.Provider] = map[string]string{}
		}
		names[i.Provider][i.ID] = n.Name
		host := i.Hostname
		if host == "" {
			host = n.Name
		}
		u.Nodes, u.Addrs, u.Hostnames = append(u.Nodes, n.Name), append(u.Addrs, i.Addr), append(u.Hostnames, host)
		ready = append(ready, n)
	}
	if len(ready) == 0 {
		return 0, nil
	}
	// Slurm first: a node that registers before its address is known would be
	// reached at the old one.
	err := e.slurm.UpdateNodes(ctx, u)
	var partial *slurm.PartialError
	if err != nil && !errors.As(err, &partial) {
		return 0, fmt.Errorf("setting the addresses of %d nodes: %w", len(ready), err)
	}
	unnamed := map[string]bool{} // providers
	for _, provider := range slices.Sorted(maps.Keys(names)) {
		if aerr := e.assignNames(ctx, provider, names[provider]); aerr != nil {
			unnamed[provider] = true // the others' nodes go on
			err = errors.Join(err, aerr)
		}
	}
	var c Change
	for _, n := range ready {
		if partial != nil && partial.Failed[n.Name] != "" || unnamed[e.mem.instances[n.Instance].Provider] {
			continue
		}
		n.AddrSet = true
		c.Nodes = append(c.Nodes, n)
	}
	if cerr := e.commit(ctx, c); cerr != nil {
		return 0, cerr
	}
	return 0, err
}

func (e *Engine) assignNames(ctx context.Context, provider string, ids map[string]string) error {
	a, ok := e.providers[provider].(cloud.Assigner)
	if !ok {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if err := a.Assign(ctx, ids); err != nil {
		e.note(provider, err)
		return fmt.Errorf("naming %d instances of %s: %w", len(ids), provider, err)
	}
	return nil
}

// runningPace is the least time between two looks at instances of which
// nothing is wanted but when they began to run.
const runningPace = 2 * time.Second

// findAddresses asks the clouds for instances that had no address at their
// launch. The same call tells which run; those of which that alone is not known
// are asked for less often, and not at all once the node has spoken.
func (e *Engine) findAddresses(ctx context.Context, moving []Node) {
	without := map[string][]string{}
	youngest := map[string]time.Duration{}
	urgent := map[string]bool{}
	for _, n := range moving {
		i, ok := e.mem.instances[n.Instance]
		if !ok || i.Addr != "" && (i.State != cloud.Pending || !e.mem.boots[n.Name].Reachable.IsZero()) {
			continue
		}
		urgent[i.Provider] = urgent[i.Provider] || i.Addr == ""
		age := time.Since(n.Since)
		if least, ok := youngest[i.Provider]; !ok || age < least {
			youngest[i.Provider] = age
		}
		without[i.Provider] = append(without[i.Provider], i.ID)
	}
	for name, ids := range without {
		what := "addresses of " + name
		switch waited := youngest[name]; {
		case urgent[name]:
			e.look(ctx, what, name, ids, waited)
		case waited >= runningPace && time.Since(e.looked[what]) >= runningPace:
			e.look(ctx, what, name, ids, waited*2/3) // each at four thirds of the age of the last
		}
	}
}
