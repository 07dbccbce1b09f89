package power

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/burst-hpc/burst/slurm"
	"github.com/burst-hpc/burst/slurm/hostlist"
)

// power is what a node's power-saving flags come to.
type power string

const (
	unknown      power = "unknown" // not in the reading
	off          power = "off"
	poweringUp   power = "powering-up"
	poweringDown power = "powering-down"
	on           power = "on"      // registered; POWER_DOWN may have been asked but has not begun
	down         power = "down"    // DOWN or not responding, and not by power saving
	failed       power = "failed"  // DOWN without having registered: ResumeTimeout has passed, or an admin's doing; Slurm leaves it so
	removed      power = "removed" // not in the reading, which has others of ours; powerOf does not tell it
)

func powerOf(snap *slurm.Snapshot, node string) power {
	n, ok := snap.Nodes[node]
	s := n.State
	switch {
	case !ok:
		return unknown
	case s.Has(slurm.PoweringDown):
		return poweringDown
	case s.Has(slurm.PoweringUp), s.Has(slurm.PowerUp):
		if s.Base == "DOWN" {
			return failed
		}
		return poweringUp
	case s.Has(slurm.PoweredDown) && s.Base == "DOWN":
		return failed
	case s.Has(slurm.PoweredDown):
		return off
	case s.Base == "DOWN", s.Has(slurm.NotResponding):
		return down
	}
	return on
}

// taking turns orders into changes of the journal. It is pure: what it is
// told are the journal's memory and a reading of Slurm made after the orders
// came (a suspend may have overtaken a resume).
type taking struct {
	mem   *memory
	snap  *slurm.Snapshot
	pools map[string]string // node -> pool
	now   time.Time
	serve map[string]Pool // servers of files, by node
	idles map[string]bool // of them those that Slurm powers down for being idle

	timeout func(pool string) time.Duration // for its nodes to boot
}

// take plans one order. Its change must be committed before the next is planned.
func (t taking) take(o Order) Change {
	o.Taken = true
	if o.Made.After(t.now) {
		o.Made = t.now // the clock has been set back since
	}
	c := Change{Orders: []Order{o}}
	nodes, err := hostlist.Expand(o.Nodes)
	if err != nil {
		c.Events = append(c.Events, t.event("order-refused", "", fmt.Sprintf("%s order %s: %v", o.Kind, o.ID, err)))
		return c
	}
	jobs, err := parseResumeFile(o.ResumeFile)
	if err != nil {
		// The nodes are in argv too: they are raised, without knowing for which jobs.
		c.Events = append(c.Events, t.event("resume-file", "", fmt.Sprintf("order %s: %v; its nodes are raised without it", o.ID, err)))
	}
	forJob := map[string]jobNodes{}
	for _, j := range jobs {
		// Slurm 22.05 names only the nodes that it raises, not all of the job's.
		j.Total = max(j.Total, t.snap.Jobs[j.Job].NumNodes)
		for _, n := range j.Nodes {
			if j.Total > forJob[n].Total { // of several jobs, the one that needs the most others
				forJob[n] = j
			}
		}
	}
	t.reused(&c, jobs, forJob)
	c.Events = append(c.Events, t.event("order", "", fmt.Sprintf("%s %s", o.Kind, o.Nodes)))
	if o.Kind == Suspend {
		t.mem.started(&c, t.snap) // the last reading in which a short job is known
	}
	slices.Sort(nodes)
	for _, n := range slices.Compact(nodes) {
		if _, have := t.mem.nodes[n]; t.pools[n] == "" && (o.Kind == Resume || !have) {
			c.Events = append(c.Events, t.event("no-pool", n, fmt.Sprintf("%s: no pool has this node; add it to a pool in burst.toml", o.Kind)))
			continue
		}
		if t.keeps(&c, o, n) {
			continue
		}
		switch o.Kind {
		case Resume:
			t.resume(&c, o, n, forJob[n])
		case Suspend:
			t.suspend(&c, o, n)
		case ResumeFail:
			t.resumeFail(&c, o, n)
		}
	}
	return c
}

// reused notes the jobs on those of their nodes that are up already: the
// others are to be of their kind. Nodes of an earlier run do not bind a job.
func (t taking) reused(c *Change, jobs []jobNodes, raised map[string]jobNodes) {
	has, asked := map[string]uint32{}, map[uint32]bool{}
	for _, j := range jobs {
		asked[j.Job] = true
		nodes, err := hostlist.Expand(t.snap.Jobs[j.Job].Nodes)
		if err != nil {
			continue // Slurm shows no nodes for it, or not yet
		}
		for _, n := range nodes {
			has[n] = j.Job
		}
	}
	if len(asked) == 0 {
		return
	}
	for _, n := range t.mem.inPhase(Up) {
		job := has[n.Name]
		if raised[n.Name].Job != 0 || job == n.Job || job == 0 && !asked[n.Job] {
			continue
		}
		n.Job = job
		c.Nodes = append(c.Nodes, n)
	}
}

