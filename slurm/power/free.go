package power

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/burst-hpc/burst/slurm"
	"github.com/burst-hpc/burst/slurm/hostlist"
)

// freeNodes gives nodes back to Slurm: power_down_force, which requeues what
// runs there, repeated until Slurm shows them off or powering down. A node
// whose instance is gone while Slurm has it up, or waits for its answer, is set
// DOWN first: otherwise its job stays COMPLETING for minutes.
func (e *Engine) freeNodes(ctx context.Context) (time.Duration, error) {
	nodes := e.mem.inPhase(Freeing)
	maps.DeleteFunc(e.died, func(name string, _ bool) bool { return e.mem.nodes[name].Phase != Freeing })
	if len(nodes) == 0 {
		clear(e.freed)
		return 0, nil
	}
	const look, rarely = 500 * time.Millisecond, 5 * time.Second
	since, refused := time.Now(), slices.ContainsFunc(nodes, Node.refused)
	if !refused {
		since = since.Add(-look / 2)
	}
	snap, err := e.slurm.Fresh(ctx, since)
	if err != nil {
		return 0, err
	}
	var c Change
	var wait map[string][]slurm.Job // for the nodes that were refused
	if refused {
		wait = configuring(snap.Jobs)
	}
	due := rarely // for what Slurm does not show
	var dead, force []Node
	for _, n := range nodes {
		p := powerOf(snap, n.Name)
		if p != unknown {
			due = look
		}
		switch {
		case p == poweringUp && n.refused() && !e.died[n.Name] && e.keepFor(&c, n, wait[n.Name]):
			continue
		case !n.Since.Before(snap.Taken) && p != poweringUp, time.Since(e.freed[n.Name]) < 5*time.Second && p != off && p != poweringDown:
			continue
		case p == off, p == poweringDown:
			c.DropNodes = append(c.DropNodes, n.Name)
			delete(e.freed, n.Name)
			continue
		case p == unknown, p == on && !e.died[n.Name] && !e.adopted(n):
			continue // an instance that the journal does not know may serve it by now
		case p == on && !leaves(snap.Nodes[n.Name]), p == down && !leaves(snap.Nodes[n.Name]):
			dead = append(dead, n)
		}
		force = append(force, n)
	}
	if err := e.commit(ctx, c); err != nil || len(force) == 0 {
		return due, err
	}
	unkept, err := e.keepJobs(ctx, snap, force)
	keep := func(n Node) bool { return unkept[n.Name] }
	return due, errors.Join(err, e.setNodes(ctx, "down", slices.DeleteFunc(dead, keep), nil),
		e.setNodes(ctx, "power_down_force", slices.DeleteFunc(force, keep), nameless(snap)))
}

// leaves says that Slurm powers the node down this second, as a burstd that died meanwhile has asked it to: set
// DOWN while that begins, it would be powered down and stay DOWN.
func leaves(n slurm.Node) bool {
	return n.State.Base == "IDLE" && n.State.Has(slurm.PowerDown) && !n.State.Has(slurm.Completing)
}

// adopted says that what runs behind the node would be known by now.
func (e *Engine) adopted(n Node) bool {
	return !slices.ContainsFunc(e.pools[n.Pool].Sources(), func(s Pool) bool {
		return !e.heard[s.Provider] && e.providers[s.Provider] != nil
	})
}

