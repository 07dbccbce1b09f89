package power

import (
	"cmp"
	"maps"
	"slices"
	"time"

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
			start := p.mem.holds[lost.Job].Start
			for _, h := range out.Holds {
				if h.Job == lost.Job {
					start = h.Start
				}
			}
			for _, o := range p.whole([]Node{n}) {
				planned := slices.ContainsFunc(out.Nodes, func(is Node) bool { return is.Name == o.Name })
				if !planned && !p.keep(&out.Change, o) {
					give(&out.Change, p.mem, []Node{o}, lost.Reason, p.now)
				}
			}
			hold(&out.Change, p.mem, n.Job, later(start, p.now), lost.Reason)
			return true
		})
		if len(groups[i].nodes) == 0 {
			picks[i] = pick{}
		}
	}
}

// part is what a group has of a job that needs all of it together.
type part struct {
	group int
	nodes []Node
}

// wholes sorts what may be launched now by the jobs that need it together, and what waits by their heterogeneous jobs.
func (p planning) wholes(groups []group, picks []pick) (now map[uint32][]part, waits map[uint32][]Node) {
	now, waits = map[uint32][]part{}, map[uint32][]Node{}
	goes := map[string]bool{}
	for k, g := range groups {
		if picks[k].Offering == (cloud.Offering{}) {
			continue // one that waits for its turn is judged as what it is to be
		}
		for _, n := range g.nodes {
			goes[n.Name] = true
			whole := p.market.wholeOf(g.job, n)
			if whole == 0 {
				continue
			}
			if parts := now[whole]; len(parts) == 0 || parts[len(parts)-1].group != k {
				now[whole] = append(parts, part{group: k})
			}
			last := &now[whole][len(now[whole])-1]
			last.nodes = append(last.nodes, n)
		}
	}
	for _, n := range p.mem.inPhase(Wanted) {
		if het := p.market.jobs[n.Job].HetID; het != 0 && !goes[n.Name] {
			waits[het] = append(waits[het], n)
		}
	}
	return now, waits
}

// affordsWhole judges the launches of all that a job needs together: those of now, and with them what its other components still
// wait for, as for spot or for the end of a node's former instance. If there is no room for that, these would be paid for in vain.
func (p planning) affordsWhole(out *planned, parts []part, waits []Node, groups []group, picks []pick) bool {
	var all []Launch
	g := groups[parts[0].group]
	of := group{pool: g.pool, job: g.job}
	for _, part := range parts {
		of.nodes = append(of.nodes, part.nodes...)
		all = append(all, p.draft(groups[part.group], picks[part.group], part.nodes).Launch)
	}
	for _, n := range waits {
		of.nodes = append(of.nodes, n)
		if launch, may := p.dearest(n); may {
			all = append(all, launch)
		}
	}
	return p.affords(out, of, all...)
}

// begun are the heterogeneous jobs of which a component has a launch or an instance.
func (p planning) begun() map[uint32]bool {
	all := map[uint32]bool{}
	for _, n := range p.mem.inPhase(Launching, Booting, Up) {
		if het := p.market.jobs[n.Job].HetID; het != 0 {
			all[het] = true
		}
	}
	return all
}

// reserve has the budget count what those wait for that have begun, where it has room for that: else another job takes the room, and what
// is launched for them is paid for in vain. What was asked for by itself is left out, and what is given back or to be left by some.
func (p planning) reserve(begun, asked map[uint32]bool, out *planned) {
	waits := map[uint32][]Launch{}
	for _, n := range p.mem.inPhase(Wanted) {
		het := p.market.jobs[n.Job].HetID
		if begun[het] && !asked[het] && !n.clearing() && !slices.ContainsFunc(out.Nodes, func(o Node) bool { return o.Name == n.Name }) {
			if launch, may := p.dearest(n); may {
				waits[het] = append(waits[het], launch)
			}
		}
	}
	for _, het := range slices.Sorted(maps.Keys(waits)) {
		p.purse.refuses(waits[het]...)
	}
}

