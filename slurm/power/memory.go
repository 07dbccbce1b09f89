package power

import (
	"maps"
	"slices"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/cloud/fleet"
	"github.com/burst-hpc/burst/slurm"
)

type coolKey struct {
	provider string
	offering cloud.Offering
}

// memory is the journal's State, by key: a copy that is changed only by what
// has been committed.
type memory struct {
	orders    map[string]Order
	nodes     map[string]Node
	launches  map[string]Launch
	instances map[string]Instance
	holds     map[uint32]Hold
	placed    map[uint32]Hold // of them, those of which the job was left its place at the site, and not told
	unplaced  map[uint32]bool // jobs that could not be given it
	cool      map[coolKey]fleet.Cooldown
	breakers  map[string]Breaker          // by Key
	boots     map[string]Boot             // by node
	fences    map[string]map[uint32]Fence // by instance and job
	heard     map[string]bool             // providers of whose instances the journal knows; "": all
	pause     Pause
	served    map[string]string     // instances that are gone and were servers of files -> their node
	ended     map[string]string     // instances that are gone -> their launch, while that is open: its answers may show them again
	builders  map[string][]Instance // by provider: Standing's, replaced as a whole; not in the journal
	unready   map[string]string     // sourceKey -> what jobs are told, as its nodes could not be set up; not in the journal
}

func newMemory(s State) *memory {
	m := &memory{map[string]Order{}, map[string]Node{}, map[string]Launch{}, map[string]Instance{}, map[uint32]Hold{}, map[uint32]Hold{}, map[uint32]bool{}, map[coolKey]fleet.Cooldown{},
		map[string]Breaker{}, map[string]Boot{}, map[string]map[uint32]Fence{}, map[string]bool{}, s.Pause, map[string]string{}, map[string]string{}, map[string][]Instance{}, nil}
	m.apply(Change{Orders: s.Orders, Nodes: s.Nodes, Launches: s.Launches, Instances: slices.Concat(s.Served, s.Ended, s.Instances), Holds: s.Holds, Coolings: s.Coolings,
		Breakers: s.Breakers, Boots: s.Boots, Fences: s.Fences, Heard: s.Heard})
	return m
}

// clone is a copy that can be changed on its own.
func (m *memory) clone() *memory {
	c := *m
	c.orders, c.nodes, c.launches, c.instances = maps.Clone(m.orders), maps.Clone(m.nodes), maps.Clone(m.launches), maps.Clone(m.instances)
	c.holds, c.cool, c.breakers, c.boots = maps.Clone(m.holds), maps.Clone(m.cool), maps.Clone(m.breakers), maps.Clone(m.boots)
	c.builders, c.placed, c.unplaced = maps.Clone(m.builders), maps.Clone(m.placed), maps.Clone(m.unplaced)
	c.heard, c.served, c.ended = maps.Clone(m.heard), maps.Clone(m.served), maps.Clone(m.ended)
	c.fences = map[string]map[uint32]Fence{}
	for id, fences := range m.fences {
		c.fences[id] = maps.Clone(fences)
	}
	return &c
}

// apply brings in a change that the journal has taken.
func (m *memory) apply(c Change) {
	for _, o := range c.Orders {
		m.orders[o.ID] = o
	}
	for _, id := range c.CloseOrders {
		delete(m.orders, id)
	}
	for _, n := range c.DropNodes {
		delete(m.nodes, n)
	}
	for _, n := range c.Nodes {
		m.nodes[n.Name] = n
	}
	for _, l := range c.Launches {
		m.launches[l.Token] = l
		if !l.Resolved.IsZero() {
			delete(m.launches, l.Token)
			maps.DeleteFunc(m.ended, func(_, token string) bool { return token == l.Token })
		}
	}
	for _, i := range c.Instances {
		m.instances[i.ID] = i
		if i.Serves && !i.Gone.IsZero() {
			m.served[i.ID] = i.Assigned
		}
		if !i.Gone.IsZero() {
			delete(m.instances, i.ID)
			delete(m.fences, i.ID)
			if _, open := m.launches[i.Token]; open {
				m.ended[i.ID] = i.Token
			}
		}
	}
	for _, h := range c.Holds {
		m.holds[h.Job] = h
	}
	for _, j := range c.DropHolds {
		delete(m.holds, j)
	}
	for _, k := range c.Coolings {
		key := coolKey{k.Provider, k.Offering}
		m.cool[key] = k.Cooldown
		if k.Failures == 0 && k.Paid.IsZero() {
			delete(m.cool, key)
		}
	}
	for _, b := range c.Breakers {
		m.breakers[b.Key()] = b
		if b.Failures == 0 && b.Stopped.IsZero() {
			delete(m.breakers, b.Key())
		}
	}
	for _, id := range c.DropFences {
		delete(m.fences, id)
	}
	for _, f := range c.Fences {
		if m.fences[f.Instance] == nil {
			m.fences[f.Instance] = map[uint32]Fence{}
		}
		m.fences[f.Instance][f.Job] = f
	}
	for _, name := range c.Heard {
		m.heard[name] = true
	}
	if c.Pause != nil {
		m.pause = *c.Pause
	}
	for _, b := range c.Boots {
		m.boots[b.Node] = b
		if !b.Ended.IsZero() {
			delete(m.boots, b.Node)
		}
	}
}

// knows says that the journal has the instance, or had it and told its end.
func (m *memory) knows(id string) bool {
	_, have := m.instances[id]
	_, ended := m.ended[id]
	return have || ended
}

// serving lists the live instances of each node, doomed ones too.
func (m *memory) serving() map[string][]Instance {
	by := map[string][]Instance{}
	for _, i := range m.instances {
		if i.Assigned != "" {
			by[i.Assigned] = append(by[i.Assigned], i)
		}
	}
	return by
}

// inPhase lists the nodes in a phase, by name.
func (m *memory) inPhase(phases ...Phase) []Node {
	var names []string // small things are sorted faster
	for name, n := range m.nodes {
		if slices.Contains(phases, n.Phase) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	all := make([]Node, len(names))
	for i, name := range names {
		all[i] = m.nodes[name]
	}
	return all
}

// byJob are the nodes that are on their way or up, by job.
func (m *memory) byJob() map[uint32][]Node {
	by := map[uint32][]Node{}
	for _, n := range m.inPhase(Wanted, Launching, Booting, Up) {
		by[n.Job] = append(by[n.Job], n)
	}
	return by
}

// whole adds to some nodes every other node on its way for a job of theirs
// that needs them all, but for what a reading of Slurm (nil: none) has up: Slurm
// may have given that to another job.
func (m *memory) whole(nodes []Node, snap *slurm.Snapshot) []Node {
	jobs, have := map[uint32]bool{}, map[string]bool{}
	for _, n := range nodes {
		have[n.Name] = true
		jobs[n.Job] = jobs[n.Job] || n.Whole
	}
	all := slices.Clone(nodes)
	for _, n := range m.inPhase(Wanted, Launching, Booting) {
		if n.Whole && jobs[n.Job] && !have[n.Name] && (snap == nil || powerOf(snap, n.Name) != on) {
			all = append(all, n)
		}
	}
	return all
}
