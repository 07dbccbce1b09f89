package power

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/cloud/fleet"
	"github.com/burst-hpc/burst/slurm"
	"github.com/burst-hpc/burst/slurm/hostlist"
)

// pick is what a group is to be launched as: an offering of one source.
type pick struct {
	pool Pool // with that source alone
	fleet.Choice
	passed []string // what would have come before, but has no price
}

// shut is why a source launches nothing now.
type shut struct {
	// brief: in a moment it will be known, so it keeps its place. Else the next
	// source has its turn.
	brief bool
	why   string // for who waits for it, if it is not brief
	until time.Time
}

// remains collects why nothing of a pool's sources is left for a group, and when
// the first of them may have something again.
type remains struct {
	why   []string
	retry time.Time
}

// join adds what others say, once.
func (r *remains) join(o remains) {
	for _, why := range o.why {
		if !slices.Contains(r.why, why) {
			r.add(why, o.retry)
		}
	}
}

func (r *remains) add(why string, retry time.Time) {
	r.why = append(r.why, why)
	if r.retry.IsZero() || retry.Before(r.retry) {
		r.retry = retry
	}
}

// choose picks the source and the offering for a group. The sources are asked in
// their order:
//
//	it has an offering to launch now        that
//	it waits: a pause, spot's timeout,      the group waits with it: fleet's rule holds for
//	or what is under way with it            the first source, and the next is no way around it
//	all of it cools, or is too dear         the next
//	its credentials are refused, it does    the next
//	not answer, or it is stopped
//
// With none left the group is given back with the reasons of all. If all do not
// answer, it waits, as nothing is known of them.
//
// A job some of whose nodes are of a source already has only that one. When that has nothing
// for the others while another source has, all begin anew there: nodes that boot are
// launched again, and for those that are up the job is given back, and gets others (see worthLeaving).
func (p planning) choose(out *planned, g group) (pick, bool) {
	pool, ok := p.pools[g.pool]
	if !ok {
		p.free(&out.Change, g, fmt.Sprintf("pool %s has left the configuration", g.pool), retryAt(Hold{}, p.now))
		return pick{}, false
	}
	var left, quiet remains // quiet: of those that may answer again at any time
	var passed []string
	owed := p.owed(g, pool)
	sources := slices.DeleteFunc(p.allowed(g, pool), func(s Pool) bool {
		why, stopped := p.mem.stopped(s.Name, s.Provider)
		if stopped && !slices.Contains(left.why, why) {
			left.add(why, p.now.Add(maxRetry))
		}
		return stopped
	})
	switch {
	case len(sources) == 0:
		// An admin has to look first: the jobs try again at long intervals.
		left.join(owed)
		p.free(&out.Change, g, strings.Join(left.why, "; "), left.retry)
		return pick{}, false
	case p.unserved(pool) != "":
		p.waitFor(&out.Change, g, p.unserved(pool))
		return pick{}, false
	case g.late:
		p.free(&out.Change, g, p.lateFor(g, pool), retryAt(p.mem.holds[g.job], p.now))
		return pick{}, false
	}
	k, found, known := p.sibling(g, pool.Sources())
	if !known {
		return pick{}, false // the answer to the launch of its other nodes tells
	}
	if found {
		if sources = slices.DeleteFunc(sources, func(s Pool) bool { return s.Provider != k.provider }); len(sources) == 0 {
			left.add("its other nodes are of "+k.provider, retryAt(p.mem.holds[g.job], p.now))
		}
	}
	for _, s := range sources {
		if sh, is := p.shut[sourceKey(s.Name, s.Provider)]; is {
			if sh.brief {
				return pick{}, false
			}
			quiet.add(sh.why, later(sh.until, p.now.Add(leastWait)))
			continue
		}
		p.firstAsked(out, g, s)
		ch := p.offer(g, s, k, found)
		if len(ch.Unpriced) > 0 {
			passed = append(passed, p.unpriced(s, ch.Unpriced))
		}
		switch {
		case ch.Offering != (cloud.Offering{}):
			if g.job != 0 {
				p.taken[g.job] = kindOf(s.Provider, ch.Offering)
			}
			return pick{s, ch, passed}, true
		case !ch.Wait.IsZero():
			if out.wait.IsZero() || ch.Wait.Before(out.wait) {
				out.wait = ch.Wait
			}
			return pick{}, false
		}
		left.add(p.none(s, ch)+p.tooMany(g, s, ch.Tried), ch.Retry)
	}
	moves, soon := p.elsewhere(g, pool)
	if found && soon && !moves {
		return pick{}, false // in a moment it is known
	}
	moves = moves && found
	if len(left.why) == 0 { // none of them answers
		if until := p.patience(g, k.provider); !moves || p.now.Before(until) {
			quiet.join(owed)
			p.quiet(out, g, quiet.why)
			if moves && (out.wait.IsZero() || until.Before(out.wait)) {
				out.wait = until
			}
			return pick{}, false
		}
	} else if moves && p.again(&out.Change, g) {
		return pick{}, false
	}
	left.join(quiet)
	left.join(owed)
	if moves && p.worthLeaving(g, pool, k) && p.leave(&out.Change, g, k) {
		// It need not wait for what those are of.
		_, to := k.words(pool)
		left.why = append(left.why, "its nodes begin anew "+to)
		left.retry = retryAt(p.mem.holds[g.job], p.now)
	}
	if g.job != 0 {
		p.waste(&out.Change, p.whole(g.nodes))
	}
	p.free(&out.Change, g, strings.Join(left.why, "; "), left.retry)
	return pick{}, false
}

