package power

import (
	"fmt"
	"slices"
	"time"

	"github.com/burst-hpc/burst/cloud"
)

// spare plans what becomes of instances that their launch's nodes do not need,
// or cannot use: another node of the pool that waits gets one, or it ends.
// Jobs that need several nodes get all that they lack, of one kind, or none.
func (e *Engine) spare(c *Change, l Launch, left []cloud.Instance) {
	provider := l.Provider
	end := func(i cloud.Instance) {
		c.Instances = append(c.Instances, Instance{Instance: i, Provider: provider, Account: e.madeIn(l), Doomed: unwanted})
	}
	left = slices.DeleteFunc(left, func(i cloud.Instance) bool {
		if i.State == cloud.Terminating { // its launch has taken it back
			end(i)
		}
		return i.State == cloud.Terminating
	})
	if len(left) == 0 {
		return
	}
	single, jobs := e.waiting(c)
	for _, n := range single {
		i := slices.IndexFunc(left, func(i cloud.Instance) bool { return e.fits(provider, i, n) })
		if i >= 0 {
			e.reuse(c, l, left[i], n)
			left = slices.Delete(left, i, i+1)
		}
	}
	for _, nodes := range jobs {
		for _, like := range left {
			var fit []cloud.Instance
			for _, i := range left {
				same := kindOf(provider, i.Offering) == kindOf(provider, like.Offering)
				if same && !slices.ContainsFunc(nodes, func(n Node) bool { return !e.fits(provider, i, n) }) {
					fit = append(fit, i)
				}
			}
			if len(fit) < len(nodes) {
				continue
			}
			for at, n := range nodes {
				e.reuse(c, l, fit[at], n)
			}
			left = slices.DeleteFunc(left, func(i cloud.Instance) bool {
				return slices.ContainsFunc(fit[:len(nodes)], func(f cloud.Instance) bool { return f.ID == i.ID })
			})
			break
		}
	}
	for _, i := range left {
		end(i)
	}
}

// unwanted is why a launch's instance ends that no node needs.
const unwanted = "launched for nobody"

// waiting lists the nodes that may get an instance at once: those that serve on
// their own, and by job those of jobs of which no other node has, or may get, one,
// and none is to be left by others first.
func (e *Engine) waiting(c *Change) (single []Node, jobs [][]Node) {
	busy := map[string]bool{}
	for node := range e.mem.serving() {
		busy[node] = true
	}
	for _, l := range e.mem.launches {
		for _, node := range l.Nodes {
			busy[node] = true
		}
	}
	for _, n := range c.Nodes {
		busy[n.Name] = true
	}
	of, bound := map[uint32][]Node{}, map[uint32]bool{}
	var order []uint32
	for _, n := range e.mem.inPhase(Wanted, Launching, Booting, Up) {
		free := n.Phase == Wanted && !n.clearing() && !busy[n.Name]
		switch {
		case !n.Whole && free:
			single = append(single, n)
		case n.Whole && free:
			if of[n.Job] == nil {
				order = append(order, n.Job)
			}
			of[n.Job] = append(of[n.Job], n)
		case n.Job != 0:
			bound[n.Job] = true
		}
	}
	for _, job := range order {
		if !bound[job] {
			jobs = append(jobs, of[job])
		}
	}
	return single, jobs
}

// fits says whether an instance may become a node: of a source of its pool that
// the node's job may have, of an offering that the source has, and begun after Slurm
// asked, as else its registration would not count.
func (e *Engine) fits(provider string, i cloud.Instance, n Node) bool {
	at := slices.IndexFunc(e.pools[n.Pool].named(e.market.jobs[n.Job].Features), func(s Pool) bool { return s.Provider == provider })
	if _, stopped := e.mem.stopped(n.Pool, provider); stopped || at < 0 || e.poolNow(i, "") != n.Pool || !i.Launched.After(n.Made) {
		return false
	}
	source, _ := e.pools[n.Pool].source(provider)
	return source.sells(i.Offering)
}

func (e *Engine) reuse(c *Change, l Launch, i cloud.Instance, n Node) {
	now := time.Now()
	n.Phase, n.Since, n.Reason, n.Token, n.Instance, n.AddrSet = Booting, now, "", i.Token, i.ID, false
	c.Nodes = append(c.Nodes, n)
	c.Instances = append(c.Instances, Instance{Instance: i, Provider: l.Provider, Account: e.madeIn(l), Assigned: n.Name})
	c.Events = append(c.Events, Event{Time: now, Kind: "instance", Node: n.Name, Instance: i.ID, Pool: n.Pool, Job: n.Job,
		Text: fmt.Sprintf("%s, left over from another launch, is node %s", i.Offering, n.Name)})
}