// keepJobs sees to the jobs that lose the nodes. Those of which nothing is
// known yet are held too, so that they are told and released. Slurm is let
// requeue those that have not begun: with --no-requeue, power_down_force would
// end them as NODE_FAIL although they have never run. A job that has no batch
// script cannot be kept. It returns the nodes of those for which that
// did not succeed.
func (e *Engine) keepJobs(ctx context.Context, snap *slurm.Snapshot, nodes []Node) (map[string]bool, error) {
	var c Change
	now := time.Now()
	on := jobsOn(snap, nodes)
	for _, n := range nodes {
		for _, j := range on[n.Name] {
			h, held := e.mem.holds[j.ID]
			switch {
			case held && !h.Released:
			case ofSome(n.Reason):
				hold(&c, e.mem, j.ID, now, ofOthers)
			default:
				hold(&c, e.mem, j.ID, retryAt(h, now), fmt.Sprintf("node %s: %s", n.Name, n.Reason))
			}
			if i := slices.IndexFunc(c.Holds, func(h Hold) bool { return h.Job == j.ID }); i >= 0 {
				c.Holds[i].NoRequeue = c.Holds[i].NoRequeue || !j.Requeue
			} else if !j.Requeue && !h.NoRequeue {
				h.NoRequeue = true
				c.Holds = append(c.Holds, h)
			}
		}
	}
	if err := e.commit(ctx, c); err != nil {
		return nil, err
	}
	yes := true
	unkept := map[string]bool{}
	var errs []error
	for _, id := range slices.Sorted(maps.Keys(e.mem.holds)) {
		h := e.mem.holds[id]
		if j := snap.Jobs[id]; !h.NoRequeue || h.Released || j.Requeue || j.State != "CONFIGURING" {
			continue
		}
		if err := e.slurm.UpdateJob(ctx, id, slurm.JobUpdate{Requeue: &yes}); err != nil && !errors.Is(err, slurm.ErrNoJob) {
			for node, jobs := range on {
				unkept[node] = unkept[node] || slices.ContainsFunc(jobs, func(j slurm.Job) bool { return j.ID == id })
			}
			errs = append(errs, fmt.Errorf("keeping job %d, which has --no-requeue and has not begun: %w", id, err))
		}
	}
	return unkept, errors.Join(errs...)
}

// jobsOn lists, by node, the jobs that lose their nodes when these are forced
// down, and that Slurm requeues or can be made to.
func jobsOn(snap *slurm.Snapshot, nodes []Node) map[string][]slurm.Job {
	on := map[string][]slurm.Job{}
	for _, n := range nodes {
		on[n.Name] = nil
	}
	for _, id := range slices.Sorted(maps.Keys(snap.Jobs)) {
		j := snap.Jobs[id]
		runs := j.Requeue && (j.State == "RUNNING" || j.State == "SUSPENDED")
		if !j.Batch || !runs && j.State != "CONFIGURING" {
			continue
		}
		names, err := hostlist.Expand(j.Nodes)
		if err != nil {
			continue
		}
		for _, n := range names {
			if _, ok := on[n]; ok {
				on[n] = append(on[n], j)
			}
		}
	}
	return on
}

// maxTelling bounds the jobs that are told at once: each is some commands of Slurm's.
const maxTelling = 16