// leastWait is how long a job waits at least for a source that does not answer.
const leastWait = 30 * time.Second

func later(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// offer is what a source offers a group, of the kind that the job's other nodes have.
func (p planning) offer(g group, source Pool, k kind, found bool) fleet.Choice {
	q, f := p.query(source, g, Wanted), p.fleetFor(source, g.nodes)
	if found {
		q.Only = func(o cloud.Offering) bool { return k == kindOf(source.Provider, o) }
		if len(f.Zones) == 0 {
			f.Zones = []string{k.zone} // of the instance that the cloud chose it for
		}
	}
	return f.Choose(q)
}

// elsewhere says that some source would have something for all of a job's nodes, which begin anew there, if need be when
// spot has been waited for; soon: one may have that is busy for a moment.
func (p planning) elsewhere(g group, pool Pool) (now, soon bool) {
	for _, s := range p.allowed(g, pool) {
		_, stopped := p.mem.stopped(s.Name, s.Provider)
		sh, is := p.shut[sourceKey(s.Name, s.Provider)]
		q := p.query(s, g, Wanted, Launching, Booting, Up)
		q.Waited = math.MaxInt64
		if stopped || p.market.refuses(s.Provider, p.now) || is && !sh.brief || !s.Fleet.Choose(q).Retry.IsZero() {
			continue
		}
		now, soon = now || !is, soon || is
	}
	return now, soon
}

// allowed are the pool's sources that may launch for the group: those that the
// job's features name, if they name any, and that do not owe an answer for a node.
func (p planning) allowed(g group, pool Pool) []Pool {
	if len(g.nodes) == 0 {
		return nil
	}
	return slices.DeleteFunc(p.wished(g, pool), func(s Pool) bool { return g.not[s.Provider] })
}

// wished are those that the features name.
func (p planning) wished(g group, pool Pool) []Pool {
	n := g.nodes[0] // those of the others are the same
	left := pool.named(p.market.jobs[n.Job].Features)
	for _, features := range p.wants[n.Name] { // of jobs that share the node; one that wants what the others rule out has no say
		names := pool.named(features)
		both := slices.DeleteFunc(slices.Clone(left), func(s Pool) bool {
			return !slices.ContainsFunc(names, func(o Pool) bool { return o.Provider == s.Provider })
		})
		if len(both) > 0 {
			left = both
		}
	}
	return left
}

// wishes are the features that jobs want which have nodes, by node.
func wishes(jobs map[uint32]slurm.Job) map[string][]string {
	by := map[string][]string{}
	for _, id := range slices.Sorted(maps.Keys(jobs)) {
		j := jobs[id]
		if j.Features == "" || j.State != "CONFIGURING" && j.State != "RUNNING" {
			continue
		}
		nodes, err := hostlist.Expand(j.Nodes)
		if err != nil {
			continue
		}
		for _, n := range nodes {
			by[n] = append(by[n], j.Features)
		}
	}
	return by
}

// sibling is the kind that the job's other nodes already have, if a source
// offers it: Slurm may give a job nodes of pools that have nothing in common. Or if one
// of the pool is up at a source that it has no more: the job is not spread over two clouds.
// It is not known while a launch of theirs has a choice.
func (p planning) sibling(g group, sources []Pool) (k kind, found, known bool) {
	if g.job == 0 {
		return kind{}, false, true
	}
	offered := func(k kind) bool {
		return slices.ContainsFunc(sources, func(s Pool) bool {
			return slices.ContainsFunc(s.Fleet.Offerings(), func(o cloud.Offering) bool {
				if len(s.Fleet.Zones) == 0 {
					o.Zone = k.zone // any will do
				}
				return k == kindOf(s.Provider, o)
			})
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
			if _, is := p.pools[g.pool].source(i.Provider); !is && n.Phase == Up && n.Pool == g.pool {
				return k, true, true
			}
		}
		if offered(k) {
			return k, true, true
		}
	}
	return kind{}, false, true
}
