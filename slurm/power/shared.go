package power

import (
	"slices"
	"sync"
	"time"

	"github.com/burst-hpc/burst/slurm"
	"github.com/burst-hpc/burst/slurm/hostlist"
)

// others are the jobs that wait for the node beside the one that it is raised for, and that stay there: not those of this
// change or an earlier one that are to leave, or that lose another node.
func (p planning) others(c *Change, n Node) (ids []uint32) {
	if p.on == nil {
		return nil
	}
	for _, j := range p.on()[n.Name] {
		leaves := func(h Hold) bool { return h.Job == j.ID && !h.Released }
		if p.market.whole(j.ID) != p.market.whole(n.Job) && !leaves(p.mem.holds[j.ID]) && !slices.ContainsFunc(c.Holds, leaves) && !p.loses(c, j) {
			ids = append(ids, j.ID)
		}
	}
	slices.Sort(ids)
	return ids
}

// loses says that a node of the job is given back.
func (p planning) loses(c *Change, j slurm.Job) bool {
	names, err := hostlist.Expand(j.Nodes)
	if err != nil {
		return false
	}
	return slices.ContainsFunc(names, func(name string) bool {
		if i := slices.IndexFunc(c.Nodes, func(n Node) bool { return n.Name == name }); i >= 0 {
			return c.Nodes[i].Phase == Freeing
		}
		return p.mem.nodes[name].Phase == Freeing
	})
}

// keep plans that a node stays for the others who wait for it, when its job is to lose it: Slurm takes a job's nodes from it
// with the first that goes down. False: nobody else waits for it.
func (p planning) keep(c *Change, n Node) bool {
	rest := p.others(c, n)
	if len(rest) == 0 {
		return false
	}
	c.Nodes = append(c.Nodes, n.raisedFor(p.market.jobs, rest))
	if p.kept != nil {
		p.kept[n.Name] = true
	}
	return true
}

// unkeep gives back what was kept for others who have lost another node of theirs since.
func (p planning) unkeep(c *Change) {
	for more := true; more; {
		more = false
		for _, n := range slices.Clone(c.Nodes) {
			was := p.mem.nodes[n.Name]
			if !p.kept[n.Name] || n.Phase == Freeing || slices.Contains(p.others(c, was), n.Job) {
				continue
			}
			c.Nodes = slices.DeleteFunc(c.Nodes, func(o Node) bool { return o.Name == n.Name })
			if !p.keep(c, was) {
				why := "all its jobs lose another node of theirs"
				if i := slices.IndexFunc(c.Holds, func(h Hold) bool { return h.Job == n.Job }); i >= 0 {
					why = c.Holds[i].Why
				}
				give(c, p.mem, []Node{was}, why, p.now)
				more = true
			}
		}
	}
}

// sharing is a plan that knows who shares nodes, by a reading of Slurm or (nil) the last.
func (e *Engine) sharing(snap *slurm.Snapshot) planning {
	p := planning{mem: e.mem, market: e.market}
	if snap != nil {
		p.market.jobs = snap.Jobs
	}
	p.on = sync.OnceValue(func() map[string][]slurm.Job { return configuring(p.market.jobs) })
	return p
}

// giveWhole gives nodes back, and with them all others of their job that nobody else waits for.
func (e *Engine) giveWhole(c *Change, nodes []Node, snap *slurm.Snapshot, why string, now time.Time) {
	shared := e.sharing(snap)
	for i, n := range e.mem.whole(nodes, snap) {
		given := slices.ContainsFunc(c.Nodes, func(o Node) bool { return o.Name == n.Name && o.Phase == Freeing })
		if given || i >= len(nodes) && shared.keep(c, n) {
			continue
		}
		var one Change
		give(&one, e.mem, []Node{n}, why, now)
		for _, i := range one.Instances {
			if !slices.ContainsFunc(c.Instances, func(o Instance) bool { return o.ID == i.ID }) {
				c.Instances = append(c.Instances, i)
			}
		}
		c.Nodes, c.Events = append(c.Nodes, one.Nodes...), append(c.Events, one.Events...)
	}
}

// whole is memory's whole, as of the plan's begin.
func (p planning) whole(nodes []Node) []Node {
	have, jobs := map[string]bool{}, map[uint32]bool{}
	for _, n := range nodes {
		have[n.Name] = true
	}
	all := slices.Clone(nodes)
	for _, n := range nodes {
		if !n.Whole || jobs[n.Job] {
			continue
		}
		jobs[n.Job] = true
		for _, o := range p.of[n.Job] {
			if o.Whole && o.Phase != Up && !have[o.Name] {
				all = append(all, o)
			}
		}
	}
	return all
}
