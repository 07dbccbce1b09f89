package ft

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/slurm"
	"github.com/burst-hpc/burst/slurm/hostlist"
)

// assignWait is how long after a notice its instance may still get a node: the
// answer to its launch may be on its way, or the journal be a new one.
const assignWait = 30 * time.Second

// begin finds the notice's node. Only a spot interruption is acted upon so
// far; a notice for an instance that serves no node of ours is counted.
func (g *Guard) begin(ctx context.Context, n *Notice) error {
	node, err := g.journal.NodeOf(ctx, n.Instance)
	for end := time.Now().Add(assignWait); err == nil && node == "" && n.Kind == cloud.SpotInterruption && time.Now().Before(end); {
		if err = pause(ctx, time.Second); err == nil {
			node, err = g.journal.NodeOf(ctx, n.Instance)
		}
	}
	if err != nil {
		return err
	}
	ev := Event{Time: time.Now(), Kind: "notice", Node: node, Instance: n.Instance}
	next := *n
	switch {
	case node == "":
		next.Stage = Foreign
		ev.Text = fmt.Sprintf("%s for an instance that serves no node: nothing to do", n.Kind)
	case n.Kind != cloud.SpotInterruption:
		next.Stage = Foreign
		ev.Text = fmt.Sprintf("%s (%s): noted", n.Kind, n.Source)
	default:
		next.Stage, next.Node = Draining, node
		ev.Text = fmt.Sprintf("%s (%s): the instance goes at %s", n.Kind, n.Source, g.deadline(n).Format(time.TimeOnly))
	}
	if err := g.journal.CommitFT(ctx, Change{Notices: []Notice{next}, Events: []Event{ev}}); err != nil {
		return err
	}
	*n = next
	g.log.Info(ev.Text, "event", ev.Kind, "node", node, "instance", n.Instance)
	if node == "" {
		g.mu.Lock()
		g.heard++
		g.mu.Unlock()
	}
	return nil
}

// drain closes the node to new jobs, has it powered down when the last one
// has left, and returns the jobs on it. There are none for a notice whose
// instance is no longer the one behind its node: it must not hit the next one.
func (g *Guard) drain(ctx context.Context, n *Notice) (jobs []slurm.Job, err error) {
	err = g.command(ctx, g.deadline(n), func() error {
		node, err := g.journal.NodeOf(ctx, n.Instance)
		if err != nil {
			return err
		}
		if node != n.Node {
			return errNotCurrent
		}
		return g.update(ctx, n, "power_down_asap")
	})
	var refused *slurm.PartialError
	switch {
	case errors.Is(err, errNotCurrent):
		return nil, nil
	case err != nil && !errors.As(err, &refused):
		return nil, fmt.Errorf("draining %s: %w", n.Node, err)
	}
	snap, err := g.slurm.Fresh(ctx, time.Now())
	if err != nil {
		return nil, err
	}
	if refused != nil {
		// Its jobs must go all the same.
		g.log.Warn("Slurm does not power the node down", "node", n.Node, "error", refused)
		// A node that is going down would keep the drain for its next instance.
		if s := snap.Nodes[n.Node].State; s.Base != "" && !s.Has(slurm.PoweringDown) && !s.Has(slurm.PoweredDown) {
			if err := g.command(ctx, g.deadline(n), func() error { return g.update(ctx, n, "drain") }); err != nil {
				g.log.Warn("the node stays open to new jobs", "node", n.Node, "error", err)
			}
		}
	}
	return g.on(snap, n.Node), nil
}

var errNotCurrent = errors.New("the instance is no longer the node's")

func (g *Guard) update(ctx context.Context, n *Notice, state string) error {
	why := fmt.Sprintf("burst: %s, instance %s goes at %s", n.Kind, n.Instance, g.deadline(n).Format(time.TimeOnly))
	return g.slurm.UpdateNodes(ctx, slurm.NodeUpdate{Nodes: []string{n.Node}, State: state, Reason: why})
}

// on lists the jobs that hold the node. For a part of a heterogeneous job it
// has the leader: that one has the script, and is what Slurm lets one signal
// and requeue.
func (g *Guard) on(snap *slurm.Snapshot, node string) []slurm.Job {
	var jobs []slurm.Job
	for _, j := range snap.Jobs {
		if !running(j) || j.Nodes == "" {
			continue
		}
		nodes, err := hostlist.Expand(j.Nodes)
		if err != nil {
			g.log.Warn("a job's nodes cannot be read", "job", j.ID, "error", err)
			continue
		}
		if !slices.Contains(nodes, node) {
			continue
		}
		if leader, ok := snap.Jobs[j.HetID]; ok && j.HetID != 0 {
			j = leader
		}
		if !slices.ContainsFunc(jobs, func(other slurm.Job) bool { return other.ID == j.ID }) {
			jobs = append(jobs, j)
		}
	}
	slices.SortFunc(jobs, func(a, b slurm.Job) int { return cmp.Compare(a.ID, b.ID) })
	return jobs
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
