package power

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/burst-hpc/burst/slurm"
	"github.com/burst-hpc/burst/slurm/hostlist"
)

// A job of several nodes for which a budget has no room is given those that are up and idle at each try, and Slurm
// counts their idle time anew then. It would keep them up for as long as it waits, and that money would come out of
// what it waits for. So they go when it is refused the second time in a row: until then they were there for any job.

// refusedAgain notes the jobs of a refusal that were refused at their last try too.
func (p planning) refusedAgain(out *planned, g group, r Refusal) {
	of := r.Of
	if len(of) == 0 {
		of = []Refused{{Job: g.job}}
	}
	for _, j := range of {
		if h := p.mem.holds[j.Job]; h.Released && strings.HasPrefix(h.Why, overBudget) {
			out.again = append(out.again, j.Job)
		}
	}
}

// leaveIdle plans that Slurm powers down the nodes that are up of jobs which a budget has refused again, but for those that
// another job has, or may be given now, that stay to the end of what is paid for, or that slurm.conf keeps up. What cannot
// be known now is no reason to wait with launches: the next try says it again.
func (e *Engine) leaveIdle(ctx context.Context, out *planned) {
	if len(out.again) == 0 {
		return
	}
	now := time.Now()
	idle, err := e.unwantedNow(ctx, out.again, now)
	if err != nil {
		e.log.Warn("idle nodes stay up for jobs that wait for a budget, until their next try", "error", err)
		return
	}
	for _, name := range slices.Sorted(maps.Keys(idle)) {
		n, job := e.mem.nodes[name], idle[name].ID
		n.Reason = fmt.Sprintf("%sjob %d waits, and has no other use of the node", overBudget, job)
		out.Nodes = append(out.Nodes, n)
		out.Events = append(out.Events, Event{Time: now, Kind: "power-down", Node: name, Instance: n.Instance, Pool: n.Pool, Job: job,
			Text: fmt.Sprintf("job %d waits for a budget, and is given the node at each try: it is powered down, as no other job may have it now", job)})
	}
}

// unwantedNow are the nodes that are to go, with who waits there.
func (e *Engine) unwantedNow(ctx context.Context, jobs []uint32, now time.Time) (map[string]slurm.Job, error) {
	snap, err := e.slurm.Fresh(ctx, now)
	if err != nil {
		return nil, err
	}
	idle := e.idleOf(snap, jobs)
	kept, err := e.kept(ctx, slices.Collect(maps.Keys(idle)))
	if err != nil {
		return nil, err
	}
	maps.DeleteFunc(idle, func(name string, _ slurm.Job) bool { return kept(snap.Nodes[name]) })
	if len(idle) > 0 {
		e.spareIdle(snap, idle, now)
	}
	return idle, nil
}

// idleOf are the nodes that are up of these jobs, and of the components that wait with them, if no other job is there.
func (e *Engine) idleOf(snap *slurm.Snapshot, ids []uint32) map[string]slurm.Job {
	whole := map[uint32]bool{}
	for _, id := range ids {
		whole[cmp.Or(snap.Jobs[id].HetID, id)] = true
	}
	idle, used := map[string]slurm.Job{}, map[string]bool{}
	for _, j := range snap.Jobs {
		waits := j.State == "CONFIGURING" && whole[cmp.Or(j.HetID, j.ID)]
		if !waits && (j.State == "PENDING" || ended(j) && j.State != "COMPLETING") {
			continue
		}
		names, err := hostlist.Expand(j.Nodes)
		if err != nil {
			continue // nobody knows
		}
		for _, name := range names {
			n := e.mem.nodes[name]
			switch i, known := e.mem.instances[n.Instance]; {
			case !waits:
				used[name] = true
			case known && n.Phase == Up && n.Reason == "" && powerOf(snap, name) == on && !e.serves(name) && (e.cfg.Paid == nil || !e.cfg.Paid(i)):
				idle[name] = j
			}
		}
	}
	maps.DeleteFunc(idle, func(name string, _ slurm.Job) bool { return used[name] })
	return idle
}

// spareIdle takes out as many of the nodes as jobs may be given now that wait for nodes alone. Of one with --constraint that is known
// only if it says the same as who has them.
func (e *Engine) spareIdle(snap *slurm.Snapshot, idle map[string]slurm.Job, now time.Time) {
	for _, id := range slices.Sorted(maps.Keys(snap.Jobs)) {
		j := snap.Jobs[id]
		if j.State != "PENDING" || j.Eligible.IsZero() || j.Eligible.After(now) || !slices.Contains([]string{"None", "Resources", "Priority"}, j.Reason) {
			continue
		}
		wanted, err := hostlist.Expand(j.Required)
		if err != nil {
			continue
		}
		var fit []string
		for _, name := range slices.Sorted(maps.Keys(idle)) {
			alike := j.Features == "" || j.Features == idle[name].Features
			if alike && inPartition(e.pools[e.mem.nodes[name].Pool], snap.Nodes[name], j) && (len(wanted) == 0 || slices.Contains(wanted, name)) {
				fit = append(fit, name)
			}
		}
		needs := max(1, j.NumNodes)
		if len(fit) < needs {
			continue // it would have to be launched for, too
		}
		if strings.ContainsAny(j.ArrayTask, "-,") {
			needs = len(fit) // by its many tasks
		}
		for _, name := range fit[:needs] {
			delete(idle, name)
		}
	}
}
