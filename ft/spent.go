package ft

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/ft/session"
	"github.com/burst-hpc/burst/slurm"
	"github.com/burst-hpc/burst/slurm/directive"
)

// Spent is the kind of the notices that the site itself gives: what may be spent is. Of
// the instance's jobs those are checkpointed and requeued that the Purse names and that
// lose nothing by it; the instance is not taken from the others.
const Spent cloud.NoticeKind = "budget"

// Purse says whom a notice of kind Spent means.
type Purse interface {
	// Goes says that the job is to go; it must not block.
	Goes(j slurm.Job) bool
	// PutOff has a job wait that was requeued for it, durably, until there may be something to
	// spend. It is false for one that may start now.
	PutOff(ctx context.Context, job uint32) (bool, error)
}

// mild says that a notice of the kind takes no instance away: a job that cannot
// checkpoint stays where it is.
func mild(kind cloud.NoticeKind) bool { return kind == cloud.Rebalance || kind == Spent }

// spent moves the jobs that go for the site's own notice, and has their node follow them if it
// has no others. One that the Purse does not know of yet, after a restart, gets another notice.
func (g *Guard) spent(ctx context.Context, n *Notice, own *[]*Eviction) error {
	snap, err := g.slurm.Fresh(ctx, time.Now())
	if err != nil {
		return err
	}
	node, err := g.journal.NodeOf(ctx, n.Instance)
	if err != nil {
		return err
	}
	if node != n.Node || g.cfg.Spent == nil {
		return g.moveAll(ctx, n, own, nil) // those that have begun to leave do so
	}
	var jobs []slurm.Job
	all := g.on(snap, n.Node)
	for _, j := range all {
		if g.cfg.Spent.Goes(j) {
			jobs = append(jobs, j)
		}
	}
	if len(jobs) > 0 && len(jobs) == len(all) && !byAdmin(snap.Nodes[n.Node]) {
		// A node that does not take this goes when it has been idle: drained, it would stay.
		t, err := g.set(ctx, n, "power_down_asap")
		if err != nil {
			return err
		}
		if t.refused != "" {
			g.log.Warn("the node stays open to other jobs", "node", n.Node, "error", t.refused)
		}
	}
	return g.moveAll(ctx, n, own, jobs)
}

// Loses says why the job would lose work if it were asked to leave the node for a notice of
// kind Spent; "": it has not begun, its steps can checkpoint, or its user has named a signal for that.
func (g *Guard) Loses(ctx context.Context, node string, j slurm.Job) (string, error) {
	n := &Notice{Notice: cloud.Notice{Kind: Spent}, Node: node}
	switch {
	case !movable(j):
		return "Slurm may not requeue it", nil
	case j.State == "CONFIGURING":
		return "", nil
	}
	kind, _, err := g.way(ctx, n, j)
	if err != nil || kind == session.Stop {
		return "", err
	}
	if g.cfg.Sessions != nil {
		if _, open, err := g.cfg.Sessions.Protection(ctx, j.ID, j.Restarts); err != nil || open {
			return fmt.Sprintf("not each of its steps is known to checkpoint within %s", noDeadline), err
		}
	}
	d, err := g.directive(ctx, n, j)
	if wrong := new(directive.Error); err != nil && !errors.As(err, &wrong) {
		return "", err
	}
	own := []directive.Kind{directive.Script, directive.Comment, directive.Option}
	if err != nil || d.Value("signal") == "" || !slices.Contains(own, d.From["signal"].Kind) && (d.Method != directive.BySignal || !slices.Contains(own, d.From["ckpt"].Kind)) {
		return "it has no checkpoint method", nil
	}
	return "", nil
}

// spentLate is for how long after its time to checkpoint a job may be requeued for a notice of kind Spent.
const spentLate = 2 * time.Minute

// stale says that the job, which nobody takes the node from, has computed on since it was to have
// checkpointed, as burstd or slurmctld was away: requeued now it would lose that, and there may be something to spend again.
func stale(e *Eviction, s *sight) bool {
	if e.Kind != Spent || s.requeued || !running(s.Job) || s.State == "CONFIGURING" {
		return false
	}
	until := e.SignalledAt
	if until.IsZero() {
		until = e.Began
	}
	if until = until.Add(e.Grace); e.Ask != "" {
		until = e.By.Add(session.WaitTime)
	}
	return time.Now().After(until.Add(spentLate))
}

// leaveStale leaves such a job where it is: the next look at the caps asks anew.
func (g *Guard) leaveStale(ctx context.Context, e *Eviction) error {
	a, release, err := g.hold(ctx, e)
	if err != nil {
		return err
	}
	defer release()
	if e.Ask != "" && !a.urgent && (a.request == nil || a.request.rebalance) { // else another notice has asked it
		if err := g.unask(ctx, e); err != nil {
			return err
		}
	}
	return g.close(ctx, e, "left where it is: it has gone on since")
}

// putOff closes the eviction of a job that was requeued for a notice of kind Spent, and waits
// by the Purse's word; false: it has none, and is let go as any.
func (g *Guard) putOff(ctx context.Context, e *Eviction, a *attempt, s *sight) (bool, error) {
	if e.Kind != Spent || e.Hold || g.cfg.Spent == nil || s.over != "" {
		return false, nil
	}
	waits, err := g.cfg.Spent.PutOff(ctx, e.Job)
	if err != nil || !waits {
		return waits, err
	}
	a.released = true
	return true, g.moved(ctx, e, " and waits for the budget")
}

// why is what the job's steps are told.
func (e *Eviction) why() string {
	if e.Kind == Spent {
		return "the budget is spent"
	}
	return fmt.Sprintf("node %s is taken back by the cloud", e.Node)
}

// became is what the job's user is told of its node.
func (e *Eviction) became() string {
	if e.Kind == Spent {
		return "the budget was spent"
	}
	return fmt.Sprintf("node %s was taken back by the cloud", e.Node)
}
