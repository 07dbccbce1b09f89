package power

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"
)

// groups sorts the wanted nodes that may be launched now.
func (p planning) groups() []group {
	busy := map[string]bool{}
	for node := range p.mem.serving() {
		busy[node] = true
	}
	not := map[string]map[string]bool{} // node -> providers
	for _, l := range p.mem.launches {
		for _, node := range l.Nodes {
			if busy[node] = busy[node] || !p.forsaken(l); !busy[node] {
				if not[node] == nil {
					not[node] = map[string]bool{}
				}
				not[node][l.Provider] = true
			}
		}
	}
	type key struct {
		pool  string
		job   uint32
		late  bool   // of nodes on their own: too late for a launch
		spent int    // of them: sources for whose spot alone it is too late
		only  string // of them: the sources that may launch them
	}
	sources := map[string][]Pool{} // by pool
	by := map[key]*group{}
	blocked := map[uint32]bool{} // a job of which a node has to wait
	var keys []key
	for _, n := range p.mem.inPhase(Wanted) {
		k := key{pool: n.Pool}
		if n.Whole {
			k.job = n.Job
		} else {
			k.late = p.late(n)
			if sources[n.Pool] == nil {
				sources[n.Pool] = p.pools[n.Pool].Sources()
			}
			for _, s := range sources[n.Pool] {
				if !n.Made.IsZero() && p.now.Sub(p.since(n, s)) >= p.fleetFor(s, []Node{n}).SpotTimeout {
					k.spent++
				}
			}
			if len(sources[n.Pool]) > 1 {
				k.only = p.only(n, not[n.Name])
			}
		}
		if busy[n.Name] || n.clearing() || len(not[n.Name]) > 0 && p.only(n, not[n.Name]) == "" {
			blocked[k.job] = blocked[k.job] || k.job != 0
			continue
		}
		if by[k] == nil {
			by[k] = &group{pool: k.pool, job: k.job, not: map[string]bool{}}
			keys = append(keys, k)
		}
		by[k].nodes = append(by[k].nodes, n)
		maps.Copy(by[k].not, not[n.Name])
		by[k].late = by[k].late || p.late(n)
	}
	slices.SortFunc(keys, func(a, b key) int {
		return cmp.Or(cmp.Compare(a.job, b.job), strings.Compare(a.pool, b.pool), before(a.late, b.late), cmp.Compare(b.spent, a.spent), strings.Compare(a.only, b.only))
	})
	var all []group
	for _, k := range keys {
		if g := by[k]; len(g.not) > 0 && len(p.allowed(*g, p.pools[g.pool])) == 0 { // each source owes an answer for some node
			blocked[k.job] = k.job != 0
			delete(by, k)
		}
	}
	for _, k := range keys {
		if by[k] != nil && !blocked[k.job] {
			all = append(all, *by[k])
		}
	}
	return all
}

// only names the sources that may launch for a node of which others owe an answer.
func (p planning) only(n Node, not map[string]bool) string {
	var names []string
	for _, s := range p.allowed(group{nodes: []Node{n}, not: not}, p.pools[n.Pool]) {
		names = append(names, s.Provider)
	}
	return strings.Join(names, " ")
}

// owed says of the sources that owe an answer for a node of the group why they launch nothing for it.
func (p planning) owed(g group, pool Pool) (r remains) {
	if len(g.not) == 0 {
		return r
	}
	for _, s := range p.wished(g, pool) {
		if !g.not[s.Provider] {
			continue
		}
		why, retry := p.place(s)+": what became of a launch is not known yet", retryAt(p.mem.holds[g.job], p.now)
		if text, stopped := p.mem.stopped(s.Name, s.Provider); stopped {
			why, retry = text, p.now.Add(maxRetry)
		} else if ch := s.Fleet.Choose(p.query(s, g, Wanted)); !ch.Retry.IsZero() {
			why, retry = p.none(s, ch), ch.Retry
		}
		r.add(why, retry)
	}
	return r
}

// doubtFor is how long the outcome of a launch may be unknown until its nodes are
// launched at another provider, where their pool has one.
const doubtFor = time.Minute

// forsaken says that the launch's nodes may go to another provider: nobody waits
// for its outcome any more, which is learnt all the same. What comes of it late is
// nobody's node, and ends. Of a source that the pool has no more nobody waits for one at all.
func (p planning) forsaken(l Launch) bool {
	pool, known := p.pools[p.mem.poolOf(l)]
	_, is := pool.source(l.Provider)
	return l.State == Abandoned && known && (!is || p.now.Sub(l.Created) > doubtFor && len(pool.Then) > 0)
}
