package power

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/slurm"
	"github.com/burst-hpc/burst/slurm/hostlist"
)

// A pool is dry while none of its sources has anything to launch. Slurm knows nothing
// of that: it would give a job the same nodes again, though another pool of the job's
// partitions, or the site, has some. So those of the dry pool's nodes that are off are set aside, for a moment if it is dry
// only for a job that needs so many nodes:
//
//	        a job found it dry, and may run elsewhere: reserved
//	in use -------------------------------------------------------------> set aside
//	  ^                                                                       |
//	  +-----------------------------------------------------------------------+
//	        it is not dry any more; or the reservation's time is over
//
// A reservation, not DOWN or DRAIN: these end a job that Slurm gives the node in the same
// moment, for good if it has --no-requeue, and would have to be undone whatever
// becomes of burstd. A reservation ends by itself and lets jobs and nodes be as they are.
// Nothing of this is in the journal: the job's hold says which pool was dry, and a new
// burstd removes the reservations of pools that are not.

// asideName names the reservation of a dry pool's nodes.
func asideName(pool string) string { return "burst-dry-" + pool }

// dryness is what Run remembers of dry pools and their jobs.
type dryness struct {
	aside map[string]aside     // by pool; at the start all, as an earlier burstd may have left them
	open  map[uint32]time.Time // jobs of which it is not known yet whether they may run elsewhere, since when
	waits map[uint32]time.Time // those that none can serve, by the start that they have
	alone bool                 // Slurm has been seen to have no nodes but clouds'
}

// aside is a reservation of a dry pool's nodes; without an end it may not be there.
type aside struct {
	made, until time.Time
	nodes       []string
	asked       []string // of names kept from jobs: also those that Slurm does not know
	size        int      // of the job, if the pool is dry for such; 0: it is for all
}

func newDryness(pools []Pool) dryness {
	d := dryness{aside: map[string]aside{}, open: map[uint32]time.Time{}, waits: map[uint32]time.Time{}}
	for _, p := range pools {
		d.aside[p.Name] = aside{}
	}
	return d
}

// failOver sends jobs that found a pool dry to another one, and takes the nodes of pools
// back that are dry no more.
func (e *Engine) failOver(ctx context.Context) (time.Duration, error) {
	waiting := slices.ContainsFunc(slices.Collect(maps.Values(e.mem.holds)), func(h Hold) bool { return !h.Released })
	if !waiting && len(e.dry.aside) == 0 {
		return 0, nil
	}
	p, _ := e.planning()
	dry := p.dryPools()
	due, err := e.takeBack(ctx, dry, p.now)
	holds := e.undecided(dry, p.now)
	if err != nil || len(holds) == 0 {
		return due, err
	}
	snap, err := e.slurm.Fresh(ctx, time.Now())
	if err != nil {
		return 0, err
	}
	return sooner(due, 500*time.Millisecond), e.reroute(ctx, dry, holds, snap)
}

// undecided are the holds of jobs that found a pool dry, which it still is, before they
// are told when they start.
func (e *Engine) undecided(dry dryPools, now time.Time) map[uint32]Hold {
	holds := map[uint32]Hold{}
	pools := slices.Collect(maps.Keys(dry(math.MaxInt))) // reroute sees how many nodes the job needs
	for id, h := range e.mem.holds {
		if h.Released || e.releasing[id] || !h.Start.After(now) || h.Start.Equal(e.dry.waits[id]) || len(e.pools) < 2 && e.dry.alone {
			continue
		}
		if h.namesAny(pools) && !e.freeing(id) {
			holds[id] = h
		}
	}
	maps.DeleteFunc(e.dry.open, func(id uint32, _ time.Time) bool { _, is := holds[id]; return !is })
	maps.DeleteFunc(e.dry.waits, func(id uint32, at time.Time) bool { return !at.Equal(e.mem.holds[id].Start) })
	for id := range holds {
		if e.dry.open[id].IsZero() {
			e.dry.open[id] = now
		}
	}
	return holds
}

// names says that the job waits for want of what the pool offers, or because it is stopped.
func (h Hold) names(pool string) bool {
	return strings.Contains(h.Why, " in pool "+pool+" ") || strings.Contains(h.Why, stoppedText(pool, "")) || strings.Contains(h.Why, "pool "+pool+" at ") ||
		strings.Contains(h.Why, "pool "+pool+": ")
}

