package ft

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/burst-hpc/burst/cloud"
)

// assignWait is how long after a notice its instance may still get a node: the
// answer to its launch may be on its way, or the journal be a new one.
const assignWait = 30 * time.Second

// begin finds the notice's node, and whether anything is to be done about it.
func (g *Guard) begin(ctx context.Context, n *Notice) error {
	node, err := g.journal.NodeOf(ctx, n.Instance)
	for end := time.Now().Add(assignWait); err == nil && node == "" && time.Now().Before(end); {
		if err = pause(ctx, time.Second); err == nil {
			node, err = g.journal.NodeOf(ctx, n.Instance)
		}
	}
	if err != nil {
		return err
	}
	now := g.now(n)
	next := *n
	next.Notice, next.Node, next.Stage = now.Notice, node, Draining
	if node == "" {
		return g.foreign(ctx, n, next)
	}
	ev := Event{Time: time.Now(), Kind: "notice", Node: node, Instance: n.Instance, Text: fmt.Sprintf("%s (%s): %s", what(now.Notice), n.Source, when(now.Notice))}
	notices := []Notice{next}
	switch rule := g.rule(&next); {
	case now.Cancelled:
		ev.Text = fmt.Sprintf("%s (%s): cancelled", what(now.Notice), n.Source)
		notices = dropped(next)
	case rule == Ignore:
		ev.Text += ": noted"
		notices = dropped(next)
	}
	g.closing(n)
	if err := g.journal.CommitFT(ctx, Change{Notices: notices, Events: []Event{ev}}); err != nil {
		return err
	}
	*n = notices[len(notices)-1]
	return nil
}

// dropped is a notice's way to its end when nothing is done about it.
func dropped(n Notice) []Notice {
	foreign, acked := n, n
	foreign.Stage, acked.Stage = Foreign, Acked
	return []Notice{foreign, acked}
}

// foreign forgets a notice for an instance that serves no node. An account may
// be full of other people's instances: of them nothing is kept.
func (g *Guard) foreign(ctx context.Context, n *Notice, next Notice) error {
	all := dropped(next)
	g.closing(n)
	if err := g.journal.CommitFT(ctx, Change{Notices: all}); err != nil {
		return err
	}
	*n = all[1]
	g.log.Debug("a notice for an instance that serves no node", "instance", n.Instance, "kind", n.Kind, "source", n.Source)
	g.mu.Lock()
	g.heard++
	g.mu.Unlock()
	return nil
}

// rule is what the pool says of the notice's kind.
func (g *Guard) rule(n *Notice) string {
	if n.Kind == cloud.SpotInterruption || n.Kind == Spent {
		return Drain
	}
	pool := g.pool(n.Node)
	if n.Kind == cloud.Rebalance {
		return cmp.Or(pool.OnRebalance, Ignore)
	}
	return cmp.Or(pool.OnMaintenance, Ignore)
}

// pool is the node's; without one it is a pool without rules.
func (g *Guard) pool(node string) Pool {
	if g.cfg.Pools != nil {
		if p, ok := g.cfg.Pools(node); ok {
			return p
		}
	}
	return Pool{}
}

// what names a notice: "maintenance (system-reboot)".
func what(n cloud.Notice) string {
	if n.Action == "" {
		return string(n.Kind)
	}
	return fmt.Sprintf("%s (%s)", n.Kind, n.Action)
}

// when says what its deadline means.
func when(n cloud.Notice) string {
	switch {
	case n.Kind == Spent:
		return "those of its jobs that are at a cap, and can be saved, are requeued"
	case n.Kind == cloud.Rebalance:
		return "the instance is at a higher risk of going"
	case n.Deadline.IsZero():
		return "at a time that is not said"
	case n.Kind == cloud.Maintenance:
		return "work begins at " + n.Deadline.Local().Format(time.DateTime)
	}
	return "the instance goes at " + n.Deadline.Local().Format(time.TimeOnly)
}
