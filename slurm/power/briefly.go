package power

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"
)

// A budget that will answer in a moment keeps nodes waiting, and nobody is told. If it does so for long, as where a price cannot be
// asked for, the jobs are; and if until it is too late to boot, that is why.

// brieflyFor is how long a budget has no answer before jobs are told.
const brieflyFor = 30 * time.Second

// turnOf is a node's wait for one order of Slurm's.
type turnOf struct{ node, order string }

// unanswered is why a budget has no answer, as it said last, and since when it has none.
type unanswered struct {
	why   string
	since time.Time
}

// briefly notes why a budget has no answer for the group yet.
func (out *planned) briefly(g group, why string) {
	if out.brief == nil {
		out.brief = map[turnOf]string{}
	}
	for _, n := range g.nodes {
		out.brief[turnOf{n.Name, n.Order}] = why
	}
}

// noteBrief keeps what was noted last of each node that waits.
func (e *Engine) noteBrief(out planned) {
	for t, why := range out.brief {
		since := time.Now()
		if had, waits := e.market.brief[t]; waits {
			since = had.since
		}
		e.market.brief[t] = unanswered{why, since}
	}
	maps.DeleteFunc(e.market.brief, func(t turnOf, u unanswered) bool {
		n := e.mem.nodes[t.node]
		return u.why == "" || n.Phase != Wanted || n.Order != t.order
	})
}

// long says that the budget has had no answer for one of the group's nodes for so long that its job is told.
func (p planning) long(g group) bool {
	return slices.ContainsFunc(g.nodes, func(n Node) bool {
		u, waits := p.market.brief[turnOf{n.Name, n.Order}]
		return waits && p.now.Sub(u.since) >= brieflyFor
	})
}

// lateFor says why the group's nodes are given back that got no instance in time.
func (p planning) lateFor(g group, pool Pool) string {
	timeout := p.timeout(g.pool)
	i := slices.IndexFunc(g.nodes, func(n Node) bool { return p.market.brief[turnOf{n.Name, n.Order}].why != "" })
	if i < 0 {
		return tooLate(p.market, pool, timeout)
	}
	n := g.nodes[i]
	return fmt.Sprintf("pool %s: launches waited, as %s, and too little of ResumeTimeout (%s) is left to boot one",
		pool.Name, brief(errors.New(p.market.brief[turnOf{n.Name, n.Order}].why)), timeout)
}
