package power

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/burst-hpc/burst/slurm"
)

// freeNodes gives nodes back to Slurm: power_down_force, which requeues what
// runs there, repeated until Slurm shows them off or powering down. A node
// whose instance is gone while Slurm has it up, or waits for its answer, is set
// DOWN first: otherwise its job stays COMPLETING for minutes.
func (e *Engine) freeNodes(ctx context.Context) (time.Duration, error) {
	nodes := e.mem.inPhase(Freeing)
	if len(nodes) == 0 {
		clear(e.freed)
		return 0, nil
	}
	const look = 500 * time.Millisecond
	snap, err := e.slurm.Fresh(ctx, time.Now().Add(-look/2))
	if err != nil {
		return 0, err
	}
	var c Change
	force, first := map[string][]string{}, map[string][]string{} // reason -> nodes
	for _, n := range nodes {
		p := powerOf(snap, n.Name)
		switch {
		case !n.Since.Before(snap.Taken) && p != poweringUp, time.Since(e.freed[n.Name]) < 5*time.Second && p != off && p != poweringDown:
			continue
		case p == off, p == poweringDown:
			c.DropNodes = append(c.DropNodes, n.Name)
			delete(e.freed, n.Name)
			continue
		case p == unknown:
			continue
		case p == on, p == down:
			first[n.Reason] = append(first[n.Reason], n.Name)
		}
		force[n.Reason] = append(force[n.Reason], n.Name)
	}
	if err := e.keepJobs(ctx, snap, nodes); err != nil {
		return 0, err
	}
	err = errors.Join(e.setNodes(ctx, "down", first), e.setNodes(ctx, "power_down_force", force))
	if err == nil {
		for _, names := range force {
			for _, n := range names {
				e.freed[n] = time.Now()
			}
		}
	}
	return look, errors.Join(err, e.commit(ctx, c))
}

// keepJobs lets Slurm requeue the jobs that wait for the nodes: with
// --no-requeue, power_down_force would end them as NODE_FAIL although they have
// never run. A job that has no batch script cannot be kept.
func (e *Engine) keepJobs(ctx context.Context, snap *slurm.Snapshot, nodes []Node) error {
	var c Change
	for _, n := range nodes {
		h, held := e.mem.holds[n.Job]
		j := snap.Jobs[n.Job]
		if held && !h.Released && j.State == "CONFIGURING" && j.Batch && !j.Requeue && !h.NoRequeue {
			h.NoRequeue = true
			c.Holds = append(c.Holds, h)
		}
	}
	if err := e.commit(ctx, c); err != nil {
		return err
	}
	yes := true
	for _, id := range slices.Sorted(maps.Keys(e.mem.holds)) {
		h := e.mem.holds[id]
		if j := snap.Jobs[id]; !h.NoRequeue || h.Released || j.Requeue || j.State != "CONFIGURING" {
			continue
		}
		if err := e.slurm.UpdateJob(ctx, id, slurm.JobUpdate{Requeue: &yes}); err != nil && !errors.Is(err, slurm.ErrNoJob) {
			return fmt.Errorf("keeping job %d, which has --no-requeue and has not begun: %w", id, err)
		}
	}
	return nil
}

func (e *Engine) setNodes(ctx context.Context, state string, by map[string][]string) error {
	for _, why := range slices.Sorted(maps.Keys(by)) {
		if err := e.slurm.UpdateNodes(ctx, slurm.NodeUpdate{Nodes: by[why], State: state, Reason: "burst: " + why}); err != nil {
			return fmt.Errorf("setting %d nodes %s: %w", len(by[why]), state, err)
		}
	}
	return nil
}

// tellJobs writes into each held job why it waits, and sets when it may start
// again, once Slurm has requeued it.
func (e *Engine) tellJobs(ctx context.Context) (time.Duration, error) {
	var due time.Duration
	for _, id := range slices.Sorted(maps.Keys(e.mem.holds)) {
		h := e.mem.holds[id]
		if h.Released || e.releasing[id] {
			continue
		}
		what := fmt.Sprint("hold of ", id)
		if wait := e.until(what); wait > 0 {
			due = sooner(due, wait)
			continue
		}
		if e.freeing(id) {
			due = sooner(due, 500*time.Millisecond)
			continue
		}
		e.releasing[id] = true
		e.beside(ctx, func(ctx context.Context) func(context.Context) {
			err := e.tell(ctx, h)
			return func(ctx context.Context) {
				delete(e.releasing, id)
				e.told(ctx, h, err, what)
			}
		})
	}
	return due, nil
}

// freeing says that a node of the job is still to be given back.
func (e *Engine) freeing(job uint32) bool {
	return slices.ContainsFunc(e.mem.inPhase(Freeing), func(n Node) bool { return n.Job == job })
}

const releaseTimeout = 2 * time.Minute

// tell waits until the job is pending again, and sets its comment and start.
func (e *Engine) tell(ctx context.Context, h Hold) error {
	ctx, cancel := context.WithTimeout(ctx, releaseTimeout)
	defer cancel()
	why := fmt.Sprintf("burst: requeued: %s; starts again from %s on", h.Why, h.Start.Format(time.DateTime))
	if err := e.slurm.UpdateJob(ctx, h.Job, slurm.JobUpdate{AdminComment: &why}); err != nil {
		return err
	}
	for {
		snap, err := e.slurm.Fresh(ctx, time.Now())
		if err != nil {
			return err
		}
		j, ok := snap.Jobs[h.Job]
		if !ok {
			return slurm.ErrNoJob
		}
		switch j.State {
		case "PENDING":
			if h.NoRequeue {
				no := false
				if err := e.slurm.UpdateJob(ctx, h.Job, slurm.JobUpdate{Requeue: &no}); err != nil {
					return err
				}
			}
			return e.slurm.Release(ctx, h.Job, j.Restarts, h.Start)
		case "CONFIGURING", "COMPLETING":
		default:
			return slurm.ErrNotPending
		}
		if err := pause(ctx, 250*time.Millisecond); err != nil {
			return err
		}
	}
}

// told notes how telling a job went. A job that is gone, or that runs, needs it no more.
func (e *Engine) told(ctx context.Context, h Hold, err error, what string) {
	if e.mem.holds[h.Job] != h {
		return // changed or dropped meanwhile: the next step looks at what it is now
	}
	c := Change{}
	switch {
	case err == nil:
		h.Released = true
		c.Holds = append(c.Holds, h)
		c.Events = append(c.Events, Event{Time: time.Now(), Kind: "job-waits", Job: h.Job,
			Text: fmt.Sprintf("%s; it starts again from %s on", h.Why, h.Start.Format(time.TimeOnly))})
	case errors.Is(err, slurm.ErrNoJob), errors.Is(err, slurm.ErrNotPending):
		c.DropHolds = append(c.DropHolds, h.Job)
	}
	if err != nil && c.Empty() || e.commit(ctx, c) != nil {
		wait := e.failed(what)
		e.log.Warn("a job could not be told why it waits; it will be tried again", "job", h.Job, "in", wait.Round(time.Millisecond), "error", err)
		return
	}
	delete(e.backoff, what)
}
