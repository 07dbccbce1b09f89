package power

import (
	"maps"
	"time"
)

// ask is a node's want of a source, for one order of Slurm's.
type ask struct {
	node, provider string
	made           int64 // of the order
}

func askOf(n Node, source Pool) ask { return ask{n.Name, source.Provider, n.Made.UnixNano()} }

// since is from when on spot alone is waited for at a source for a node: at the pool's first
// source from Slurm's order, at another from when it had its turn.
func (p planning) since(n Node, source Pool) time.Time {
	if source.Provider == p.pools[n.Pool].Provider {
		return n.Made
	}
	if t, ok := p.market.asked[askOf(n, source)]; ok {
		return t
	}
	return p.now
}

// firstAsked notes that a source has its turn for a group.
func (p planning) firstAsked(out *planned, g group, source Pool) {
	for _, n := range g.nodes {
		if source.Provider != p.pools[n.Pool].Provider {
			out.asked = append(out.asked, askOf(n, source))
		}
	}
}

// noteAsked remembers which sources had their turn, for as long as it matters. A burstd that
// is started again waits for spot anew.
func (e *Engine) noteAsked(out planned) {
	now := time.Now()
	for _, a := range out.asked {
		if _, had := e.market.asked[a]; !had {
			e.market.asked[a] = now
		}
	}
	maps.DeleteFunc(e.market.asked, func(a ask, _ time.Time) bool {
		n, ok := e.mem.nodes[a.node]
		return !ok || n.Made.UnixNano() != a.made || n.Phase == Up || n.Phase == Freeing
	})
}