func (h Hold) namesAny(pools []string) bool { return slices.ContainsFunc(pools, h.names) }

// dryPools tells the pools that are dry for a job of so many nodes, each with the time when it may have something
// again; for 0 those that are dry for all jobs.
type dryPools func(nodes int) map[string]time.Time

func (p planning) dryPools() dryPools {
	by := map[int]map[string]time.Time{}
	return func(nodes int) map[string]time.Time {
		if by[nodes] == nil {
			by[nodes] = map[string]time.Time{}
			for name := range p.pools {
				if until := p.dry(name, nodes); !until.IsZero() {
					by[nodes][name] = until
				}
			}
		}
		return by[nodes]
	}
}

// dry is when a pool may have something to launch that has nothing now for a job of so many nodes; zero: it has, or
// only pauses.
func (p planning) dry(pool string, nodes int) (until time.Time) {
	for _, s := range p.pools[pool].Sources() {
		again := p.now.Add(maxRetry)
		_, stopped := p.mem.stopped(pool, s.Provider)
		switch {
		case stopped:
		case p.market.refuses(s.Provider, p.now):
			again = later(p.market.denied[s.Provider].last.Add(maxRetry), p.now.Add(leastWait))
		default:
			q := p.query(s, group{})
			p.limit(q.Cool, s.Provider, func(cloud.Offering) int { return nodes })
			q.Waited = 24 * time.Hour // by then on-demand is no market to be waited for
			ch := p.fleetFor(s, nil).Choose(q)
			if again = ch.Retry; again.IsZero() {
				sh := p.shut[sourceKey(pool, s.Provider)]
				if sh.brief || sh.why == "" {
					return time.Time{}
				}
				again = later(sh.until, p.now.Add(leastWait))
			}
		}
		if until.IsZero() || again.Before(until) {
			until = again
		}
	}
	return until
}

// takeBack has Slurm use the nodes again whose pool is dry no more. Where Slurm refuses,
// as of a reservation that a job names, it is asked again later: nothing else waits for that. When it does not
// answer, nothing more is asked: each command would take its whole time.
func (e *Engine) takeBack(ctx context.Context, dry dryPools, now time.Time) (due time.Duration, err error) {
	for _, pool := range slices.Sorted(maps.Keys(e.dry.aside)) {
		was := e.dry.aside[pool]
		until, is := dry(was.size)[pool]
		if was.size > 0 {
			until, is = earlier(until, was.until), is && now.Before(was.until)
		}
		if is {
			due = sooner(due, max(time.Millisecond, time.Until(until)))
			continue
		}
		what := "reservation " + asideName(pool)
		if wait := e.until(what); wait > 0 {
			due = sooner(due, wait)
			continue
		}
		if err := e.slurm.Unreserve(ctx, asideName(pool)); err != nil {
			wait := e.failed(what)
			due = sooner(due, wait)
			e.log.Warn("the nodes of a pool that were set aside stay so; it will be tried again", "pool", pool, "in", wait.Round(time.Millisecond), "error", err)
			if err := e.hangs(ctx, err); err != nil {
				return 0, err
			}
			continue
		}
		delete(e.backoff, what)
		delete(e.dry.aside, pool)
		if was.until.IsZero() {
			continue
		}
		if err := e.commit(ctx, Change{Events: []Event{{Time: time.Now(), Kind: "pool-back", Pool: pool,
			Text: "Slurm may use its nodes again that were set aside: " + hostlist.Fold(was.nodes)}}}); err != nil {
			return 0, err
		}
	}
	return due, nil
}

