package power

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/slurm"
	"github.com/burst-hpc/burst/slurm/hostlist"
)

// fence plans fences for what may run on an instance that Slurm has given up.
func (e *Engine) fence(c *Change, node, instance string, a attempts) {
	i, ok := e.mem.instances[instance]
	if !ok || i.State == cloud.Terminated {
		return // nothing runs on it
	}
	now := time.Now()
	fences := map[uint32]int{}
	maps.Copy(fences, a.jobs)
	if a.blank {
		fences[0] = 0
	}
	var names []string
	for _, job := range slices.Sorted(maps.Keys(fences)) {
		if f, have := e.mem.fences[instance][job]; have && job != 0 && f.Restarts >= fences[job] {
			continue
		}
		c.Fences = append(c.Fences, Fence{Instance: instance, Job: job, Restarts: fences[job], Node: node, Since: now})
		name := fmt.Sprintf("job %d", job)
		if job == 0 {
			name = "what ran there while burstd was away"
		}
		names = append(names, name)
	}
	if len(names) == 0 {
		return
	}
	if len(names) > 5 {
		names = append(names[:5], "…")
	}
	c.Events = append(c.Events, Event{Time: now, Kind: "fence", Node: node, Instance: instance, Pool: i.Pool,
		Text: fmt.Sprintf("Slurm has given it up while its instance lives: %s may run on there, and begins again only when the instance is gone, or answers Slurm again", strings.Join(names, ", "))})
}

// sameOutage says that the node's fences are of the outage in which it still is:
// Slurm has had nothing on it since.
func (m *memory) sameOutage(instance string, n slurm.Node) bool {
	var last time.Time
	for _, f := range m.fences[instance] {
		if f.Since.After(last) {
			last = f.Since
		}
	}
	return !last.IsZero() && !n.LastBusy.IsZero() && n.LastBusy.Before(last)
}

// unfence plans the end of the fences of an instance that answers Slurm again:
// slurmctld has ended there what it does not know.
func (e *Engine) unfence(c *Change, n Node, s slurm.Node) {
	if len(e.mem.fences[n.Instance]) == 0 || e.stranger(n, s) {
		return
	}
	c.DropFences = append(c.DropFences, n.Instance)
	c.Events = append(c.Events, Event{Time: time.Now(), Kind: "fence-lifted", Node: n.Name, Instance: n.Instance, Pool: n.Pool,
		Text: "it answers Slurm again, which has ended there what it does not know"})
}

// underWay is how long a registration may take to slurmctld, which counts BootTime back from when it has come.
const underWay = 10 * time.Second

// stranger says that what answers Slurm as a fenced node has booted after the node was up: another machine of that
// name, as a cloud's double or one of an image of the node, while what was fenced runs on unseen; or the instance
// itself, booted anew, which nobody can tell from that. On a server of files no job runs.
func (e *Engine) stranger(n Node, s slurm.Node) bool {
	return n.Phase == Up && len(e.mem.fences[n.Instance]) > 0 && s.BootTime.After(n.Since.Add(underWay)) && !e.serves(n.Name)
}

// idle says that a node has no job but such as wait for a fence, and that no admin looks at it.
func (e *Engine) idle(snap *slurm.Snapshot, node string) bool {
	if adminsReason(snap.Nodes[node]) {
		return false
	}
	for id := range runningOn(snap, func(n string) bool { return n == node })[node] {
		if j := snap.Jobs[id]; j.State != "CONFIGURING" || e.mem.fenced(j) == "" {
			return false
		}
	}
	return true
}

// fenced says what keeps the job's next attempt from beginning; empty: nothing does.
func (m *memory) fenced(j slurm.Job) string {
	if j.Restarts == 0 {
		return ""
	}
	var first Fence
	count := 0
	for id, fences := range m.fences {
		if i, ok := m.instances[id]; !ok || i.State == cloud.Terminated {
			continue
		}
		f, own := fences[j.ID]
		// A slurmctld that has lost its state may count restarts anew.
		if own = own && (f.Restarts < j.Restarts || j.Start.After(f.Since)); !own {
			f, own = fences[0]
			own = own && (j.Submitted.IsZero() || j.Submitted.Before(f.Since))
		}
		if !own {
			continue
		}
		if count++; count == 1 || f.Instance < first.Instance {
			first = f
		}
	}
	if count == 0 {
		return ""
	}
	end, but := "is gone", ""
	if m.instances[first.Instance].Doomed == "" {
		end, but = "is gone, or answers Slurm again", ", and it has not been ended so far"
	}
	why := fmt.Sprintf("job %d waits until instance %s (node %s) %s: an earlier attempt of it may still run there%s", j.ID, first.Instance, first.Node, end, but)
	if count > 1 {
		why += fmt.Sprintf(" (and %d more)", count-1)
	}
	return why
}

