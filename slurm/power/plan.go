package power

import (
	"cmp"
	"crypto/rand"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/cloud/fleet"
)

// planning turns wanted nodes into launches. It is pure.
type planning struct {
	mem       *memory
	pools     map[string]Pool
	maxLaunch map[string]int // by provider
	cluster   string
	now       time.Time
	taken     map[uint32]kind   // what this round chose for a job
	of        map[uint32][]Node // the nodes of each job
}

// group is nodes that one launch may fill: those of one job that needs them
// all, or a pool's nodes of which each serves on its own.
type group struct {
	pool  string
	job   uint32 // 0: not all or nothing
	nodes []Node
}

// plan returns the launches to write for the wanted nodes, and the freeing of
// those for which no offering is left. A node is passed over while an older
// instance of it still lives (it may hold the node's port, and its processes
// may write what the next ones read), or while an older launch for it has an
// unknown outcome. Of a job that needs all its nodes, all are launched or none.
func (p planning) plan() Change {
	var c Change
	groups := p.groups()
	p.taken, p.of = map[uint32]kind{}, map[uint32][]Node{}
	for _, n := range p.mem.inPhase(Wanted, Launching, Booting, Up) {
		p.of[n.Job] = append(p.of[n.Job], n)
	}
	offerings := make([]cloud.Offering, len(groups))
	passed := map[uint32]bool{} // jobs that cannot be launched now
	for i, g := range groups {
		if passed[g.job] {
			continue
		}
		o, ok := p.choose(&c, g)
		offerings[i] = o
		if g.job != 0 {
			passed[g.job] = !ok
		}
	}
	for i, g := range groups {
		if offerings[i] == (cloud.Offering{}) || passed[g.job] {
			continue
		}
		pool := p.pools[g.pool]
		for nodes := range slices.Chunk(g.nodes, max(1, p.maxLaunch[pool.Provider])) {
			p.launch(&c, g, pool, offerings[i], nodes)
		}
	}
	return c
}

