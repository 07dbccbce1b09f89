package power

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/cloud/fleet"
)

// planning turns wanted nodes into launches. It is pure.
type planning struct {
	mem         *memory
	pools       map[string]Pool
	limits      map[string]cloud.Limits // by provider
	market      market
	cluster     string
	bootTimeout time.Duration // of pools that have none of their own
	now         time.Time
	price       func(provider string, o cloud.Offering) (float64, bool)
	cores       func(provider, instanceType string) (int, bool)
	shut        map[string]bool   // pools that launch nothing now
	servers     serving           // which are not counted on any more, and why they were given back
	taken       map[uint32]kind   // what this round chose for a job
	of          map[uint32][]Node // the nodes of each job
}

// planned is what a plan comes to.
type planned struct {
	Change           // what is given back or begun anew: to be committed at once
	drafts []draft   // launches, to be prepared and then written
	wait   time.Time // when to plan again; zero: when something happens
}

// draft is a launch that is not in the journal yet, with its nodes as they were.
type draft struct {
	Launch
	job   uint32
	nodes []Node
}

// group is nodes that one launch may fill: those of one job that needs them
// all, or a pool's nodes of which each serves on its own.
type group struct {
	pool  string
	job   uint32 // 0: not all or nothing
	nodes []Node
	late  bool // no instance could become a node in time any more
}

// plan returns the launches to write for the wanted nodes, and the freeing of
// those for which no offering is left. A node is passed over while an older
// instance of it still lives (it may hold the node's port, and its processes
// may write what the next ones read), or while an older launch for it has an
// unknown outcome. Of a job that needs all its nodes, all are launched or none.
func (p planning) plan() planned {
	var out planned
	groups := p.groups()
	p.taken, p.of = map[uint32]kind{}, map[uint32][]Node{}
	for _, n := range p.mem.inPhase(Wanted, Launching, Booting, Up) {
		p.of[n.Job] = append(p.of[n.Job], n)
	}
	choices := make([]fleet.Choice, len(groups))
	passed, parts := map[uint32]bool{}, map[uint32]int{} // jobs that cannot be launched now; launches of each
	for i, g := range groups {
		if passed[g.job] {
			continue
		}
		ch, ok := p.choose(&out, g)
		choices[i] = ch
		if g.job != 0 {
			passed[g.job] = !ok
			parts[g.job] += (len(g.nodes) + p.most(g) - 1) / p.most(g)
		}
	}
	for i, g := range groups {
		ch := choices[i]
		if ch.Offering == (cloud.Offering{}) || passed[g.job] {
			continue
		}
		if !p.limits[p.pools[g.pool].Provider].Choice || parts[g.job] > 1 || len(p.of[g.job]) > len(g.nodes) && g.job != 0 {
			ch.Or = nil // the parts of a job are to be of one kind
		}
		for nodes := range slices.Chunk(g.nodes, p.most(g)) {
			out.drafts = append(out.drafts, p.draft(g, ch, nodes))
		}
	}
	return out
}

// most is how many nodes one launch of a group may have.
func (p planning) most(g group) int {
	return max(1, p.limits[p.pools[g.pool].Provider].MaxLaunch)
}

// choose picks the offering for a group. If there is none now, it plans what
// becomes of the group: it waits, or is given back.
func (p planning) choose(out *planned, g group) (fleet.Choice, bool) {
	pool, ok := p.pools[g.pool]
	why, stopped := p.mem.stopped(g.pool)
	switch {
	case stopped:
		p.halt(&out.Change, g, why)
		return fleet.Choice{}, false
	case !ok:
		p.free(&out.Change, g, fmt.Sprintf("pool %s has left the configuration", g.pool), retryAt(Hold{}, p.now))
		return fleet.Choice{}, false
	case p.unserved(pool) != "":
		p.waitFor(&out.Change, g, p.unserved(pool))
		return fleet.Choice{}, false
	case g.late:
		p.free(&out.Change, g, tooLate(p.market, g.pool, p.timeout(g.pool)), retryAt(p.mem.holds[g.job], p.now))
		return fleet.Choice{}, false
	case p.shut[g.pool]:
		return fleet.Choice{}, false
	}
	k, found, known := p.sibling(g, pool, pool.Fleet.Offerings())
	if !known {
		return fleet.Choice{}, false // the answer to the launch of its other nodes tells
	}
	all := p.query(pool, g)
	q := all
	f := p.fleet(pool)
	narrow := f
	if found {
		q.Only = func(o cloud.Offering) bool { return k == kindOf(pool.Provider, o) }
		if len(f.Zones) == 0 {
			narrow.Zones = []string{k.zone} // of the instance that the cloud chose it for
		}
	}
	ch := narrow.Choose(q)
	switch {
	case ch.Offering != (cloud.Offering{}):
		if g.job != 0 {
			p.taken[g.job] = kindOf(pool.Provider, ch.Offering)
		}
		return ch, true
	case !ch.Wait.IsZero():
		if out.wait.IsZero() || ch.Wait.Before(out.wait) {
			out.wait = ch.Wait
		}
		return fleet.Choice{}, false
	}
	if other := f.Choose(all); found && other.Retry.IsZero() && p.again(&out.Change, g) {
		return fleet.Choice{}, false
	}
	p.free(&out.Change, g, p.none(pool, ch), ch.Retry)
	return fleet.Choice{}, false
}

