package ft

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/burst-hpc/burst/slurm"
	"github.com/burst-hpc/burst/slurm/directive"
)

const (
	// rest is how often a node is looked at whose maintenance is hours or days off.
	rest = 10 * time.Second
	// spareTime is kept before a maintenance beside its jobs' grace: for their
	// requeue one by one, for Slurm to have saved it, and for the instance's end.
	spareTime = 40 * time.Second
	// mostNeed bounds what steps' checkpoints have their node left earlier for: it is
	// their users' word, and other users' jobs may be there.
	mostNeed = 4 * time.Hour
)

// upkeep is one maintenance while it is waited for.
type upkeep struct {
	n        *Notice
	closed   bool      // the node is drained, by us or before
	reserved time.Time // the reservation's start; zero: none was made in this life
	graces   map[attemptKey]time.Duration
	needs    map[attemptKey]time.Duration // of those whose steps will be asked to checkpoint
}

// maintain sees a node through planned work on its instance. At the end the
// node has another instance, or the work was cancelled and all is as before.
//
//	drain:   drained at once ─────────────┐ no job is left ──────────────► power_down_asap
//	reserve: reserved from the deadline on ┴ the deadline is near: moved ─┘
func (g *Guard) maintain(ctx context.Context, n *Notice, own *[]*Eviction) error {
	u := &upkeep{n: n, graces: map[attemptKey]time.Duration{}, needs: map[attemptKey]time.Duration{}}
	for first := true; ; first = false {
		now := g.now(n)
		n.Notice = now.Notice
		node, err := g.journal.NodeOf(ctx, n.Instance)
		if err != nil {
			return err
		}
		if node != n.Node {
			return g.leaveOff(ctx, n, own)
		}
		since := time.Now()
		if !first {
			since = since.Add(-rest) // any reading of the last moments will do
		}
		snap, err := g.slurm.Fresh(ctx, since)
		if err != nil {
			return err
		}
		if now.Cancelled || g.rule(n) == Ignore { // the latter since burstd has been started anew
			return g.undo(ctx, n, own)
		}
		done, err := g.keep(ctx, u, own, snap)
		if err != nil {
			return err
		}
		if done {
			return g.unreserve(ctx, n)
		}
		if err := await(ctx, now, g.near(u, g.on(snap, n.Node))); err != nil {
			return err
		}
	}
}

// await waits for news of the notice, for its time to act, or for the next look.
func await(ctx context.Context, now live, near time.Time) error {
	wait := time.Until(time.Now().Truncate(rest).Add(rest))
	if until := time.Until(near); !near.IsZero() && until > 0 {
		wait = min(wait, until)
	}
	t := time.NewTimer(wait)
	defer t.Stop()
	select {
	case <-t.C:
	case <-now.news:
	case <-ctx.Done():
	}
	return ctx.Err()
}

// near is when the jobs have to begin to leave; zero: never.
func (g *Guard) near(u *upkeep, jobs []slurm.Job) time.Time {
	if u.n.Deadline.IsZero() {
		return time.Time{}
	}
	lead := g.cfg.Grace
	for _, j := range jobs {
		key := attemptKey{j.ID, j.Restarts}
		lead = max(lead, u.graces[key], u.needs[key])
	}
	return u.n.Deadline.Add(-lead - g.cfg.Margin - spareTime)
}

// keep does what is due now; done says that the node goes down.
func (g *Guard) keep(ctx context.Context, u *upkeep, own *[]*Eviction, snap *slurm.Snapshot) (done bool, err error) {
	n := u.n
	jobs := g.on(snap, n.Node)
	if err := g.learn(ctx, u, jobs); err != nil {
		return false, err
	}
	at := g.near(u, jobs)
	near := !at.IsZero() && !time.Now().Before(at) || slices.ContainsFunc(*own, func(e *Eviction) bool {
		return e.Stage != Done // begun before a restart: its steps may have stopped, and need no time any more
	})
	if g.rule(n) == Reserve && !near && !n.Deadline.IsZero() {
		if u.reserved.Equal(n.Deadline) {
			return false, nil
		}
		if err := g.reserve(ctx, n); err != nil {
			return false, err
		}
		u.reserved = n.Deadline
		return false, nil
	}
	state := snap.Nodes[n.Node].State
	if !u.closed && !state.Has(slurm.Drain) { // an admin's drain stays, with its reason
		t, err := g.set(ctx, n, "drain")
		if err != nil || t.stale {
			return false, err
		}
		if t.refused != "" {
			g.log.Warn("the node stays open to new jobs", "node", n.Node, "error", t.refused)
		}
		snap, jobs = t.snap, g.on(t.snap, n.Node)
		state = snap.Nodes[n.Node].State
	}
	u.closed = true // an admin who opens it again has the last word
	if near {
		if err := g.moveAll(ctx, n, own, jobs); err != nil {
			return false, err
		}
	} else if len(jobs) > 0 || byAdmin(snap.Nodes[n.Node]) || state.Base != "IDLE" || state.Has(slurm.Completing) || !state.Has(slurm.Drain) {
		return false, nil
	}
	t, err := g.set(ctx, n, "power_down_asap")
	if err == nil && t.refused != "" {
		err = errors.New(t.refused)
	}
	return err == nil, err
}