// dearest is the launch of a node that waits, of the source whose offerings may cost most, with all that may be bought there: a
// budget takes the dearest. Without a price is only what nothing else can be bought for. False: nothing may be bought.
func (p planning) dearest(n Node) (launch Launch, may bool) {
	most, known := 0.0, false
	for _, s := range p.wished(groupOf(n, nil), p.pools[n.Pool]) {
		if _, stopped := p.mem.stopped(s.Name, s.Provider); stopped {
			continue
		}
		var of, blank []cloud.Offering
		dear := 0.0
		for _, o := range s.Fleet.Offerings() {
			var usd float64
			if p.price != nil {
				usd, _ = p.price(s.Provider, o)
			}
			switch {
			case o.Market == cloud.Spot && s.Fleet.MaxPrice > 0 && usd > s.Fleet.MaxPrice:
			case p.priced != nil && !p.priced(s.Provider, o):
				blank = append(blank, o)
			default:
				of, dear = append(of, o), max(dear, usd)
			}
		}
		priced := len(of) > 0
		if !priced {
			of = blank
		}
		if len(of) == 0 || may && (known && !priced || known == priced && dear <= most) {
			continue
		}
		most, known, may = dear, priced, true
		launch = p.draft(groupOf(n, nil), pick{pool: s, Choice: fleet.Choice{Offering: of[0], Or: of[1:]}}, []Node{n}).Launch
	}
	return launch, may
}

// wholeOf is the job that needs the node beside others, of a group for a job or (0) for nodes that serve each on its own: a
// heterogeneous one begins when all its components have their nodes. 0: there is none.
func (m market) wholeOf(job uint32, n Node) uint32 {
	return cmp.Or(m.jobs[cmp.Or(job, n.Job)].HetID, job)
}

// whole is the job that needs others beside it, or the job itself.
func (m market) whole(job uint32) uint32 { return cmp.Or(m.jobs[job].HetID, job) }

// parts are the components of each heterogeneous job.
func (m market) parts() map[uint32][]uint32 {
	by := map[uint32][]uint32{}
	for id, j := range m.jobs {
		if j.HetID != 0 {
			by[j.HetID] = append(by[j.HetID], id)
		}
	}
	for _, ids := range by {
		slices.Sort(ids)
	}
	return by
}

// partsOf are the job and the components that begin with it.
func (p planning) partsOf(job uint32) []uint32 {
	if het := p.market.jobs[job].HetID; het != 0 && p.parts != nil {
		return p.parts()[het]
	}
	return []uint32{job}
}

// paidFor is until when a job's other nodes are paid for that end because it loses one of a pool: of other pools, or of its other
// components. Not those that are up or stay for others, which the next try finds, nor those of the same pool, of which waste knows.
func (p planning) paidFor(c *Change, pool string, job uint32, parts []uint32) (until time.Time) {
	if p.least == nil {
		return until
	}
	for _, id := range parts {
		for _, n := range p.of[id] {
			if n.Phase == Up || id == job && n.Pool == pool || slices.ContainsFunc(c.Nodes, func(o Node) bool { return o.Name == n.Name && o.Phase != Freeing }) {
				continue
			}
			if i, ok := p.mem.instances[n.Instance]; ok {
				until = later(until, i.Launched.Add(min(maxPaid, p.least(i.Provider, i.Offering))))
			} else if l, ok := p.mem.launches[n.Token]; ok {
				until = later(until, p.now.Add(min(maxPaid, p.least(l.Provider, l.Request.Offering))))
			}
		}
	}
	return until
}

// together has a heterogeneous job's components wait all, if one does: Slurm takes their nodes from all of them.
func (p planning) together(r Refusal) Refusal {
	for _, of := range r.Of {
		for _, id := range p.partsOf(of.Job) {
			if slices.ContainsFunc(r.Of, func(o Refused) bool { return o.Job == id }) {
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