// reroute decides for jobs that are in the queue again and found a pool dry: if another
// pool, or the site, may serve them, the dry one's nodes are set aside and they start at once; else they
// wait for the first that may have something. The parts of a heterogeneous job go together.
func (e *Engine) reroute(ctx context.Context, dry dryPools, holds map[uint32]Hold, snap *slurm.Snapshot) error {
	now := time.Now()
	needs, parts := e.needs(ctx, holds, snap), sync.OnceValue(func() partitions { return e.partitions(ctx) })
	routes, same := map[uint32]route{}, map[asks]route{}
	settling, stays := map[uint32]bool{}, map[uint32]bool{} // by job, or its first part
	for id, h := range holds {
		j, known := snap.Jobs[id]
		whole := cmp.Or(j.HetID, id)
		if j.State == "PENDING" {
			a := asksOf(j, needs, parts())
			if _, known := same[a]; !known {
				same[a] = e.route(a, dry, snap)
			}
			routes[id] = same[a]
		} else if known && (j.State == "CONFIGURING" || j.State == "COMPLETING") && !lost(snap, j) && now.Sub(e.dry.open[id]) < releaseTimeout {
			settling[whole] = true
		}
		stays[whole] = stays[whole] || routes[id].where() == "" || !h.namesAny(routes[id].dry)
	}
	var c Change
	for _, id := range slices.Sorted(maps.Keys(holds)) {
		h, r, whole := holds[id], routes[id], cmp.Or(snap.Jobs[id].HetID, id)
		switch {
		case settling[whole]:
			continue
		case !stays[whole] && e.putAside(ctx, &c, r, dry, snap):
			h.Start, h.Why = now, fmt.Sprintf("%s; it goes to %s", h.Why, r.where())
		default:
			h = h.waitsFor(r)
			e.dry.waits[id] = h.Start
		}
		delete(e.dry.open, id)
		if h != holds[id] {
			c.Holds = append(c.Holds, h)
		}
	}
	return e.commit(ctx, c) // if that fails they are open again with the next step
}

// waitsFor is the hold of a job that no other pool may serve: it starts when the first of
// those that it could have may have something.
func (h Hold) waitsFor(r route) Hold {
	for _, pool := range r.dry {
		if !h.names(pool) {
			h.Why += fmt.Sprintf("; none in pool %s either", pool)
		}
	}
	if len(r.dry) > 1 && r.first.Before(h.Start) {
		h.Start = r.first
	}
	return h
}

// justMade is how long after a reservation was made jobs may come back that had its nodes before.
const justMade = 5 * time.Second

// putAside sets those nodes of a route's dry pools aside that are off, or on the way there;
// what runs in them goes on being used. It is false if Slurm refuses that.
func (e *Engine) putAside(ctx context.Context, c *Change, r route, dry dryPools, snap *slurm.Snapshot) bool {
	for _, pool := range r.dry {
		var nodes []string
		for _, name := range e.pools[pool].Nodes {
			n, have := e.mem.nodes[name]
			switch at := powerOf(snap, name); {
			case have && n.Phase == Freeing, snap.Nodes[name].State.Has(slurm.PowerDown):
				nodes = append(nodes, name)
			case !have && (at == off || at == poweringDown || at == poweringUp):
				nodes = append(nodes, name)
			}
		}
		until, size, what := time.Now().Add(leastWait), r.size, fmt.Sprintf("too little to launch for a job of %d nodes", r.size)
		if all, is := dry(0)[pool]; is {
			until, size, what = all, 0, "nothing to launch"
		}
		until = until.Truncate(time.Second).Add(time.Second) // Slurm has whole seconds
		had := e.dry.aside[pool]
		fresh := slices.ContainsFunc(nodes, func(n string) bool { return !slices.Contains(had.nodes, n) })
		if len(nodes) == 0 || !fresh && !had.until.Before(until) && time.Since(had.made) < justMade {
			continue // later it is made again: the job got nodes that it was to keep from jobs
		}
		if err := e.slurm.Reserve(ctx, slurm.Reservation{Name: asideName(pool), Nodes: nodes, Start: time.Now(), End: until}); err != nil {
			e.log.Warn("a pool without capacity keeps its nodes, and the jobs that found it so wait for it", "pool", pool, "error", err)
			return false
		}
		e.dry.aside[pool] = aside{made: time.Now(), until: until, nodes: nodes, size: size}
		c.Events = append(c.Events, Event{Time: time.Now(), Kind: "pool-dry", Pool: pool,
			Text: fmt.Sprintf("%s: %s, which are off, are set aside before %s (reservation %s), and jobs go to %s",
				what, hostlist.Fold(nodes), until.Local().Format(time.TimeOnly), asideName(pool), r.where())})
	}
	return true
}