// again has all nodes of a job launched anew, since the offering that some of
// them have got has no room for all. It is false if some are up already: those
// are Slurm's choice.
func (p planning) again(c *Change, g group) bool {
	if slices.ContainsFunc(p.of[g.job], func(n Node) bool { return n.Phase == Up }) {
		return false
	}
	const why = "no room for all nodes of its job"
	for _, n := range p.of[g.job] {
		if n.Phase == Wanted || !n.Whole {
			continue
		}
		if i, ok := p.mem.instances[n.Instance]; ok {
			c.Instances = append(c.Instances, doomed(i, why))
			c.Events = append(c.Events, Event{Time: p.now, Kind: "terminate", Node: n.Name, Instance: i.ID, Pool: n.Pool, Job: n.Job, Text: why})
		}
		n.Phase, n.Since, n.Token, n.Instance, n.AddrSet = Wanted, p.now, "", "", false
		c.Nodes = append(c.Nodes, n)
	}
	return true
}

// groups sorts the wanted nodes that may be launched now.
func (p planning) groups() []group {
	busy := map[string]bool{}
	for node := range p.mem.serving() {
		busy[node] = true
	}
	for _, l := range p.mem.launches {
		for _, node := range l.Nodes {
			busy[node] = true
		}
	}
	type key struct {
		pool        string
		job         uint32
		late, spent bool // of nodes on their own: too late for a launch, or for spot alone
	}
	by := map[key]*group{}
	blocked := map[uint32]bool{} // a job of which a node has to wait
	var keys []key
	for _, n := range p.mem.inPhase(Wanted) {
		k := key{pool: n.Pool}
		if n.Whole {
			k.job = n.Job
		} else {
			waited := p.now.Sub(n.Made)
			k.late, k.spent = p.late(n), !n.Made.IsZero() && waited >= p.fleet(p.pools[n.Pool]).SpotTimeout
		}
		if busy[n.Name] {
			blocked[k.job] = blocked[k.job] || k.job != 0
			continue
		}
		if by[k] == nil {
			by[k] = &group{pool: k.pool, job: k.job}
			keys = append(keys, k)
		}
		by[k].nodes = append(by[k].nodes, n)
		by[k].late = by[k].late || p.late(n)
	}
	slices.SortFunc(keys, func(a, b key) int {
		return cmp.Or(cmp.Compare(a.job, b.job), strings.Compare(a.pool, b.pool), before(a.late, b.late), before(a.spent, b.spent))
	})
	var all []group
	for _, k := range keys {
		if !blocked[k.job] {
			all = append(all, *by[k])
		}
	}
	return all
}

// kind is what all nodes of one job share.
type kind struct{ provider, zone, instanceType string }

func kindOf(provider string, o cloud.Offering) kind { return kind{provider, o.Zone, o.Type} }

// before sorts what is so to the front.
func before(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	}
	return 1
}

// sibling is the kind that the job's other nodes already have, if the pool
// offers it: Slurm may give a job nodes of pools that have nothing in common.
// It is not known while a launch of theirs has a choice.
func (p planning) sibling(g group, pool Pool, offerings []cloud.Offering) (k kind, found, known bool) {
	if g.job == 0 {
		return kind{}, false, true
	}
	offered := func(k kind) bool {
		return slices.ContainsFunc(offerings, func(o cloud.Offering) bool {
			if len(pool.Fleet.Zones) == 0 {
				o.Zone = k.zone // any will do
			}
			return k == kindOf(pool.Provider, o)
		})
	}
	if k, ok := p.taken[g.job]; ok && offered(k) {
		return k, true, true
	}
	for _, n := range p.of[g.job] {
		var k kind
		if l, ok := p.mem.launches[n.Token]; ok && n.Phase == Launching {
			if len(l.Request.Or) > 0 {
				return kind{}, false, false
			}
			k = kindOf(l.Provider, l.Request.Offering)
		} else if i, ok := p.mem.instances[n.Instance]; ok && i.Doomed == "" {
			k = kindOf(i.Provider, i.Offering)
		}
		if offered(k) {
			return k, true, true
		}
	}
	return kind{}, false, true
}

// free gives a group's nodes back, and with them all other nodes of the job.
func (p planning) free(c *Change, g group, why string, retry time.Time) {
	give(c, p.mem, p.mem.whole(g.nodes, nil), why, p.now)
	jobs := map[uint32]bool{}
	for _, n := range g.nodes {
		if n.Job != 0 && !jobs[n.Job] {
			jobs[n.Job] = true
			hold(c, p.mem, n.Job, retry, why)
		}
	}
}
