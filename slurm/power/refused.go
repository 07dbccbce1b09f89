package power

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/slurm"
	"github.com/burst-hpc/burst/slurm/hostlist"
)

// A job whose pool's providers do not take our credentials waits for new ones, as long as
// ResumeTimeout lasts: nothing else can launch its nodes. But where another pool may have all of them it is
// given back after a minute, and goes there as from a dry pool.

// refusedSince is since when the node has waited for providers of which all that may launch for it refuse our
// credentials; zero: not all do. Where they have refused again since it was ordered, it is not the first to wait.
func (p planning) refusedSince(n Node) (since time.Time) {
	again := true
	for _, s := range p.wished(group{nodes: []Node{n}}, p.pools[n.Pool]) {
		if _, stopped := p.mem.stopped(s.Name, s.Provider); stopped {
			continue
		}
		if !p.market.refuses(s.Provider, p.now) {
			return time.Time{}
		}
		d := p.market.denied[s.Provider]
		since, again = later(since, d.since), again && d.last.After(n.Made)
	}
	if since.IsZero() || again {
		return since
	}
	return later(since, n.Made)
}

// turnBack gives jobs back that have waited for a minute for providers which refuse our credentials, where another
// pool may have them. A launch that may have begun is waited for, of whichever of a job's nodes.
func (e *Engine) turnBack(ctx context.Context) (due time.Duration, err error) {
	if len(e.pools) < 2 || len(e.market.denied) == 0 {
		return 0, nil
	}
	p, _ := e.planning()
	waits, begun := map[uint32][]Node{}, map[uint32]bool{}
	for _, n := range e.mem.inPhase(Wanted, Launching) {
		begun[n.Job] = begun[n.Job] || n.Phase == Launching && (e.flying[n.Token] || e.doubt[n.Token])
		since := p.refusedSince(n)
		if n.Job == 0 || since.IsZero() {
			continue
		}
		waits[n.Job] = append(waits[n.Job], n)
		if wait := doubtFor - p.now.Sub(since); wait > 0 {
			due, begun[n.Job] = sooner(due, wait), true
		}
	}
	maps.DeleteFunc(waits, func(job uint32, _ []Node) bool { return begun[job] })
	const what = "jobs whose launches are refused"
	if len(waits) == 0 {
		return due, nil
	}
	if wait := e.until(what); wait > 0 {
		return sooner(due, wait), nil
	}
	snap, err := e.slurm.Fresh(ctx, p.now)
	if err != nil { // other pools' launches do not wait for it
		e.log.Warn("jobs whose launches are refused wait for Slurm's answer", "error", err)
		return sooner(due, e.failed(what)), nil
	}
	if err := e.commit(ctx, e.booted(snap, e.mem.inPhase(Booting))); err != nil { // what has registered is not given back
		return 0, err
	}
	var c Change
	ids := slices.Sorted(maps.Keys(waits))
	dry, needs, parts := p.dryPools(), e.needsOf(ctx, ids), e.partitions(ctx)
	for _, id := range ids {
		given := e.mem.whole(waits[id], snap)
		moves := func(j slurm.Job) bool {
			if j.State != "CONFIGURING" || !j.Batch || j.HetID != 0 {
				return false // without a script it would end, and of a heterogeneous job's parts each may need another pool
			}
			r := e.route(asksOf(j, needs, parts), dry, snap)
			return len(r.to) > 0 && slices.Contains(r.dry, waits[id][0].Pool)
		}
		if moves(snap.Jobs[id]) && alone(snap, id, given, moves) {
			e.giveBack(&c, id, given)
		}
	}
	if len(c.Holds) == 0 {
		return sooner(due, e.failed(what)), nil
	}
	delete(e.backoff, what)
	return due, e.commit(ctx, c)
}

// alone says that the nodes are all the job's, and whatever else has one of them moves, too: Slurm takes a node
// that goes down from all its jobs.
func alone(snap *slurm.Snapshot, job uint32, nodes []Node, moves func(slurm.Job) bool) bool {
	mine := 0
	for id, j := range snap.Jobs {
		names, err := hostlist.Expand(j.Nodes)
		if err != nil {
			return false // nobody knows
		}
		has := 0
		for _, n := range nodes {
			if slices.Contains(names, n.Name) {
				has++
			}
		}
		if id == job {
			mine = has
		} else if has > 0 && j.State != "PENDING" && !moves(j) {
			return false
		}
	}
	return mine == len(nodes)
}

// giveBack plans that a job's nodes are given back for which no launch has begun, with the refusal as the reason.
func (e *Engine) giveBack(c *Change, job uint32, given []Node) {
	now := time.Now()
	for _, n := range given {
		l, open := e.mem.launches[n.Token]
		if n.Phase != Launching || !open || slices.ContainsFunc(c.Launches, func(o Launch) bool { return o.Token == l.Token }) || e.flying[l.Token] || e.doubt[l.Token] {
			continue
		}
		l.State, l.Resolved = Abandoned, now
		c.Launches = append(c.Launches, l)
		delete(e.backoff, "launch "+l.Token)
		for _, o := range e.claimants(l) { // the others of it are launched anew
			if !slices.ContainsFunc(given, func(g Node) bool { return g.Name == o.Name }) {
				o.Phase, o.Token = Wanted, ""
				c.Nodes = append(c.Nodes, o)
			}
		}
	}
	why := e.market.troubles(e.pools[given[0].Pool])
	give(c, e.mem, given, why, now)
	hold(c, e.mem, job, retryAt(e.mem.holds[job], now), why)
}

// quietRefused notes the jobs whose launches no other source can make, and are refused for our credentials.
func (e *Engine) quietRefused(p planning, out *planned) {
	for _, n := range e.mem.inPhase(Launching) {
		l, open := e.mem.launches[n.Token]
		_, told := e.market.told[asking{n.Job, n.Order}]
		if !open || e.doubt[l.Token] || e.others(l, []Node{n}) || !p.market.refuses(l.Provider, p.now) || !told && e.shut(l.Provider) == 0 {
			continue
		}
		p.quiet(out, group{pool: n.Pool, nodes: []Node{n}}, []string{fmt.Sprintf("%s at %s", phrase(cloud.Auth), l.Provider)})
	}
}