// learn asks what time the node's jobs want to leave, on the day of the work: once
// what grace, and each time what their steps say, which may begin later.
func (g *Guard) learn(ctx context.Context, u *upkeep, jobs []slurm.Job) error {
	if u.n.Deadline.IsZero() || time.Until(u.n.Deadline) > 24*time.Hour {
		return nil
	}
	for _, j := range jobs {
		key := attemptKey{j.ID, j.Restarts}
		need, err := g.need(ctx, j)
		if err != nil {
			return err
		}
		u.needs[key] = need
		if _, known := u.graces[key]; known {
			continue
		}
		d, err := g.directive(ctx, u.n, j)
		if wrong := new(directive.Error); err != nil && !errors.As(err, &wrong) {
			return err
		}
		u.graces[key] = d.Grace
	}
	return nil
}

// need is what the job's steps want for the checkpoint that they will be asked for; 0:
// they have no session, or will be asked for none, or need longer than may be.
func (g *Guard) need(ctx context.Context, j slurm.Job) (time.Duration, error) {
	if g.cfg.Sessions == nil {
		return 0, nil
	}
	p, ok, err := g.cfg.Sessions.Protection(ctx, j.ID, j.Restarts)
	if err != nil || !ok || movable(j) && !p.OnNotice || p.Cost > mostNeed {
		return 0, err
	}
	return min(p.Need, mostNeed), nil
}

func reservation(n *Notice) string { return "burst-" + n.Instance }

// reserve keeps jobs off the node that would not end before the work.
func (g *Guard) reserve(ctx context.Context, n *Notice) error {
	return g.command(ctx, n.Deadline, func() error {
		return g.slurm.Reserve(ctx, slurm.Reservation{Name: reservation(n), Nodes: []string{n.Node}, Start: n.Deadline})
	})
}

func (g *Guard) unreserve(ctx context.Context, n *Notice) error {
	return g.command(ctx, time.Time{}, func() error { return g.slurm.Unreserve(ctx, reservation(n)) })
}

// leaveOff ends what was begun for a maintenance. Jobs that had begun to leave do so.
func (g *Guard) leaveOff(ctx context.Context, n *Notice, own *[]*Eviction) error {
	if err := g.moveAll(ctx, n, own, nil); err != nil {
		return err
	}
	return g.unreserve(ctx, n)
}

// undo makes all as it was before a maintenance that will not be, or is nothing to its pool.
func (g *Guard) undo(ctx context.Context, n *Notice, own *[]*Eviction) error {
	if err := g.leaveOff(ctx, n, own); err != nil {
		return err
	}
	snap, err := g.slurm.Fresh(ctx, time.Now())
	if err != nil {
		return err
	}
	why := "cancelled"
	if !n.Cancelled {
		why = "ignored by its pool now"
	}
	text := why + ": the node was not drained for it"
	node := snap.Nodes[n.Node]
	// What powers down already cannot be called back.
	if node.State.Has(slurm.Drain) && !node.State.Has("POWER_DOWN") && strings.HasPrefix(node.Reason, ours(n.Kind)) {
		if _, err := g.set(ctx, n, "resume"); err != nil {
			return err
		}
		text = why + ": the node takes jobs again"
	}
	return g.journal.CommitFT(ctx, Change{Events: []Event{{Time: time.Now(), Kind: "notice", Node: n.Node, Instance: n.Instance,
		Text: fmt.Sprintf("%s (%s): %s", what(n.Notice), n.Source, text)}}})
}
