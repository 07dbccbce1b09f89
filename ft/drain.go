package ft

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/slurm"
)

// nodeTask is a change of one notice's node, and what came of it.
type nodeTask struct {
	n       *Notice
	state   string
	stale   bool            // the instance is no longer the node's: nothing was done
	refused string          // by Slurm, and why
	snap    *slurm.Snapshot // a reading after it
}

// set changes the state of the notice's node, together with all others that
// wait for the same: few commands serve a storm.
func (g *Guard) set(ctx context.Context, n *Notice, state string) (*nodeTask, error) {
	t := &nodeTask{n: n, state: state}
	return t, g.drains.do(ctx, t, g.setAll)
}

func (g *Guard) setAll(ctx context.Context, tasks []*nodeTask) error {
	type group struct {
		state, what string
	}
	byGroup := map[group][]*nodeTask{}
	var order []group
	slices.SortStableFunc(tasks, func(a, b *nodeTask) int { return urgency(g.deadline(a.n), g.deadline(b.n)) })
	for _, t := range tasks {
		k := group{t.state, what(g.now(t.n).Notice)}
		if byGroup[k] == nil {
			order = append(order, k)
		}
		byGroup[k] = append(byGroup[k], t)
	}
	for _, k := range order {
		all := byGroup[k]
		if err := g.command(ctx, g.deadline(all[0].n), func() error { return g.update(ctx, k.state, all) }); err != nil {
			return fmt.Errorf("setting %d nodes from %s on %s: %w", len(all), all[0].n.Node, k.state, err)
		}
	}
	snap, err := g.slurm.Fresh(ctx, time.Now())
	for _, t := range tasks {
		t.snap = snap
	}
	return err
}

// update changes those nodes whose instance is still the one behind them: a
// stale notice must not hit the next one.
func (g *Guard) update(ctx context.Context, state string, tasks []*nodeTask) error {
	u := slurm.NodeUpdate{State: state}
	var first *Notice // the one with the nearest deadline
	for _, t := range tasks {
		node, err := g.journal.NodeOf(ctx, t.n.Instance)
		if err != nil {
			return err
		}
		if t.stale = node != t.n.Node; t.stale || slices.Contains(u.Nodes, node) {
			continue
		}
		if first == nil {
			first = t.n
		}
		u.Nodes = append(u.Nodes, node)
	}
	if first == nil {
		return nil
	}
	if state != "resume" {
		u.Reason = reason(g.now(first).Notice, len(u.Nodes))
	}
	err := g.slurm.UpdateNodes(ctx, u)
	var refused *slurm.PartialError
	if !errors.As(err, &refused) {
		return err
	}
	for _, t := range tasks {
		t.refused = refused.Failed[t.n.Node]
	}
	return nil
}

// ours begins the reason of every drain by a notice of the kind.
func ours(kind cloud.NoticeKind) string { return "burst: " + string(kind) }

// byAdmin says that the node was drained by somebody who may want to look at its
// instance: it is not ended for what is not certain, or not near.
func byAdmin(n slurm.Node) bool {
	return n.State.Has(slurm.Drain) && !strings.HasPrefix(n.Reason, ours(""))
}

func reason(n cloud.Notice, nodes int) string {
	text := ours(n.Kind)
	if n.Action != "" {
		text += " (" + n.Action + ")"
	}
	if nodes == 1 {
		return fmt.Sprintf("%s: %s (%s)", text, when(n), n.Instance)
	}
	return fmt.Sprintf("%s of %d instances, of the first: %s", text, nodes, when(n))
}

// drain closes the node to new jobs, has it powered down when the last one
// has left, and returns the jobs on it. There are none for a notice whose
// instance is no longer the one behind its node.
func (g *Guard) drain(ctx context.Context, n *Notice) ([]slurm.Job, error) {
	t, err := g.set(ctx, n, "power_down_asap")
	if err != nil || t.stale {
		return nil, err
	}
	if t.refused != "" {
		// Its jobs must go all the same.
		g.log.Warn("Slurm does not power the node down", "node", n.Node, "error", t.refused)
		// A node that is going down would keep the drain for its next instance.
		if s := t.snap.Nodes[n.Node].State; s.Base != "" && !s.Has(slurm.PoweringDown) && !s.Has(slurm.PoweredDown) {
			closed, err := g.set(ctx, n, "drain")
			if err != nil || closed.refused != "" {
				g.log.Warn("the node stays open to new jobs", "node", n.Node, "error", errors.Join(err, errors.New(closed.refused)))
			}
		}
	}
	return g.on(t.snap, n.Node), nil
}

// urgency orders deadlines, none last.
func urgency(a, b time.Time) int {
	switch {
	case sooner(a, b):
		return -1
	case sooner(b, a):
		return 1
	}
	return 0
}

// running says whether the job has its nodes and has not begun to leave them.
func running(j slurm.Job) bool {
	return slices.Contains([]string{"RUNNING", "CONFIGURING", "SUSPENDED", "STOPPED", "SIGNALING", "RESIZING"}, j.State)
}

// leaving says that the job's processes are being ended; how the job has ended
// is certain only after.
func leaving(j slurm.Job) bool { return j.State == "COMPLETING" || j.State == "STAGE_OUT" }

// movable says whether Slurm can requeue the job: a batch job that allows it.
func movable(j slurm.Job) bool { return j.Batch && j.Requeue }
