package power

import (
	"errors"
	"fmt"
	"maps"
	"slices"
)

// A budget that will answer in a moment keeps nodes waiting, and nobody is told. If it does so until it is too late to boot, that is why.

// turnOf is a node's wait for one order of Slurm's.
type turnOf struct{ node, order string }

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
	maps.Copy(e.market.brief, out.brief)
	maps.DeleteFunc(e.market.brief, func(t turnOf, why string) bool {
		n := e.mem.nodes[t.node]
		return why == "" || n.Phase != Wanted || n.Order != t.order
	})
}

// lateFor says why the group's nodes are given back that got no instance in time.
func (p planning) lateFor(g group, pool Pool) string {
	timeout := p.timeout(g.pool)
	i := slices.IndexFunc(g.nodes, func(n Node) bool { return p.market.brief[turnOf{n.Name, n.Order}] != "" })
	if i < 0 {
		return tooLate(p.market, pool, timeout)
	}
	n := g.nodes[i]
	return fmt.Sprintf("pool %s: launches waited, as %s, and too little of ResumeTimeout (%s) is left to boot one",
		pool.Name, brief(errors.New(p.market.brief[turnOf{n.Name, n.Order}])), timeout)
}
