package power

import (
	"cmp"
	"maps"
	"slices"

	"github.com/burst-hpc/burst/cloud"
)

// holdParts passes over the components of heterogeneous jobs one of which waits still, as for spot or for the end of a node's
// former instance: a budget is asked when all can be launched, or else it might have no room for that one when some have been
// bought, and again at each try. They wait no longer than it does, which then is launched or given back.
func (p planning) holdParts(groups []group, picks []pick, passed map[uint32]bool) {
	if p.purse == nil {
		return
	}
	ready, waits := map[string]bool{}, map[uint32]bool{}
	for i, g := range groups {
		for _, n := range g.nodes {
			ready[n.Name] = picks[i].Offering != (cloud.Offering{}) && !passed[g.job]
		}
	}
	for _, n := range p.mem.inPhase(Wanted) {
		if het := p.market.jobs[n.Job].HetID; het != 0 && !ready[n.Name] {
			waits[het] = true
		}
	}
	for i, g := range groups {
		groups[i].nodes = slices.DeleteFunc(slices.Clone(g.nodes), func(n Node) bool { return waits[p.market.wholeOf(g.job, n)] })
		if len(groups[i].nodes) > 0 {
			continue
		}
		picks[i] = pick{}
		if g.job != 0 {
			passed[g.job] = true
		}
	}
}

// affordsWhole judges the launches of all that a job needs together.
func (p planning) affordsWhole(out *planned, whole uint32, groups []group, picks []pick) bool {
	var all []Launch
	var of group
	for k, g := range groups {
		if picks[k].Offering == (cloud.Offering{}) {
			continue // its nodes are not this job's: see holdParts. One that waits for its turn is judged, too
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
	}
	return p.affords(out, of, all...)
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
