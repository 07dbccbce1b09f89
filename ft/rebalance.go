package ft

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/burst-hpc/burst/ft/session"
	"github.com/burst-hpc/burst/slurm"
)

// rebalance closes a node whose instance may go soon. With Replace another node is
// raised, and when that is up, jobs whose steps can checkpoint are moved to it; the
// others stay until the interruption comes, which is another notice.
func (g *Guard) rebalance(ctx context.Context, n *Notice, own *[]*Eviction) error {
	snap, err := g.slurm.Fresh(ctx, time.Now())
	if err != nil {
		return err
	}
	node, err := g.journal.NodeOf(ctx, n.Instance)
	if err != nil || node != n.Node {
		return err
	}
	jobs := g.on(snap, n.Node)
	if !byAdmin(snap.Nodes[n.Node]) {
		jobs, err = g.drain(ctx, n)
	}
	if err != nil || g.rule(n) != Replace {
		return err
	}
	if len(jobs) == 0 && n.Ahead == "" {
		return nil
	}
	if err := g.raises.do(ctx, n, g.raise); err != nil || n.Ahead == "" {
		return err
	}
	return g.moveAhead(ctx, n, own)
}

// raised is a node that was raised ahead: in whose place, and when.
type raised struct {
	inPlaceOf string
	at        time.Time
}

// InPlaceOf is the node in whose place this one was raised ahead, while its jobs may be moved there; "": it was not. It may
// be called at any time.
func (g *Guard) InPlaceOf(node string) string {
	g.mu.Lock()
	defer g.mu.Unlock()
	if r := g.ahead[node]; time.Since(r.at) < bootTime {
		return r.inPlaceOf
	}
	return ""
}

const (
	// bootTime is how long a node that was raised ahead is waited for.
	bootTime = 15 * time.Minute
	// bootLook is how often it is looked at.
	bootLook = 2 * time.Second
)

// moveAhead moves what can be moved without a loss when there is a place for it.
func (g *Guard) moveAhead(ctx context.Context, n *Notice, own *[]*Eviction) error {
	for end := time.Now().Add(bootTime); time.Now().Before(end); {
		snap, err := g.slurm.Fresh(ctx, time.Now())
		if err != nil {
			return err
		}
		var jobs []slurm.Job
		for _, j := range g.on(snap, n.Node) {
			kind, _, err := g.way(ctx, n, j)
			if err != nil {
				return err
			}
			if kind == session.Stop {
				jobs = append(jobs, j)
			}
		}
		node, err := g.journal.NodeOf(ctx, n.Instance)
		switch {
		case err != nil:
			return err
		case len(*own) == 0 && (len(jobs) == 0 || node != n.Node):
			return nil // nobody can be, or the interruption has come
		case len(*own) > 0 || up(snap.Nodes[n.Ahead]) && len(g.on(snap, n.Ahead)) == 0: // or Slurm has given it to another job
			return g.moveAll(ctx, n, own, jobs)
		}
		if err := pause(ctx, bootLook); err != nil {
			return err
		}
	}
	return nil
}

// up says that the node has registered and may run jobs.
func up(n slurm.Node) bool {
	return slices.Contains([]string{"IDLE", "MIXED", "ALLOCATED"}, n.State.Base) &&
		!slices.ContainsFunc([]string{slurm.PoweredDown, slurm.PoweringUp, slurm.PoweringDown, slurm.NotResponding, slurm.Drain}, n.State.Has)
}

// aheadFor is how long after the command a raised node may still look free.
const aheadFor = time.Minute

// raise powers up a free node of the pool for each notice, if the budget has room for it. Which one is in the
// journal before Slurm is asked: after a crash it is the same.
func (g *Guard) raise(ctx context.Context, notices []*Notice) error {
	snap, err := g.slurm.Fresh(ctx, time.Now())
	if err != nil {
		return err
	}
	slices.SortStableFunc(notices, func(a, b *Notice) int { return cmp.Compare(a.Node, b.Node) })
	g.mu.Lock()
	taken, places := map[string]bool{}, map[string]string{}
	for node, r := range g.ahead {
		if taken[node] = time.Since(r.at) < aheadFor; time.Since(r.at) >= bootTime {
			delete(g.ahead, node)
		} else if taken[node] || snap.Nodes[node].State.Has(slurm.PoweringUp) {
			places[node] = r.inPlaceOf // which Slurm may not have ordered yet
		}
	}
	g.mu.Unlock()
	for _, n := range notices {
		if n.Ahead != "" {
			taken[n.Ahead] = true
		}
	}
	var c Change
	var up []string
	var afford func(inPlaceOf string) (why string)
	chosen := map[*Notice]string{}
	for _, n := range notices {
		node := n.Ahead
		if node == "" {
			pool := g.pool(n.Node)
			node = spare(snap, pool.Nodes, taken)
			why := fmt.Sprintf("no node of pool %s is free to take its place", pool.Name)
			if node != "" && g.cfg.Afford != nil {
				if afford == nil {
					if afford, err = g.cfg.Afford(ctx, places); err != nil {
						return fmt.Errorf("asking whether a node may be raised in place of %s: %w", n.Node, err)
					}
				}
				if why = afford(n.Node); why != "" {
					node, why = "", "no node is raised in its place: budget: "+why
				}
			}
			taken[node] = true
			ev := Event{Time: time.Now(), Kind: "replace", Node: n.Node, Instance: n.Instance, Text: fmt.Sprintf("node %s is raised in its place", node)}
			if node == "" {
				ev.Text = why + ": it is drained only"
			}
			next := *n
			next.Ahead = node
			c.Notices, c.Events = append(c.Notices, next), append(c.Events, ev)
		}
		if node != "" && off(snap.Nodes[node]) && !slices.Contains(up, node) {
			up = append(up, node)
		}
		chosen[n] = node
	}
	if len(c.Notices) > 0 {
		if err := g.journal.CommitFT(ctx, c); err != nil {
			return err
		}
	}
	g.mu.Lock()
	for n, node := range chosen {
		if n.Ahead = node; node != "" {
			g.ahead[node] = raised{n.Node, time.Now()}
		}
	}
	g.mu.Unlock()
	if len(up) == 0 {
		return nil
	}
	err = g.command(ctx, time.Time{}, func() error {
		return g.slurm.UpdateNodes(ctx, slurm.NodeUpdate{Nodes: up, State: "power_up"})
	})
	var refused *slurm.PartialError
	if errors.As(err, &refused) {
		g.log.Warn("nodes cannot be raised ahead", "error", refused)
		return nil
	}
	return err
}

// spare is a node that can be raised; empty: none.
func spare(snap *slurm.Snapshot, nodes []string, taken map[string]bool) string {
	for _, name := range nodes {
		if !taken[name] && off(snap.Nodes[name]) {
			return name
		}
	}
	return ""
}

// off says that the node is powered down, and wanted by nobody.
func off(n slurm.Node) bool {
	return n.State.Base == "IDLE" && n.State.Has(slurm.PoweredDown) &&
		!slices.ContainsFunc([]string{slurm.PoweringUp, slurm.PoweringDown, slurm.PowerDown, slurm.PowerUp, slurm.Drain, "MAINT", "RESERVED", "PLANNED"}, n.State.Has)
}
