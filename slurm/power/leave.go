package power

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/burst-hpc/burst/slurm"
)

// leave plans that those of the job's nodes which are up and of the kind are powered down, since
// the job's others cannot be had of it: else Slurm would give the job the same ones again,
// as they are idle. Other jobs on them run to their end, and none comes after.
func (p planning) leave(c *Change, g group, k kind) {
	why := fmt.Sprintf("job %d cannot have all its nodes of %s", g.job, k.provider)
	for _, n := range p.of[g.job] {
		i, ok := p.mem.instances[n.Instance]
		if !ok || n.Phase != Up || n.Pool != g.pool || n.Reason != "" || kindOf(i.Provider, i.Offering) != k {
			continue
		}
		n.Reason = why
		c.Nodes = append(c.Nodes, n)
		c.Events = append(c.Events, Event{Time: p.now, Kind: "power-down", Node: n.Name, Instance: i.ID, Pool: n.Pool, Job: g.job,
			Text: why + ": it is powered down when its jobs have ended, and the job begins anew"})
	}
}

// leaveNodes has Slurm power down the nodes that are up and are to go, until it shows that. Its
// order to suspend them then ends their records.
func (e *Engine) leaveNodes(ctx context.Context) (time.Duration, error) {
	if !e.several {
		return 0, nil
	}
	var due time.Duration
	maps.DeleteFunc(e.market.left, func(name string, _ time.Time) bool { return e.mem.nodes[name].Reason == "" })
	reasons := map[string]string{}
	for name, n := range e.mem.nodes {
		if n.Phase != Up || n.Reason == "" {
			continue
		}
		if wait := askAgain - time.Since(e.market.left[name]); wait > 0 {
			due = sooner(due, wait)
			continue
		}
		reasons[name] = n.Reason
	}
	if len(reasons) == 0 {
		return due, nil
	}
	snap, err := e.slurm.Fresh(ctx, time.Now())
	if err != nil {
		return 0, err
	}
	by := map[string][]string{} // reason -> nodes
	for name, why := range reasons {
		e.market.left[name] = time.Now()
		if powerOf(snap, name) == on && !snap.Nodes[name].State.Has(slurm.PowerDown) {
			by[why] = append(by[why], name)
		}
	}
	for why, nodes := range by {
		slices.Sort(nodes)
		if err := e.slurm.UpdateNodes(ctx, slurm.NodeUpdate{Nodes: nodes, State: "power_down_asap", Reason: "burst: " + why}); err != nil {
			for name := range reasons {
				delete(e.market.left, name)
			}
			return 0, fmt.Errorf("powering down %d nodes that are to go: %w", len(nodes), err)
		}
	}
	return sooner(due, askAgain), nil
}
