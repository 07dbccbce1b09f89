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
	"github.com/burst-hpc/burst/slurm/hostlist"
)

// on lists the jobs that hold the node.
func on(snap *slurm.Snapshot, node string) ([]slurm.Job, error) {
	var jobs []slurm.Job
	for _, j := range snap.Jobs {
		if !holdsNodes(j) {
			continue
		}
		nodes, err := hostlist.Expand(j.Nodes)
		if err != nil {
			return nil, fmt.Errorf("nodes of job %d: %w", j.ID, err)
		}
		if slices.Contains(nodes, node) {
			jobs = append(jobs, j)
		}
	}
	slices.SortFunc(jobs, func(a, b slurm.Job) int { return int(a.ID) - int(b.ID) })
	return jobs, nil
}

func holdsNodes(j slurm.Job) bool {
	return j.Nodes != "" && slices.Contains([]string{"RUNNING", "CONFIGURING", "SUSPENDED", "STOPPED"}, j.State)
}

func planned(evictions []Eviction, j slurm.Job) bool {
	return slices.ContainsFunc(evictions, func(e Eviction) bool { return e.Job == j.ID })
}

// plan decides how a job is taken off the node.
func (g *Guard) plan(ctx context.Context, n *Notice, j slurm.Job) Eviction {
	e := Eviction{Instance: n.Instance, Kind: n.Kind, Job: j.ID, Restarts: j.Restarts, Node: n.Node, Stage: Planned,
		Began: time.Now(), Signal: g.cfg.Signal, Grace: g.cfg.Grace}
	if j.State == "CONFIGURING" {
		e.Signal = "" // its script has not begun: nothing to save
		return e
	}
	d, err := g.directive(ctx, j)
	switch {
	case err != nil:
		g.log.Warn("the job's directive cannot be read: the site's default holds", "job", j.ID, "error", err)
		g.comment(ctx, &e, fmt.Sprintf("the directive cannot be read, the site's default holds: %v", err))
	case d.Signal != "":
		e.Signal, e.Grace = d.Signal, d.Grace
		if d.Batch {
			e.Signal = "B:" + d.Signal
		}
	}
	return e
}

func (g *Guard) directive(ctx context.Context, j slurm.Job) (directive.Directive, error) {
	if !j.Batch {
		return directive.ParseComment(j.Comment)
	}
	script, err := g.slurm.BatchScript(ctx, j.ID)
	if err != nil {
		return directive.Directive{}, err
	}
	d, err := directive.Parse(script)
	if err == nil && d.Signal == "" {
		return directive.ParseComment(j.Comment)
	}
	return d, err
}

func describe(e Eviction, j slurm.Job) string {
	switch {
	case e.Signal == "":
		return fmt.Sprintf("job %d (%s): requeued at once, it names no signal", j.ID, j.Name)
	case !movable(j):
		return fmt.Sprintf("job %d (%s): signal %s; it cannot be requeued", j.ID, j.Name, e.Signal)
	}
	return fmt.Sprintf("job %d (%s): signal %s, up to %s to checkpoint, then requeued", j.ID, j.Name, e.Signal, e.Grace)
}

// movable says whether Slurm can requeue the job: a batch job that allows it.
func movable(j slurm.Job) bool { return j.Batch && j.Requeue }

// move takes one job from where its eviction is to its end.
//
//	planned -> signalled -> requeued -> done
//
// Every read of the job is compared with e.Restarts: an attempt that is not
// the evicted one is left alone.
func (g *Guard) move(ctx context.Context, n *Notice, e *Eviction) error {
	if e.Stage == Planned {
		if err := g.signal(ctx, n, e); err != nil {
			return err
		}
	}
	if e.Stage == Signalled {
		if err := g.awaitEnd(ctx, n, e); err != nil {
			return err
		}
		if err := g.requeue(ctx, n, e); err != nil {
			return err
		}
	}
	if e.Stage == Requeued {
		return g.release(ctx, e)
	}
	return nil
}

// signal sends the job its signal. It is sent before the stage is written:
// after a crash between the two it is sent twice, and never not at all.
func (g *Guard) signal(ctx context.Context, n *Notice, e *Eviction) error {
	j, ended, err := g.attempt(ctx, e)
	if err != nil {
		return err
	}
	if ended != "" {
		return g.close(ctx, e, ended)
	}
	if !movable(j) {
		g.comment(ctx, e, fmt.Sprintf("node %s is taken back by the cloud at %s; this job cannot be requeued and ends then", n.Node, n.Deadline.Format(time.TimeOnly)))
	}
	if e.Signal != "" {
		name, batch := strings.CutPrefix(e.Signal, "B:")
		if err := g.slurm.Signal(ctx, e.Job, slurm.Signal{Name: name, Batch: batch}); err != nil {
			// Its steps may have ended this moment: what became of it is read next.
			g.log.Warn("the job did not get its signal", "job", e.Job, "signal", e.Signal, "error", err)
		}
	}
	if !movable(j) {
		return g.close(ctx, e, "left to run to the end of the lead time: it cannot be requeued")
	}
	e.Stage, e.SignalledAt = Signalled, time.Now()
	return g.journal.CommitFT(ctx, Change{Evictions: []Eviction{*e}})
}