// Fenced says why the next attempt of a job may not begin yet, empty if it
// may. It takes in the reading that shows the job first: what Slurm had given up
// by then is fenced. The job's user is told once.
func (e *Engine) Fenced(ctx context.Context, snap *slurm.Snapshot, job uint32) (why string, err error) {
	var waits string // not why: Run may write it when the caller has left
	err = e.do(ctx, func(ctx context.Context) error {
		if err := e.observe(ctx, snap); err != nil {
			return err
		}
		j := snap.Jobs[job]
		if waits = e.mem.fenced(j); j.Restarts > 0 && e.onOurs(j) {
			if name := e.unshown(); name != "" {
				waits = fmt.Sprintf("job %d waits for provider %s to show its instances: the journal may have replaced a lost one, and an earlier attempt of it may still run", job, name)
			}
		}
		if waits != "" {
			e.warn(ctx, snap, j, waits)
		}
		return nil
	})
	if err != nil {
		return "", err
	}
	return waits, nil
}

// unshown is a provider of whose instances a new journal does not know yet, empty: there is none. An earlier attempt
// may have run in any pool, as Slurm does not tell of which partitions a job had its nodes before; but not where no pool buys.
func (e *Engine) unshown() string {
	var names []string
	for _, pool := range e.pools {
		for _, s := range pool.Sources() {
			if e.providers[s.Provider] != nil && e.strange(s.Provider) > 0 {
				names = append(names, s.Provider)
			}
		}
	}
	if len(names) == 0 {
		return ""
	}
	return slices.Min(names)
}

// onOurs says that the job has a node of ours.
func (e *Engine) onOurs(j slurm.Job) bool {
	nodes, err := hostlist.Expand(j.Nodes)
	return err == nil && slices.ContainsFunc(nodes, e.Owns)
}

// warn tells a job why it waits for a fence, unless it has been told.
func (e *Engine) warn(ctx context.Context, snap *slurm.Snapshot, j slurm.Job, why string) {
	if last, told := e.warned[j.ID]; told && last == j.Restarts {
		return
	}
	maps.DeleteFunc(e.warned, func(id uint32, _ int) bool { return snap.Jobs[id].State != "CONFIGURING" })
	e.warned[j.ID] = j.Restarts
	e.beside(ctx, func(ctx context.Context) func(context.Context) {
		comment := "burst: " + why
		err := e.slurm.UpdateJob(ctx, j.ID, slurm.JobUpdate{AdminComment: &comment})
		return func(ctx context.Context) {
			if err == nil {
				err = e.commit(ctx, Change{Events: []Event{{Time: time.Now(), Kind: "job-waits", Job: j.ID, Text: why}}})
			}
			if err != nil {
				delete(e.warned, j.ID) // at its gate's next question
				e.log.Warn("a job could not be told why it waits", "job", j.ID, "error", err)
			}
		}
	})
}

// cutOff says that slurmctld itself has given the node up for want of an
// answer: it is nobody else's doing, and no admin's who may look at it.
func cutOff(n slurm.Node) bool {
	return n.State.Base == "DOWN" && n.State.Has(slurm.NotResponding) && !adminsReason(n)
}

func adminsReason(n slurm.Node) bool {
	return n.Reason != "" && !strings.HasPrefix(n.Reason, "Not responding") && !strings.HasPrefix(n.Reason, "burst: ")
}

// endCutOff plans the end of the instances of nodes that slurmctld has given
// up, as many as a round may end: those first for whose end a job waits.
func (e *Engine) endCutOff(c *Change, nodes []Node, snap *slurm.Snapshot) {
	waits := map[string]int{}
	for _, n := range nodes {
		for job := range e.mem.fences[n.Instance] {
			if s := snap.Jobs[job].State; job == 0 || s == "PENDING" || s == "CONFIGURING" {
				waits[n.Instance]++
			}
		}
	}
	slices.SortFunc(nodes, func(a, b Node) int {
		return cmp.Or(before(waits[a.Instance] > 0, waits[b.Instance] > 0), strings.Compare(a.Name, b.Name))
	})
	for _, n := range nodes {
		if e.ended++; e.ended > e.cfg.MaxTerminate {
			return
		}
		delete(e.settling, n.Name)
		c.Actions = append(c.Actions, string(isolate))
		why := fmt.Sprintf("cut off: Slurm has given node %s up while instance %s lives", n.Name, n.Instance)
		if powerOf(snap, n.Name) == on {
			why = fmt.Sprintf("cut off: what answers Slurm as node %s has booted since, and instance %s lives", n.Name, n.Instance)
		}
		c.Events = append(c.Events, Event{Time: time.Now(), Kind: "terminate", Node: n.Name, Instance: n.Instance, Pool: n.Pool, Text: why})
		give(c, e.mem, []Node{n}, why, time.Now())
	}
}
