package power

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/burst-hpc/burst/slurm"
	"github.com/burst-hpc/burst/slurm/hostlist"
)

// A server of files is a node that pools need (Pool.Needs). It is launched, watched and
// ended as any other; here is only who asks Slurm for that:
//
//	     wanted nodes of a pool that needs it: power_up
//	off ------------------------------------------------> powering up, up
//	 ^                                                          |
//	 +----------------------------------------------------------+
//	     no such node for Pool.EndUnused, or an admin: power_down
//
// Until it is up, nodes that need it wait, and are not launched. Nothing of this is in the
// journal: after a crash the nodes that wait are there, and what Slurm shows of the server says
// whether it was asked.

// serving is what Run remembers of servers beside the journal.
type serving struct {
	clients map[string][]string  // server -> the pools that need it
	asked   map[string]time.Time // server -> the last power_up
	leaves  map[string]time.Time // server -> power_down
	used    map[string]time.Time // server -> when a node that needs it was there last
	failed  map[string]string    // server -> why it was given back last
	pools   map[string]Pool      // of servers of files, by node
	silent  map[string]bool      // servers that do not answer Slurm
	quiet   map[string]time.Time // server -> the last reading in which it did not
	odd     map[string]sighting  // server -> what is wrong with it
	lost    map[string]bool      // clients' instances whose server has gone, of which that has been told
	told    map[asking]bool      // who has been told
	telling bool
}

// asking is a job with an order of Slurm's for its nodes, of which there is another after a requeue.
type asking struct {
	job   uint32
	order string
}

func newServing(pools []Pool) serving {
	s := serving{clients: map[string][]string{}, asked: map[string]time.Time{}, leaves: map[string]time.Time{}, used: map[string]time.Time{},
		failed: map[string]string{}, told: map[asking]bool{}, pools: map[string]Pool{}, silent: map[string]bool{}, quiet: map[string]time.Time{},
		odd: map[string]sighting{}, lost: map[string]bool{}}
	for _, p := range pools {
		for _, n := range p.Nodes {
			if p.Serves {
				s.pools[n] = p
			}
		}
		for _, n := range p.Needs {
			s.clients[n] = append(s.clients[n], p.Name)
		}
	}
	return s
}

// How often Slurm is asked for a server again that does not come, and how long what a server
// serves is not counted on after Slurm was asked to power it down.
const (
	raiseAgain = 30 * time.Second
	leaveFor   = time.Minute
)

// unserved is the first server that the pool's nodes have to wait for; "": none.
func (p planning) unserved(pool Pool) string {
	for _, name := range pool.Needs {
		if n := p.mem.nodes[name]; n.Phase != Up || !n.AddrSet || p.servers.silent[name] || p.now.Sub(p.servers.leaves[name]) < leaveFor {
			return name
		}
	}
	return ""
}

// waitFor plans what becomes of a group whose pool's server is not up: it waits, but is given back
// when the server's pool is stopped, or when it could not boot in time any more.
func (p planning) waitFor(c *Change, g group, server string) {
	of := ""
	for name, pool := range p.pools {
		if slices.Contains(pool.Nodes, server) {
			of = name
		}
	}
	if why, stopped := p.mem.stopped(of, p.pools[of].Provider); stopped { // an admin has to look first
		p.free(c, g, fmt.Sprintf("server %s, which its nodes mount from: %s", server, why), p.now.Add(maxRetry))
		return
	}
	if g.late {
		why := fmt.Sprintf("pool %s: server %s, which its nodes mount from, was not up within %s", g.pool, server, lateAfter(p.timeout(g.pool)))
		if failed := p.servers.failed[server]; failed != "" {
			why += ": " + failed
		} else if p.servers.silent[server] {
			why += ": it does not answer Slurm"
		}
		p.free(c, g, oneLine(why), retryAt(p.mem.holds[g.job], p.now))
	}
}

// seeToServers asks Slurm to power up the servers that wanted nodes need, and to power down those
// that nothing needs any more.
func (e *Engine) seeToServers(ctx context.Context) (time.Duration, error) {
	if len(e.servers.clients) == 0 {
		return 0, nil
	}
	raise, end, due := e.serversDue(time.Now())
	if len(end) == 0 && !e.newsOf(raise) {
		return due, nil
	}
	snap, err := e.slurm.Fresh(ctx, time.Now())
	if err != nil {
		return 0, fmt.Errorf("servers of files wait for Slurm's answer: %w", err)
	}
	for _, name := range slices.Sorted(maps.Keys(raise)) {
		e.tellWaiting(ctx, name, raise[name], snap)
		if !e.askable(name) {
			continue
		}
		e.servers.asked[name] = time.Now()
		if powerOf(snap, name) != off {
			continue // on its way, or going
		}
		if err := e.askFor(ctx, "power_up", Event{Kind: "server-wanted", Node: name,
			Text: fmt.Sprintf("Slurm is asked to power it up: %s mount what it serves", folded(raise[name]))}); err != nil {
			return 0, err
		}
	}
	for _, name := range end {
		if powerOf(snap, name) != on || !e.unneeded(snap, name) { // also if Slurm has it otherwise: troubleOf says so
			e.servers.used[name] = time.Now()
			continue
		}
		e.servers.leaves[name] = time.Now() // also if Slurm's answer is lost
		if err := e.askFor(ctx, "power_down", Event{Kind: "server-unused", Node: name, Text: fmt.Sprintf("no node has mounted what it serves for %s: "+
			"Slurm is asked to power it down, and its files go with it", e.pools[e.poolOf[name]].EndUnused)}); err != nil {
			return 0, err
		}
	}
	return due, nil
}