// choose picks the offering for a group. If there is none, it plans what
// becomes of the group.
func (p planning) choose(c *Change, g group) (cloud.Offering, bool) {
	if why, stopped := p.mem.stopped(g.pool); stopped {
		p.halt(c, g, why)
		return cloud.Offering{}, false
	}
	pool := p.pools[g.pool]
	offerings := pool.Fleet.Offerings()
	cool := map[cloud.Offering]fleet.Cooldown{}
	for k, v := range p.mem.cool {
		if k.provider == pool.Provider {
			cool[k.offering] = v
		}
	}
	of := offerings
	if k, ok := p.sibling(g, pool, offerings); ok {
		of = slices.DeleteFunc(slices.Clone(offerings), func(o cloud.Offering) bool { return k != kindOf(pool.Provider, o) })
	}
	o, retry, ok := fleet.Next(of, cool, p.now)
	if ok {
		if g.job != 0 {
			p.taken[g.job] = kindOf(pool.Provider, o)
		}
		return o, true
	}
	if _, _, open := fleet.Next(offerings, cool, p.now); open && p.again(c, g) {
		return o, false
	}
	p.free(c, g, retry, of)
	return o, false
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

func (p planning) launch(c *Change, g group, pool Pool, o cloud.Offering, nodes []Node) {
	l := Launch{
		Token: rand.Text(), Provider: pool.Provider, State: Written, Created: p.now,
		Request: cloud.LaunchRequest{
			Cluster: p.cluster, Pool: pool.Name, Offering: o, Count: len(nodes), Image: pool.Image,
			UserData: pool.UserData, Tags: pool.Tags, AllOrNothing: g.job != 0,
		},
	}
	l.Request.Token = l.Token
	for _, n := range nodes {
		l.Nodes = append(l.Nodes, n.Name)
		n.Phase, n.Since, n.Token = Launching, p.now, l.Token
		c.Nodes = append(c.Nodes, n)
	}
	c.Launches = append(c.Launches, l)
	c.Events = append(c.Events, Event{Time: p.now, Kind: "launch", Pool: pool.Name, Job: g.job,
		Text: fmt.Sprintf("%d × %s", len(nodes), o)})
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
		pool string
		job  uint32
	}
	by := map[key]*group{}
	blocked := map[uint32]bool{} // a job of which a node has to wait
	var keys []key
	for _, n := range p.mem.inPhase(Wanted) {
		k := key{pool: n.Pool}
		if n.Whole {
			k.job = n.Job
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
	}
	slices.SortFunc(keys, func(a, b key) int { return cmp.Or(cmp.Compare(a.job, b.job), strings.Compare(a.pool, b.pool)) })
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

// sibling is the kind that the job's other nodes already have, if the pool
// offers it: Slurm may give a job nodes of pools that have nothing in common.
func (p planning) sibling(g group, pool Pool, offerings []cloud.Offering) (kind, bool) {
	if g.job == 0 {
		return kind{}, false
	}
	offered := func(k kind) bool {
		return slices.ContainsFunc(offerings, func(o cloud.Offering) bool { return k == kindOf(pool.Provider, o) })
	}
	if k, ok := p.taken[g.job]; ok && offered(k) {
		return k, true
	}
	for _, n := range p.of[g.job] {
		var k kind
		if l, ok := p.mem.launches[n.Token]; ok && n.Phase == Launching {
			k = kindOf(l.Provider, l.Request.Offering)
		} else if i, ok := p.mem.instances[n.Instance]; ok && i.Doomed == "" {
			k = kindOf(i.Provider, i.Offering)
		}
		if offered(k) {
			return k, true
		}
	}
	return kind{}, false
}

// free gives a group's nodes back, and with them all other nodes of the job.
func (p planning) free(c *Change, g group, retry time.Time, tried []cloud.Offering) {
	names := make([]string, len(tried))
	for i, o := range tried {
		names[i] = o.String()
	}
	why := fmt.Sprintf("no capacity in pool %s (%s)", g.pool, strings.Join(names, ", "))
	if _, ok := p.pools[g.pool]; !ok {
		why, retry = fmt.Sprintf("pool %s has left the configuration", g.pool), retryAt(Hold{}, p.now)
	}
	give(c, p.mem, p.mem.whole(g.nodes, nil), why, p.now)
	jobs := map[uint32]bool{}
	for _, n := range g.nodes {
		if n.Job != 0 && !jobs[n.Job] {
			jobs[n.Job] = true
			hold(c, p.mem, n.Job, retry, why)
		}
	}
}

// give plans that the nodes are freed, and that their instances end.
func give(c *Change, m *memory, nodes []Node, why string, now time.Time) {
	for _, n := range nodes {
		if i, ok := m.instances[n.Instance]; ok && i.Doomed == "" {
			i.Doomed = why
			c.Instances = append(c.Instances, i)
		}
		n.Phase, n.Since, n.Reason, n.Token, n.Instance, n.AddrSet = Freeing, now, why, "", "", false
		c.Nodes = append(c.Nodes, n)
		c.Events = append(c.Events, Event{Time: now, Kind: "free", Node: n.Name, Pool: n.Pool, Job: n.Job, Text: why})
	}
}

// hold plans that the job is told why it waits, and starts again at start.
func hold(c *Change, m *memory, job uint32, start time.Time, why string) {
	if slices.ContainsFunc(c.Holds, func(h Hold) bool { return h.Job == job }) {
		return // one failure, however many nodes of the job have it
	}
	last := m.holds[job]
	c.Holds = append(c.Holds, Hold{Job: job, Restarts: -1, Start: start, Why: why, Tries: last.Tries + 1,
		NoRequeue: last.NoRequeue && !last.Released})
}

// retryAt is when a job starts again whose nodes failed for another reason
// than capacity: after 30 s doubled with each failure in a row, at most 10 minutes.
func retryAt(last Hold, now time.Time) time.Time {
	return now.Add(min(maxRetry, 30*time.Second<<min(last.Tries, 5)))
}

// maxRetry is the longest wait of a job or an offering that failed.
const maxRetry = 10 * time.Minute