// tellJobs writes into each held job why it waits, and sets when it may start
// again, once Slurm has requeued it.
func (e *Engine) tellJobs(ctx context.Context) (time.Duration, error) {
	var due time.Duration
	// Those first that may keep a node from others: see clearNodes.
	var ids []uint32
	for id, h := range e.mem.holds {
		if !h.Released { // most are told: there may be thousands
			ids = append(ids, id)
		}
	}
	slices.SortFunc(ids, func(a, b uint32) int {
		return cmp.Or(before(e.mem.holds[a].refused(), e.mem.holds[b].refused()), cmp.Compare(a, b))
	})
	for _, id := range ids {
		h := e.mem.holds[id]
		if _, open := e.dry.open[id]; open || e.releasing[id] {
			continue // open: failOver has the word
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
		if len(e.releasing) == maxTelling {
			break // one that ends wakes us
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

// freeing says that a node of the job is still to be given back. A node of
// which the job is not known may be the job's, for as long as that takes.
func (e *Engine) freeing(job uint32) bool {
	return slices.ContainsFunc(e.mem.inPhase(Freeing), func(n Node) bool {
		return n.Job == job || n.Job == 0 && time.Since(n.Since) < time.Minute
	})
}

const releaseTimeout = 2 * time.Minute

// tell waits until the job is pending again, and sets its comment and start.
// What Slurm should have requeued by itself, and has not, it requeues.
func (e *Engine) tell(ctx context.Context, h Hold) error {
	ctx, cancel := context.WithTimeout(ctx, releaseTimeout)
	defer cancel()
	told, takenBack, requeued := false, false, -1 // the restarts of the attempt that was
	for {
		if e.replaced(h) {
			return nil // see told
		}
		snap, err := e.slurm.Fresh(ctx, time.Now())
		if err != nil {
			return err
		}
		j, ok := snap.Jobs[h.Job]
		if !ok {
			return slurm.ErrNoJob
		}
		waits, lost := j.State == "PENDING", !h.NoRequeue && lost(snap, j)
		if !waits && !lost && j.State != "CONFIGURING" && j.State != "COMPLETING" {
			return cmp.Or(e.undoKeep(ctx, h), slurm.ErrNotPending)
		}
		if waits && h.putOff() && e.placed(snap, j) {
			return cmp.Or(e.undoKeep(ctx, h), errPlaced)
		}
		goes := h.refused() && (j.Requeue || h.NoRequeue || !hasScript(snap, j)) && e.leavesClearing(j)
		goesOn := j.State == "CONFIGURING" && !hasScript(snap, j) && !goes && !e.losesNode(j) // it may begin yet
		why := heldText(h, waits || hasScript(snap, j))
		if waits && (h.putOff() || h.Why == roomAgain) && j.Restarts == 0 {
			why = waitsText + strings.TrimPrefix(why, HeldText)
		}
		takeBack := goesOn && !takenBack && strings.HasPrefix(j.AdminComment, endedText) // a burstd that died has said so
		if takeBack {
			why, takenBack = "", true
		}
		if takeBack || !told && !goesOn && (waits || j.State == "CONFIGURING") { // one that has ended takes none
			if err := e.slurm.UpdateJob(ctx, h.Job, slurm.JobUpdate{AdminComment: &why}); err != nil {
				return err
			}
			told = !goesOn
		}
		if waits {
			if err := e.undoKeep(ctx, h); err != nil {
				return err
			}
			return e.slurm.Release(ctx, h.Job, j.Restarts, h.Start)
		}
		if (lost || goes) && requeued != j.Restarts {
			again := func() error { return e.slurm.Requeue(ctx, h.Job) } // also one that has ended
			if goes {
				again = func() error { return e.turnAway(ctx, snap, h) }
			}
			if err := again(); err != nil {
				return err
			}
			requeued = j.Restarts
		}
		if err := pause(ctx, 250*time.Millisecond); err != nil {
			return err
		}
	}
}

// undoKeep takes back what keepJobs has let Slurm do.
func (e *Engine) undoKeep(ctx context.Context, h Hold) error {
	if !h.NoRequeue {
		return nil
	}
	no := false
	return e.slurm.UpdateJob(ctx, h.Job, slurm.JobUpdate{Requeue: &no})
}

// told notes how telling a job went. A job that is gone, or that runs, needs it no more.
func (e *Engine) told(ctx context.Context, h Hold, err error, what string) {
	if e.mem.holds[h.Job] != h {
		delete(e.backoff, what)
		return // changed or dropped meanwhile: the next step looks at what it is now
	}
	c := Change{}
	switch {
	case err == nil:
		h.Released = true
		c.Holds = append(c.Holds, h)
		c.Events = append(c.Events, Event{Time: time.Now(), Kind: "job-waits", Job: h.Job,
			Text: fmt.Sprintf("%s; it starts again from %s on", h.Why, h.Start.Local().Format(time.TimeOnly))})
	case errors.Is(err, errPlaced):
		h.Released = true
		c.Holds = append(c.Holds, h)
		e.notePlaced(h)
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