// askable says that Slurm may be asked for the server: the journal does not have it on its way, and
// Slurm was not asked just now.
func (e *Engine) askable(server string) bool {
	_, have := e.mem.nodes[server]
	return !have && time.Since(e.servers.asked[server]) >= raiseAgain
}

// newsOf says whether there is anything to ask or to tell for servers that are wanted, for which Slurm
// is read.
func (e *Engine) newsOf(raise map[string][]Node) bool {
	for name, nodes := range raise {
		if e.askable(name) || !e.servers.telling && slices.ContainsFunc(nodes, e.untold) {
			return true
		}
	}
	return false
}

func (e *Engine) untold(n Node) bool { return n.Job != 0 && !e.servers.told[asking{n.Job, n.Order}] }

// serversDue are the servers that are to be raised, each with the nodes that wait for it, and
// those to end, if Slurm says so too.
func (e *Engine) serversDue(now time.Time) (raise map[string][]Node, end []string, due time.Duration) {
	raise = map[string][]Node{}
	there := map[string]bool{} // pools that have a node or an instance
	for _, n := range e.mem.nodes {
		there[n.Pool] = true
	}
	for _, i := range e.mem.instances {
		there[i.Pool] = true
	}
	waits := map[asking]bool{}
	for _, n := range e.mem.inPhase(Wanted) {
		waits[asking{n.Job, n.Order}] = true
		if _, stopped := e.mem.stopped(n.Pool, e.pools[n.Pool].Provider); stopped {
			continue
		}
		for _, server := range e.pools[n.Pool].Needs {
			of := e.poolOf[server]
			if _, stopped := e.mem.stopped(of, e.pools[of].Provider); !stopped && (e.mem.nodes[server].Phase != Up || e.servers.silent[server]) {
				raise[server] = append(raise[server], n)
				if _, have := e.mem.nodes[server]; !have {
					due = sooner(due, max(time.Second, raiseAgain-now.Sub(e.servers.asked[server])))
				}
			}
		}
	}
	maps.DeleteFunc(e.servers.told, func(a asking, _ bool) bool { return !waits[a] })
	for name, pools := range e.servers.clients {
		n := e.mem.nodes[name]
		switch n.Phase {
		case Freeing:
			e.servers.failed[name] = n.Reason
		case Up:
			delete(e.servers.failed, name)
		}
		if slices.ContainsFunc(pools, func(p string) bool { return there[p] }) {
			e.servers.used[name] = now
		}
		after := e.pools[e.poolOf[name]].EndUnused
		if after == 0 || n.Phase != Up || now.Sub(e.servers.leaves[name]) < leaveFor {
			continue
		}
		since := n.Since
		for _, t := range []time.Time{e.loaded, e.servers.used[name]} {
			if t.After(since) {
				since = t
			}
		}
		if left := since.Add(after).Sub(now); left > 0 {
			due = sooner(due, left)
		} else {
			end = append(end, name)
		}
	}
	slices.Sort(end)
	return raise, end, due
}

// unneeded says that Slurm has all nodes off of the pools that need the server, and that no job waits for
// any of them: as one does whose nodes cannot be had now, or that is held.
func (e *Engine) unneeded(snap *slurm.Snapshot, server string) bool {
	parts := map[string]bool{}
	for _, pool := range e.servers.clients[server] {
		parts[e.pools[pool].Partition] = true
		for _, n := range e.pools[pool].Nodes {
			for _, p := range snap.Nodes[n].Partitions { // a site's own may take them in too
				parts[p] = true
			}
			if powerOf(snap, n) != off {
				return false
			}
		}
	}
	for _, j := range snap.Jobs {
		if j.State == "PENDING" && slices.ContainsFunc(strings.Split(j.Partition, ","), func(p string) bool { return p != "" && parts[p] }) {
			return false
		}
	}
	return true
}

// askFor has Slurm power the server of an event up or down, and notes that it was asked.
func (e *Engine) askFor(ctx context.Context, state string, ev Event) error {
	if err := e.slurm.UpdateNodes(ctx, slurm.NodeUpdate{Nodes: []string{ev.Node}, State: state}); err != nil {
		return fmt.Errorf("asking Slurm to %s server %s: %w", state, ev.Node, err)
	}
	ev.Time, ev.Pool = time.Now(), e.poolOf[ev.Node]
	return e.commit(ctx, Change{Events: []Event{ev}})
}

func folded(nodes []Node) string {
	var all []string
	for _, n := range nodes {
		all = append(all, n.Name)
	}
	return hostlist.Fold(all)
}

// Servers are the addresses of those servers that the node's pool needs and that are up, by their nodes.
func (e *Engine) Servers(node string) map[string]string {
	e.mu.Lock()
	defer e.mu.Unlock()
	all := map[string]string{}
	for _, name := range e.pools[e.poolOf[node]].Needs {
		n := e.mem.nodes[name]
		if i, ok := e.mem.instances[n.Instance]; ok && n.Phase == Up && i.Doomed == "" && i.Addr != "" {
			all[name] = i.Addr
		}
	}
	return all
}
