package power

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/burst-hpc/burst/slurm"
	"github.com/burst-hpc/burst/slurm/hostlist"
)

// A job for which a budget has no room may share a node that is not launched yet with others, for which it has. Given
// back, the node would be lost to all of them, and one of salloc's or srun's would be over. So it stays:
//
//	wanted ──refused──► wanted, with a Reason ──those jobs have left──► wanted, judged for the others
//	                         │  ▲
//	                 nobody  ▼  │ Slurm has given it to another
//	                        freeing
//
// Those jobs are held first; tell requeues them, or cancels what has no batch script. A burstd that is killed
// finds the node and the holds as they were, and goes on.

// clearing says that the node is launched when some jobs have left it.
func (n Node) clearing() bool { return n.Phase == Wanted && n.Reason != "" }

// refused says that the node is given back for a budget.
func (n Node) refused() bool { return n.Phase == Freeing && strings.HasPrefix(n.Reason, overBudget) }

// refused says that a budget keeps the job waiting, and that it may have its nodes still.
func (h Hold) refused() bool {
	return !h.Released && strings.HasPrefix(h.Why, overBudget) && !h.putOff()
}

// clear keeps the nodes of which others have a share, and returns those that are to be given back.
func (p planning) clear(c *Change, g group, r Refusal, why string) (back []Node) {
	of := map[uint32]bool{}
	for _, job := range r.Of {
		of[job.Job] = true
	}
	for _, n := range p.whole(g.nodes) {
		rest, concerned := r.Rest[n.Name]
		switch {
		case len(rest) == 0 && (concerned || of[n.Job] || r.Rest == nil):
			back = append(back, n)
			continue
		case len(rest) == 0: // another node of a job that is not in the way
			continue
		case of[n.Job] || n.Job == 0:
			n = n.raisedFor(p.market.jobs, rest)
		}
		if n.Phase == Wanted {
			n.Reason, n.Since = why, p.now
		}
		c.Nodes = append(c.Nodes, n)
	}
	return back
}

// raisedFor has the node be that of the job, of some, which needs the most others; of equal ones it stays with its own.
func (n Node) raisedFor(jobs map[uint32]slurm.Job, ids []uint32) Node {
	if !slices.Contains(ids, n.Job) {
		n.Job = 0
	}
	for _, id := range ids {
		if n.Job == 0 || jobs[id].NumNodes > jobs[n.Job].NumNodes {
			n.Job = id
		}
	}
	n.Whole = jobs[n.Job].NumNodes > 1
	return n
}

// configuring lists by node the jobs that wait for their nodes.
func configuring(jobs map[uint32]slurm.Job) map[string][]slurm.Job {
	on := map[string][]slurm.Job{}
	for _, j := range jobs {
		if j.State != "CONFIGURING" {
			continue
		}
		names, err := hostlist.Expand(j.Nodes)
		if err != nil {
			continue // the budget does not know it there either
		}
		for _, n := range names {
			on[n] = append(on[n], j)
		}
	}
	return on
}

// parted are the jobs on a node that have to leave it, and the numbers of the others.
func (e *Engine) parted(on []slurm.Job) (leave []slurm.Job, rest []uint32) {
	for _, j := range on {
		if e.mem.holds[j.ID].refused() {
			leave = append(leave, j)
		} else {
			rest = append(rest, j.ID)
		}
	}
	slices.Sort(rest)
	return leave, rest
}

// keepFor plans that a node which was to be given back for a budget stays, as Slurm has given it to jobs that were not
// judged; false: it has not.
func (e *Engine) keepFor(c *Change, n Node, on []slurm.Job) bool {
	_, rest := e.parted(on)
	if len(rest) == 0 {
		return false
	}
	jobs := map[uint32]slurm.Job{}
	for _, j := range on {
		jobs[j.ID] = j
	}
	n = n.raisedFor(jobs, rest)
	n.Phase, n.Since = Wanted, time.Now()
	c.Nodes = append(c.Nodes, n)
	c.Events = append(c.Events, Event{Time: n.Since, Kind: "free-stale", Node: n.Name, Pool: n.Pool, Job: n.Job,
		Text: fmt.Sprintf("not given back: Slurm has given it to job %d meanwhile", n.Job)})
	return true
}

