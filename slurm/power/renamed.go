package power

import (
	"cmp"
	"context"
	"slices"

	"github.com/burst-hpc/burst/cloud"
)

// renamePools has what an earlier life left under another pool's name be of the pool that has the node
// now: a pool with a new name has the same nodes, and its old name may be another's. What is asked of a
// cloud stays as it was written. A name that is no pool's any more, and all of whose nodes have gone to
// one pool, is that pool's former one: breakers follow, and what is learnt later under its tag.
func (e *Engine) renamePools(ctx context.Context, st *State) error {
	now := map[string][]string{} // by former name
	note := func(pool *string, node string) {
		was := *pool
		if *pool = cmp.Or(e.poolOf[node], was); node != "" && !slices.Contains(now[was], *pool) {
			now[was] = append(now[was], *pool)
		}
	}
	for i := range st.Nodes {
		note(&st.Nodes[i].Pool, st.Nodes[i].Name)
	}
	for i := range st.Instances {
		note(&st.Instances[i].Pool, st.Instances[i].Assigned)
	}
	e.renamed = map[string]string{}
	for was, to := range now {
		if _, is := e.pools[was]; !is && was != "" && len(to) == 1 && to[0] != was {
			e.renamed[was] = to[0]
		}
	}
	var c Change
	for i, b := range st.Breakers {
		if _, is := e.pools[b.Pool]; is {
			continue
		}
		to, known := e.renamed[b.Pool]
		if !known {
			if !b.Stopped.IsZero() {
				e.log.Warn("a pool that was stopped has left the configuration, or has another name: stop that by hand, if need be", "pool", b.Pool, "why", b.Why)
			}
			continue
		}
		c.Breakers = append(c.Breakers, Breaker{Pool: b.Pool, Provider: b.Provider})
		b.Pool = to
		if !slices.ContainsFunc(st.Breakers, func(o Breaker) bool { return o.Key() == b.Key() }) {
			st.Breakers[i] = b
			c.Breakers = append(c.Breakers, b)
		}
	}
	if c.Empty() {
		return nil
	}
	return e.journal.CommitPower(ctx, c) // a start of the pool would not find the old one
}

// poolNow is the pool of an instance, by the node that it is for, if any, else by its tag.
func (e *Engine) poolNow(i cloud.Instance, node string) string {
	return cmp.Or(e.poolOf[node], e.renamed[i.Pool], i.Pool)
}

// poolOf is the pool of a launch, by the nodes that it is for: its request keeps the name that the pool had.
func (m *memory) poolOf(l Launch) string {
	for _, name := range l.Nodes {
		if n := m.nodes[name]; n.Pool != "" {
			return n.Pool
		}
	}
	return l.Request.Pool
}
