package power

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/slurm"
)

// takeLists brings what the clouds say into the journal: changed states,
// instances that are gone, strays.
func (e *Engine) takeLists(c *Change, l *listing, snap *slurm.Snapshot) {
	now := time.Now()
	for id, at := range e.closed {
		if at.Before(l.began) {
			delete(e.closed, id)
		}
	}
	live := map[string]bool{}
	for name, list := range l.lists {
		for _, i := range list {
			live[i.ID] = i.State.Live()
		}
		l.judge(name, e.mem)
	}
	l.answer = map[string]bool{}
	for name := range snap.Nodes {
		l.answer[name] = powerOf(snap, name) == on
	}
	for _, name := range slices.Sorted(maps.Keys(l.lists)) {
		list := l.lists[name]
		known := e.learn(list)
		e.place(&known, l, name)
		c.Instances, c.Events = append(c.Instances, known.Instances...), append(c.Events, known.Events...)
		e.placeLaunches(c, l, name)
		e.inherit(c, l, name)
		listed := map[string]bool{}
		var builders []Instance
		for _, i := range list {
			listed[i.ID] = true
			rec, have := e.mem.instances[i.ID]
			serves := rec.Doomed != "" || e.mem.nodes[rec.Assigned].Instance == i.ID
			if _, closed := e.closed[i.ID]; have && serves || closed || !i.State.Live() {
				continue
			}
			_, builder := cloud.BuilderUntil(i.Token) // never was a node's
			if builder && e.cfg.Held != nil && e.cfg.Held(i) {
				builders = append(builders, Instance{Instance: i, Provider: name})
				continue
			}
			i.Node = cmp.Or(i.Node, rec.Assigned, e.mem.served[i.ID])
			if i.Node == "" && !builder {
				if i.Node = e.nodeAt(snap, i); l.says(i) {
					i.Node = ""
				}
			}
			e.takeStray(c, Instance{Instance: i, Provider: name, Account: l.accounts[name], Shown: l.accounts[name] != ""}, e.claim(i, snap, live), l)
		}
		e.mu.Lock()
		e.mem.builders[name] = builders
		e.mu.Unlock()
		e.takeAbsent(c, l, name, listed)
	}
	for id := range e.missing {
		if _, ok := e.mem.instances[id]; !ok {
			delete(e.missing, id)
		}
	}
	maps.DeleteFunc(e.heirs, func(id string, _ time.Time) bool {
		rec, is := e.mem.instances[id]
		o, asked := e.mem.launches[id]
		return !(is && e.providers[rec.Provider] == nil) && !(asked && e.providers[o.Provider] == nil)
	})
	e.takeUnserving(c, now)
	e.tellLeft(c, l)
}

// claim is what can be said of an instance of ours that serves no node of the
// journal. It may say, or its address, that it is a node. If Slurm has that node, and what the
// journal has behind it does not live, then the journal is the older one: a
// backup, or lost.
func (e *Engine) claim(i cloud.Instance, snap *slurm.Snapshot, live map[string]bool) stray {
	_, open := e.mem.launches[i.Token]
	s := stray{launchOpen: open, first: true}
	if i.Node == "" || !e.Owns(i.Node) {
		return s
	}
	n, have := e.mem.nodes[i.Node]
	p := powerOf(snap, i.Node)
	if e.serves(i.Node) {
		return e.claimServer(s, i, p, live)
	}
	switch p {
	case poweringUp:
		s.adoptable = !have
	case on, down:
		s.adoptable, s.up = !have || !live[n.Instance], p == down
		// Of two that live, Slurm's is the one that has registered; the other then serves no node.
		if other, addr := e.mem.instances[n.Instance], snap.Nodes[i.Node].Addr; !s.adoptable && p == on && i.Launched.After(other.Launched) {
			s.adoptable = i.Addr != "" && sameAddr(addr, i.Addr) && !sameAddr(addr, other.Addr)
		}
	}
	return s
}