// clearNodes has the nodes planned for that the jobs have left which a budget refused.
func (e *Engine) clearNodes(ctx context.Context) (time.Duration, error) {
	var nodes []Node
	for _, n := range e.mem.inPhase(Wanted) {
		if n.clearing() {
			nodes = append(nodes, n)
		}
	}
	if len(nodes) == 0 {
		return 0, nil
	}
	const look, rarely = 250 * time.Millisecond, 5 * time.Second
	snap, err := e.slurm.Fresh(ctx, time.Now().Add(-look/2))
	if err != nil {
		return 0, fmt.Errorf("nodes that some jobs have to leave wait for Slurm's answer: %w", err)
	}
	var c Change
	var due time.Duration
	on := configuring(snap.Jobs)
	for _, n := range nodes {
		if !n.Since.Before(snap.Taken) {
			due = look
			continue
		}
		leave, rest := e.parted(on[n.Name])
		for _, j := range leave {
			if h := e.mem.holds[j.ID]; hasScript(snap, j) && !j.Requeue && !h.NoRequeue && !slices.ContainsFunc(c.Holds, func(o Hold) bool { return o.Job == j.ID }) {
				h.NoRequeue = true
				c.Holds = append(c.Holds, h)
			}
		}
		switch {
		case len(leave) > 0:
			due = look
		case len(rest) == 0 && powerOf(snap, n.Name) == poweringUp:
			give(&c, e.mem, []Node{n}, n.Reason, time.Now())
		case len(rest) == 0: // it is not to be launched: what becomes of it is for reconciliation to say
			due = sooner(due, rarely)
		default: // the jobs as they are now: the plan knew those of the last reading
			n = n.raisedFor(snap.Jobs, rest)
			n.Reason = ""
			c.Nodes = append(c.Nodes, n)
		}
	}
	e.sawJobs(snap)
	return due, e.commit(ctx, c)
}

// hasScript says that the job has a batch script: of a heterogeneous one its leader has it.
func hasScript(snap *slurm.Snapshot, j slurm.Job) bool {
	return j.Batch || j.HetID != 0 && snap.Jobs[j.HetID].Batch
}

// replaced says that another hold of the job has taken this one's place. It may be called at any time.
func (e *Engine) replaced(h Hold) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	now, held := e.mem.holds[h.Job]
	return held && now != h
}

// leavesClearing says that the job waits for a node that it has to leave. It may be called at any time.
func (e *Engine) leavesClearing(j slurm.Job) bool { return e.waitsFor(j, Node.clearing) }

// losesNode says that the job waits for a node that is given back. It may be called at any time.
func (e *Engine) losesNode(j slurm.Job) bool {
	return e.waitsFor(j, func(n Node) bool { return n.Phase == Freeing })
}

// waitsFor says that the job waits for such a node.
func (e *Engine) waitsFor(j slurm.Job, such func(Node) bool) bool {
	if j.State != "CONFIGURING" {
		return false
	}
	names, err := hostlist.Expand(j.Nodes)
	if err != nil {
		return false
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.ContainsFunc(names, func(n string) bool { return such(e.mem.nodes[n]) })
}

// turnAway requeues a job that has to leave a node, as of this reading: not one that its user has cancelled since
// then, nor a later attempt. One without a script can only be ended.
func (e *Engine) turnAway(ctx context.Context, snap *slurm.Snapshot, h Hold) error {
	j := snap.Jobs[h.Job]
	if !hasScript(snap, j) {
		return e.slurm.CancelRunning(ctx, h.Job, e.leavesClearing)
	}
	if !j.Requeue && h.NoRequeue {
		yes := true
		if err := e.slurm.UpdateJob(ctx, h.Job, slurm.JobUpdate{Requeue: &yes}); err != nil {
			return fmt.Errorf("keeping job %d, which has --no-requeue and has not begun: %w", h.Job, err)
		}
	}
	return e.slurm.RequeueMeant(ctx, h.Job, func(now slurm.Job) bool { return now.Restarts == j.Restarts && e.leavesClearing(now) })
}