// attempt reads the job. ended says why there is nothing to do for it: it is
// gone, or it runs a later attempt that this notice does not mean.
func (g *Guard) attempt(ctx context.Context, e *Eviction) (j slurm.Job, ended string, err error) {
	snap, err := g.slurm.Fresh(ctx, time.Now())
	if err != nil {
		return j, "", err
	}
	j, ok := snap.Jobs[e.Job]
	switch {
	case !ok:
		return j, "the job is gone", nil
	case j.Restarts != e.Restarts && !requeuedOnce(j, e):
		return j, "it has been restarted since", nil
	}
	return j, "", nil
}

// requeuedOnce says that the job's next attempt waits in the queue: the
// requeue has been done, by us before a crash or by Slurm, and its hold is ours to clear.
func requeuedOnce(j slurm.Job, e *Eviction) bool {
	return j.Restarts == e.Restarts+1 && (j.State == "PENDING" || j.State == "COMPLETING")
}

// awaitEnd waits until the job has ended by itself, its grace is over, or the
// deadline is near.
func (g *Guard) awaitEnd(ctx context.Context, n *Notice, e *Eviction) error {
	if e.Signal == "" {
		return nil
	}
	end := e.SignalledAt.Add(e.Grace)
	for time.Now().Before(end) {
		if at := g.deadline(n); !at.IsZero() && at.Add(-g.cfg.Margin).Before(end) {
			end = at.Add(-g.cfg.Margin)
			continue
		}
		j, ended, err := g.attempt(ctx, e)
		if err != nil || ended != "" || requeuedOnce(j, e) || !holdsNodes(j) && j.State != "COMPLETING" {
			return err
		}
		if err := pause(ctx, min(time.Until(end), 200*time.Millisecond)); err != nil {
			return err
		}
	}
	return nil
}

// requeue puts the job back into the queue, unless it has finished its work
// (exit code 0), or its user or its time limit has ended it.
func (g *Guard) requeue(ctx context.Context, n *Notice, e *Eviction) error {
	j, ended, err := g.attempt(ctx, e)
	if err != nil {
		return err
	}
	if ended != "" {
		return g.close(ctx, e, ended)
	}
	switch {
	case requeuedOnce(j, e):
	case j.State == "COMPLETED":
		return g.close(ctx, e, "it finished in the grace time")
	case j.State == "COMPLETING": // with which exit code is not certain yet
		return fmt.Errorf("job %d is still completing", e.Job)
	case strings.HasPrefix(j.State, "CANCELLED"), j.State == "TIMEOUT", j.State == "DEADLINE":
		return g.close(ctx, e, "it ended meanwhile: "+j.State)
	default:
		if err := g.slurm.Requeue(ctx, e.Job); err != nil {
			if j, ended, rerr := g.attempt(ctx, e); rerr != nil || ended == "" && !requeuedOnce(j, e) {
				return fmt.Errorf("requeuing job %d: %w", e.Job, errors.Join(err, rerr))
			}
		}
	}
	e.Stage = Requeued
	return g.journal.CommitFT(ctx, Change{Evictions: []Eviction{*e}, Events: []Event{{
		Time: time.Now(), Kind: "requeue", Node: n.Node, Instance: n.Instance, Job: e.Job, Text: fmt.Sprintf("requeued, %s after the notice", time.Since(n.Received).Round(10*time.Millisecond)),
	}}})
}

// release clears the hold that Slurm puts on a requeued job.
func (g *Guard) release(ctx context.Context, e *Eviction) error {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Minute)
	defer cancel()
	err := g.slurm.Release(ctx, e.Job, e.Restarts+1, time.Time{})
	switch {
	case err == nil, errors.Is(err, slurm.ErrNotPending):
	case errors.Is(err, slurm.ErrNoJob):
		return g.close(ctx, e, "the job is gone")
	default:
		return fmt.Errorf("clearing the hold of job %d: %w", e.Job, err)
	}
	g.comment(ctx, e, fmt.Sprintf("node %s was taken back by the cloud; requeued %s", e.Node, time.Now().Format(time.DateTime)))
	return g.close(ctx, e, "requeued")
}

// comment tells the job's user. It is a courtesy: no error stops an eviction.
func (g *Guard) comment(ctx context.Context, e *Eviction, text string) {
	text = "burst: " + text
	if err := g.slurm.UpdateJob(ctx, e.Job, slurm.JobUpdate{AdminComment: &text}); err != nil {
		g.log.Warn("the job's comment could not be set", "job", e.Job, "error", err)
	}
}

func (g *Guard) close(ctx context.Context, e *Eviction, outcome string) error {
	e.Stage, e.Outcome, e.Ended = Done, outcome, time.Now()
	return g.journal.CommitFT(ctx, Change{Evictions: []Eviction{*e}, Events: []Event{{
		Time: e.Ended, Kind: "evicted", Node: e.Node, Instance: e.Instance, Job: e.Job, Text: outcome,
	}}})
}