// nodeAt finds the node of an instance that does not say it, as when burstd
// died before the cloud was told: the one node of its pool that Slurm has up, or
// down, at its address. Of a node that powers up the address may be an older
// instance's; of two at one address nothing is known.
func (e *Engine) nodeAt(snap *slurm.Snapshot, i cloud.Instance) (node string) {
	if i.Addr == "" {
		return ""
	}
	for _, name := range e.pools[e.poolNow(i, "")].Nodes {
		n := snap.Nodes[name]
		if n.Addr == "" || !sameAddr(n.Addr, i.Addr) {
			continue
		}
		if p := powerOf(snap, name); p != on && p != down {
			continue
		}
		if node != "" {
			return ""
		}
		node = name
	}
	return node
}

// says tells whether another instance that does not end says that it is the node, at the same address: two clouds' private
// networks may have the same, and Slurm's is the one that was told its name.
func (l *listing) says(i cloud.Instance) bool {
	for _, list := range l.lists {
		if slices.ContainsFunc(list, func(o cloud.Instance) bool {
			return o.ID != i.ID && i.Node != "" && o.Node == i.Node && o.State.Live() && o.State != cloud.Terminating && sameAddr(o.Addr, i.Addr)
		}) {
			return true
		}
	}
	return false
}

func (e *Engine) takeStray(c *Change, rec Instance, s stray, l *listing) {
	now := time.Now()
	s.first, s.young = !e.heard[rec.Provider], l.began.Sub(rec.Launched) <= e.providers[rec.Provider].Limits().Lag
	ev := Event{Time: now, Node: rec.Node, Instance: rec.ID, Pool: rec.Pool}
	switch a := s.decide(); a {
	case adopt:
		e.plan(Planned{Kind: string(a), Node: rec.Node, Instance: rec.ID, Why: "the journal does not know that it is this node"})
		rec.Assigned = rec.Node
		n := Node{Name: rec.Node, Pool: e.poolOf[rec.Node], Phase: Booting, Since: now, Made: rec.Launched, Instance: rec.ID}
		if s.up {
			n.Phase, n.AddrSet = Up, s.unknown
			if e.serves(rec.Node) {
				n.Made = now // orders of before were for what seemed to be gone
			}
		}
		if slices.ContainsFunc(c.Nodes, func(o Node) bool { return o.Name == n.Name }) {
			return // two say that they are one node: the next round ends the second
		}
		c.Nodes = append(c.Nodes, n)
		if !s.up && !l.answer[rec.Node] && !e.serves(rec.Node) {
			// It may be from before Slurm gave the node up and called it anew: the journal that would tell is lost.
			c.Fences = append(c.Fences, Fence{Instance: rec.ID, Node: rec.Node, Since: now})
		}
		c.Actions = append(c.Actions, string(adopt))
		ev.Kind, ev.Text = "adopt", fmt.Sprintf("%s is node %s, which the journal did not know", rec.Offering, rec.Node)
	case terminate, leave:
		_, served := e.mem.served[rec.ID]
		served = served && !e.Owns(rec.Node) // its pool has left the configuration
		if _, have := e.mem.instances[rec.ID]; have || s.launchOpen || a == leave && !e.Owns(rec.Node) && !served {
			return // the launcher claims or ends it, or takeUnserving does; or it is too early to say
		}
		if served || e.serves(rec.Node) {
			e.keepStray(c, rec)
			return
		}
		if e.Owns(rec.Node) {
			rec.Assigned = rec.Node // no other is launched for the node while it lives
		}
		why := "an orphan: no node and no launch of ours has it"
		if e.plan(Planned{Kind: string(terminate), Node: rec.Node, Instance: rec.ID, Why: why, Settling: a == leave}) {
			return
		}
		if rec.Assigned != "" {
			// It was that node, and Slurm may have given it up before the journal was lost.
			c.Fences = append(c.Fences, Fence{Instance: rec.ID, Node: rec.Assigned, Since: now})
		}
		if a == leave || !e.mayEnd() {
			if rec.Assigned != "" {
				c.Instances = append(c.Instances, rec)
			}
			return
		}
		rec.Doomed = why
		c.Actions = append(c.Actions, string(terminate))
		ev.Kind, ev.Text = "terminate", why
	}
	c.Instances, c.Events = append(c.Instances, rec), append(c.Events, ev)
}
