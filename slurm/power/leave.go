package power

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/slurm"
	"github.com/burst-hpc/burst/slurm/hostlist"
)

// upOf are those of the job's nodes in the group's pool that are up and of the kind.
func (p planning) upOf(g group, k kind) []Node {
	return slices.DeleteFunc(slices.Clone(p.of[g.job]), func(n Node) bool {
		i, ok := p.mem.instances[n.Instance]
		_, serves := p.servers.pools[n.Name]
		return serves || !ok || n.Phase != Up || n.Pool != g.pool || kindOf(i.Provider, i.Offering) != k
	})
}

// worthLeaving says whether the job's nodes of the kind that are up may be left. In a pool of one source what they
// were paid for is lost for a mere hope: no other has been asked for as many. So it is done for no more
// nodes than lack, none of which another job has; when their kind has come short for this job before, so that a
// wait was in vain, or is known to; and when another kind has come short not at all, or not lately.
func (p planning) worthLeaving(g group, pool Pool, k kind) bool {
	source, is := pool.source(k.provider)
	if !is || len(pool.Then) > 0 {
		return true
	}
	up := p.upOf(g, k)
	if len(up) > len(g.nodes) || p.shared(up, g.job) {
		return false
	}
	f := source.Fleet
	if len(f.Zones) == 0 {
		f.Zones = []string{k.zone}
	}
	var same []cloud.Offering
	again := false
	for _, o := range f.Offerings() {
		if kindOf(k.provider, o) != k {
			continue
		}
		if r := p.market.why[coolKey{k.provider, o}]; r.kind != "" && r.kind != cloud.Capacity {
			return false
		}
		same = append(same, o)
		again = again || short(p.mem.holds[g.job].Why, p.place(source), o)
	}
	if !again && p.tooMany(g, source, same) == "" {
		return false
	}
	q := p.query(source, g, Wanted, Launching, Booting, Up)
	q.Waited = math.MaxInt64
	q.Only = func(o cloud.Offering) bool { return o.Type != k.instanceType || o.Zone != k.zone && o.Zone != "" } // "": it may be the same zone again
	for o, c := range q.Cool {
		if c.Failures > 0 {
			c.Until = c.Until.Add(maxRetry)
			q.Cool[o] = c
		}
	}
	return source.Fleet.Choose(q).Retry.IsZero()
}

// short says that a job's hold names the offering of a place as one without capacity, as none does.
func short(why, place string, o cloud.Offering) bool {
	_, rest, found := strings.Cut(why, phrase(cloud.Capacity)+" in "+place+" (")
	all, _, _ := strings.Cut(rest, ")")
	return found && slices.Contains(strings.Split(all, ", "), o.String())
}

// shared says that another job than this has one of the nodes, as last read.
func (p planning) shared(nodes []Node, job uint32) bool {
	for _, j := range p.market.jobs {
		if j.ID == job || j.State == "PENDING" || ended(j) {
			continue
		}
		has, err := hostlist.Expand(j.Nodes)
		if err == nil && slices.ContainsFunc(nodes, func(n Node) bool { return slices.Contains(has, n.Name) }) {
			return true
		}
	}
	return false
}

// leave plans that those of the job's nodes which are up and of the kind are powered down, since
// the job's others cannot be had of it: else Slurm would give the job the same ones again,
// as they are idle. Other jobs on them run to their end, and none comes after. It is false if there are none.
func (p planning) leave(c *Change, g group, k kind) (some bool) {
	what, _ := k.words(p.pools[g.pool])
	why := fmt.Sprintf("job %d cannot have all its nodes of %s", g.job, what)
	for _, n := range p.upOf(g, k) {
		if some = true; n.Reason != "" {
			continue
		}
		n.Reason = why
		c.Nodes = append(c.Nodes, n)
		c.Events = append(c.Events, Event{Time: p.now, Kind: "power-down", Node: n.Name, Instance: n.Instance, Pool: n.Pool, Job: g.job,
			Text: why + ": it is powered down when its jobs have ended, and the job begins anew"})
	}
	return some
}

// words names what a job leaves whose nodes in a pool are of the kind, and where it goes.
func (k kind) words(pool Pool) (what, to string) {
	if _, is := pool.source(k.provider); is && len(pool.Then) == 0 {
		return strings.Trim(k.instanceType+"/"+k.zone, "/"), "in another zone or of another type"
	}
	return k.provider, "at another provider"
}

// leaveNodes has Slurm power down the nodes that are up and are to go, until it shows that. Its
// order to suspend them then ends their records. While their cloud does not answer they are only
// drained: it could not say that their instances are gone, and a job that was given such a
// node again would wait for that.
func (e *Engine) leaveNodes(ctx context.Context) (time.Duration, error) {
	var due time.Duration
	maps.DeleteFunc(e.market.left, func(name string, _ time.Time) bool { return e.mem.nodes[name].Reason == "" })
	reasons := map[string]string{}
	for name, n := range e.mem.nodes {
		if n.Phase != Up || n.Reason == "" {
			continue
		}
		if wait := askAgain - time.Since(e.market.left[name]); wait > 0 {
			due = sooner(due, wait)
			continue
		}
		reasons[name] = n.Reason
	}
	if len(reasons) == 0 {
		return due, nil
	}
	snap, err := e.slurm.Fresh(ctx, time.Now())
	if err != nil {
		return 0, err
	}
	type change struct{ state, why string }
	by := map[change][]string{}
	for name, why := range reasons {
		e.market.left[name] = time.Now()
		to, flag := "power_down_asap", slurm.PowerDown
		if e.away(e.mem.nodes[name]) {
			to, flag = "drain", slurm.Drain
		}
		if powerOf(snap, name) == on && !snap.Nodes[name].State.Has(flag) {
			by[change{to, why}] = append(by[change{to, why}], name)
		}
	}
	for to, nodes := range by {
		slices.Sort(nodes)
		if err := e.slurm.UpdateNodes(ctx, slurm.NodeUpdate{Nodes: nodes, State: to.state, Reason: "burst: " + to.why}); err != nil {
			for name := range reasons {
				delete(e.market.left, name)
			}
			return 0, fmt.Errorf("setting %d nodes %s that are to go: %w", len(nodes), to.state, err)
		}
	}
	return sooner(due, askAgain), nil
}

// away says that the cloud of the node's instance does not tell what becomes of it.
func (e *Engine) away(n Node) bool { return e.deaf(e.mem.instances[n.Instance].Provider) }

// patience is until when a group waits for the provider of its job's other nodes, which does not answer, though
// another might have all of them. Of one that refuses our credentials each launch that tries begins the wait of
// its nodes anew: there it counts from the first refusal, or from Slurm's order.
func (p planning) patience(g group, provider string) time.Time {
	since, ordered := p.now, p.now
	for _, n := range g.nodes {
		if n.Since.Before(since) {
			since = n.Since
		}
		if n.Made.Before(ordered) {
			ordered = n.Made
		}
	}
	if d := p.market.denied[provider]; p.market.refuses(provider, p.now) && d.since.Before(since) {
		since = earlier(since, later(d.since, ordered))
	}
	return since.Add(doubtFor)
}
