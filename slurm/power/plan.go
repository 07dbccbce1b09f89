package power

import (
	"slices"
	"sync"
	"time"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/slurm"
)

// planning turns wanted nodes into launches. It is pure.
type planning struct {
	mem         *memory
	pools       map[string]Pool
	limits      map[string]cloud.Limits // by provider
	market      market
	cluster     string
	bootTimeout time.Duration // of pools that have none of their own
	now, loaded time.Time     // loaded: when the journal was
	price       func(provider string, o cloud.Offering) (float64, bool)
	cores       func(provider, instanceType string) (int, bool)
	least       func(provider string, o cloud.Offering) time.Duration
	resume      func(pool string) time.Duration
	shut        map[string]shut               // sources that launch nothing now, by sourceKey
	servers     serving                       // which are not counted on any more, and why they were given back
	wants       map[string][]string           // features that jobs want, by node
	taken       map[uint32]kind               // what this round chose for a job
	of          map[uint32][]Node             // the nodes of each job that are on their way or up
	on          func() map[string][]slurm.Job // the jobs that wait for their nodes, by node
	kept        map[string]bool               // nodes that stay for others
	parts       func() map[uint32][]uint32    // the components of each heterogeneous job
	purse       *purse                        // nil: there is no budget
	priced      func(provider string, o cloud.Offering) bool
}

// planned is what a plan comes to.
type planned struct {
	Change                   // what is given back or begun anew: to be committed at once
	drafts []draft           // launches, to be prepared and then written
	wait   time.Time         // when to plan again; zero: when something happens
	asked  []ask             // sources that have their turn for the first time
	told   map[asking]string // jobs that wait since no source answers: what they are told
	again  []uint32          // jobs that a budget refuses as at their last try
	brief  map[turnOf]string // nodes for which a budget will answer in a moment: why not yet
}

// draft is a launch that is not in the journal yet, with its nodes as they were.
type draft struct {
	Launch
	job    uint32
	nodes  []Node
	where  string   // " at lon", of a pool with several sources
	passed []string // as pick's
}

// group is nodes that one launch may fill: those of one job that needs them
// all, or a pool's nodes of which each serves on its own.
type group struct {
	pool  string
	job   uint32 // 0: not all or nothing
	nodes []Node
	late  bool            // no instance could become a node in time any more
	not   map[string]bool // providers at which an older launch for a node may still come to something
}

// groupOf is the group of one node, of which no launch at these providers can be made.
func groupOf(n Node, not map[string]bool) group {
	g := group{pool: n.Pool, nodes: []Node{n}, not: not}
	if n.Whole {
		g.job = n.Job
	}
	return g
}

// plan returns the launches to write for the wanted nodes, and the freeing of
// those for which no offering is left. A node is passed over while an older
// instance of it still lives (it may hold the node's port, and its processes
// may write what the next ones read), or while an older launch for it has an
// unknown outcome. Of a job that needs all its nodes, all are launched or none.
func (p planning) plan() planned {
	var out planned
	groups := p.groups()
	p.taken, p.of = map[uint32]kind{}, p.mem.byJob()
	p.on = sync.OnceValue(func() map[string][]slurm.Job { return configuring(p.market.jobs) })
	p.parts, p.kept = sync.OnceValue(p.market.parts), map[string]bool{}
	picks := make([]pick, len(groups))
	p.quietEnds(&out)
	given := p.leaveNames(&out)
	passed, parts := map[uint32]bool{}, map[uint32]int{} // jobs that cannot be launched now; launches of each
	for i, g := range groups {
		if passed[g.job] || slices.ContainsFunc(g.nodes, func(n Node) bool { return given[n.Name] }) {
			continue
		}
		ch, ok := p.choose(&out, g)
		picks[i] = ch
		if g.job != 0 {
			passed[g.job] = !ok
			parts[g.job] += (len(g.nodes) + p.most(ch.pool) - 1) / p.most(ch.pool)
		}
	}
	p.freeParts(&out, groups, picks)
	for i, g := range groups {
		if !p.limits[picks[i].pool.Provider].Choice || parts[g.job] > 1 || len(p.of[g.job]) > len(g.nodes) && g.job != 0 {
			picks[i].Or = nil // the parts of a job are to be of one kind
		}
	}
	if turn := p.takeTurns(&out, groups, picks, passed); !turn.IsZero() && (out.wait.IsZero() || turn.Before(out.wait)) {
		out.wait = turn
	}
	p.heedBudget(&out, groups, picks, passed)
	p.unkeep(&out.Change)
	for i, g := range groups {
		ch := picks[i]
		if ch.Offering == (cloud.Offering{}) || passed[g.job] {
			continue
		}
		for nodes := range slices.Chunk(g.nodes, p.most(ch.pool)) {
			out.drafts = append(out.drafts, p.draft(g, ch, nodes))
		}
	}
	return out
}

// most is how many nodes one launch of a source may have.
func (p planning) most(source Pool) int {
	return max(1, p.limits[source.Provider].MaxLaunch)
}

// again has all nodes of a job launched anew, since the offering that some of
// them have got has no room for all. It is false if some are up already: those
// are Slurm's choice.
func (p planning) again(c *Change, g group) bool {
	if slices.ContainsFunc(p.of[g.job], func(n Node) bool { return n.Phase == Up }) {
		return false
	}
	const why = "no room for all nodes of its job"
	p.waste(c, p.of[g.job])
	for _, n := range p.of[g.job] {
		if n.Phase != Wanted && n.Whole {
			p.anew(c, n, why)
		}
	}
	return true
}

// anew plans that another instance is launched for a node, and that the one it has ends.
func (p planning) anew(c *Change, n Node, why string) {
	now := p.now
	if i, ok := p.mem.instances[n.Instance]; ok {
		c.Instances = append(c.Instances, doomed(i, why))
		c.Events = append(c.Events, Event{Time: now, Kind: "terminate", Node: n.Name, Instance: i.ID, Pool: n.Pool, Job: n.Job, Text: why})
	}
	n.Phase, n.Since, n.Token, n.Instance, n.AddrSet = Wanted, now, "", "", false
	c.Nodes = append(c.Nodes, n)
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

// free gives a group's nodes back, and with them all other nodes of the job, but for those that others have a share of:
// the job loses them with the rest. Of a heterogeneous job all components wait.
func (p planning) free(c *Change, g group, why string, retry time.Time) {
	back, stay := p.whole(g.nodes), []Node(nil)
	shared := func(n Node) bool { return g.job != 0 && len(p.others(c, n)) > 0 }
	if slices.ContainsFunc(back, func(n Node) bool { return !shared(n) }) {
		for _, n := range back {
			if shared(n) {
				stay = append(stay, n)
			}
		}
		back = slices.DeleteFunc(back, shared)
	}
	give(c, p.mem, back, why, p.now)
	for _, n := range stay {
		if !p.keep(c, n) { // whoever had a share of it loses another
			give(c, p.mem, []Node{n}, why, p.now)
		}
	}
	jobs := map[uint32]bool{}
	for _, n := range g.nodes {
		if n.Job == 0 || jobs[n.Job] {
			continue
		}
		jobs[n.Job] = true
		parts := p.partsOf(n.Job)
		start := later(retry, p.paidFor(c, g.pool, n.Job, parts))
		for _, id := range parts {
			hold(c, p.mem, id, start, why)
		}
	}
}
