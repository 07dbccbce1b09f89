package power

import (
	"cmp"
	"maps"
	"slices"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/cloud/fleet"
)

// freeParts gives back what would be launched for components of heterogeneous jobs of which a node has been given back: Slurm
// takes the nodes of all of them.
func (p planning) freeParts(out *planned, groups []group, picks []pick) {
	freed := map[uint32]Node{}
	for _, n := range slices.Concat(p.mem.inPhase(Freeing), out.Nodes) {
		if het := p.market.jobs[n.Job].HetID; het != 0 && n.Phase == Freeing && n.Since.After(freed[het].Since) {
			freed[het] = n
		}
	}
	for i, g := range groups {
		groups[i].nodes = slices.DeleteFunc(slices.Clone(g.nodes), func(n Node) bool {
			lost, is := freed[p.market.jobs[n.Job].HetID]
			if !is || lost.Since.Before(n.Made) { // that was another try
				return false
			}
			if !slices.ContainsFunc(out.Nodes, func(o Node) bool { return o.Name == n.Name }) {
				start := p.mem.holds[lost.Job].Start
				for _, h := range out.Holds {
					if h.Job == lost.Job {
						start = h.Start
					}
				}
				p.free(&out.Change, group{pool: g.pool, job: g.job, nodes: []Node{n}}, lost.Reason, later(start, p.now))
			}
			return true
		})
		if len(groups[i].nodes) == 0 {
			picks[i] = pick{}
		}
	}
}

// affordsWhole judges the launches of all that a job needs together: those of now, and with them what its other components still
// wait for, as for spot or for the end of a node's former instance. If there is no room for that, these would be paid for in vain.
func (p planning) affordsWhole(out *planned, whole uint32, groups []group, picks []pick) bool {
	var all []Launch
	var of group
	now := map[string]bool{}
	for k, g := range groups {
		if picks[k].Offering == (cloud.Offering{}) {
			continue // one that waits for its turn is judged as what it is to be
		}
		nodes := slices.DeleteFunc(slices.Clone(g.nodes), func(n Node) bool { return p.market.wholeOf(g.job, n) != whole })
		if len(nodes) == 0 {
			continue
		}
		if len(all) == 0 {
			of = group{pool: g.pool, job: g.job}
		}
		of.nodes = append(of.nodes, nodes...)
		all = append(all, p.draft(g, picks[k], nodes).Launch)
		for _, n := range nodes {
			now[n.Name] = true
		}
	}
	for _, n := range p.mem.inPhase(Wanted) {
		if p.market.jobs[n.Job].HetID == whole && !now[n.Name] {
			all = append(all, p.dearest(n)...)
		}
	}
	return p.affords(out, of, all...)
}

// dearest is the launch of a node that waits by the dearest that may be bought for it; none if nothing may.
func (p planning) dearest(n Node) (launch []Launch) {
	most := -1.0
	for _, s := range p.wished(groupOf(n, nil), p.pools[n.Pool]) {
		if _, stopped := p.mem.stopped(s.Name, s.Provider); stopped {
			continue
		}
		for _, o := range s.Fleet.Offerings() {
			var usd float64
			if p.price != nil {
				usd, _ = p.price(s.Provider, o)
			}
			if (p.priced == nil || p.priced(s.Provider, o)) && usd > most {
				most, launch = usd, []Launch{p.draft(groupOf(n, nil), pick{pool: s, Choice: fleet.Choice{Offering: o}}, []Node{n}).Launch}
			}
		}
	}
	return launch
}

// wholeOf is the job that needs the node beside others, of a group for a job or (0) for nodes that serve each on its own: a
// heterogeneous one begins when all its components have their nodes. 0: there is none.
func (m market) wholeOf(job uint32, n Node) uint32 {
	return cmp.Or(m.jobs[cmp.Or(job, n.Job)].HetID, job)
}

// together has a heterogeneous job's components wait all, if one does: Slurm takes their nodes from all of them.
func (p planning) together(r Refusal) Refusal {
	for _, of := range r.Of {
		het := p.market.jobs[of.Job].HetID
		if het == 0 {
			continue
		}
		for _, id := range slices.Sorted(maps.Keys(p.market.jobs)) {
			if p.market.jobs[id].HetID != het || slices.ContainsFunc(r.Of, func(o Refused) bool { return o.Job == id }) {
				continue
			}
			of.Job = id
			r.Of = append(slices.Clip(r.Of), of)
		}
	}
	if r.Rest == nil {
		return r
	}
	rest, some := map[string][]uint32{}, false
	for n, ids := range r.Rest {
		rest[n] = slices.DeleteFunc(slices.Clone(ids), func(id uint32) bool {
			return slices.ContainsFunc(r.Of, func(o Refused) bool { return o.Job == id })
		})
		some = some || len(rest[n]) > 0
	}
	r.Rest, r.Some = rest, r.Some && some
	return r
}

// wholesOf are the jobs that need the draft's nodes beside others.
func (e *Engine) wholesOf(d draft) (all []uint32) {
	for _, n := range d.nodes {
		if id := e.market.wholeOf(d.job, n); id != 0 && !slices.Contains(all, id) {
			all = append(all, id)
		}
	}
	return all
}