func (t taking) resume(c *Change, o Order, node string, job jobNodes) {
	rec, have := t.mem.nodes[node]
	if p := powerOf(t.snap, node); p != poweringUp {
		c.Events = append(c.Events, t.event("resume-stale", node, fmt.Sprintf("not raised: Slurm does not power it up any more, it is %s", p)))
		return
	}
	if have && !rec.Made.Before(o.Made) {
		return // this order, or a later one, has the node already
	}
	i, ok := t.mem.instances[rec.Instance]
	if late := ok && rec.Phase == Booting && i.Launched.After(o.Made); late || have && (rec.Phase == Wanted || rec.Phase == Launching) {
		// No instance yet, or one launched after Slurm asked, whose registration
		// will count: it serves the newer order.
		rec.Order, rec.Made, rec.Job, rec.Whole = o.ID, o.Made, job.Job, job.Total > 1
		c.Nodes = append(c.Nodes, rec)
		return
	}
	t.doom(c, node, "a newer resume order found it from an older one")
	c.Nodes = append(c.Nodes, Node{Name: node, Pool: t.pools[node], Phase: Wanted, Since: t.now, Order: o.ID, Made: o.Made, Job: job.Job, Whole: job.Total > 1})
}

func (t taking) suspend(c *Change, o Order, node string) {
	rec, have := t.mem.nodes[node]
	if have && rec.Made.After(o.Made) {
		c.Events = append(c.Events, t.event("suspend-stale", node, "not ended: the node has been raised again since"))
		return
	}
	if p := powerOf(t.snap, node); p == on {
		c.Events = append(c.Events, t.event("suspend-stale", node, "not ended: Slurm has the node up"))
		return
	}
	t.doom(c, node, "suspended")
	if have {
		c.DropNodes = append(c.DropNodes, node)
	}
}

func (t taking) resumeFail(c *Change, o Order, node string) {
	rec, have := t.mem.nodes[node]
	if have && rec.Made.After(o.Made) {
		return
	}
	switch p := powerOf(t.snap, node); p {
	case on:
		c.Events = append(c.Events, t.event("resume-fail-stale", node, "left as it is: it has registered since"))
		return
	case poweringUp:
		c.Events = append(c.Events, t.event("resume-fail-stale", node, "left as it is: Slurm powers it up again"))
		return
	}
	const why = "did not register within ResumeTimeout"
	t.doom(c, node, why)
	if rec.Phase == Booting && hadTime(t.mem.instances[rec.Instance], rec, t.timeout(rec.Pool)) {
		fail(c, t.mem, rec.Instance, why)
	}
	if !have {
		rec = Node{Name: node, Pool: t.pools[node], Order: o.ID, Made: o.Made}
	}
	rec.Phase, rec.Since, rec.Reason, rec.Instance, rec.Token = Freeing, t.now, why, "", ""
	c.Nodes = append(c.Nodes, rec)
	c.Events = append(c.Events, t.event("resume-failed", node, why))
	if rec.Job != 0 {
		hold(c, t.mem, rec.Job, retryAt(t.mem.holds[rec.Job], t.now), fmt.Sprintf("node %s %s", node, why))
	}
}

// doom ends every instance that serves the node; of a server of files its record's alone, as there may be files on
// others that say that they are it.
func (t taking) doom(c *Change, node, why string) {
	_, serves := t.serve[node]
	for _, i := range t.mem.instances {
		if i.Assigned == node && i.Doomed == "" && (!serves || i.ID == t.mem.nodes[node].Instance) {
			i.Doomed = why
			c.Instances = append(c.Instances, i)
			e := t.event("terminate", node, why)
			e.Instance, e.Pool = i.ID, i.Pool
			c.Events = append(c.Events, e)
		}
	}
}

func (t taking) event(kind, node, text string) Event {
	return Event{Time: t.now, Kind: kind, Node: node, Pool: t.pools[node], Text: text}
}

// byMade sorts orders as Slurm gave them.
func byMade(a, b Order) int {
	return cmp.Or(a.Made.Compare(b.Made), cmp.Compare(a.ID, b.ID))
}
