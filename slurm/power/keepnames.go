package power

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/burst-hpc/burst/slurm"
	"github.com/burst-hpc/burst/slurm/hostlist"
)

// A node's name is not used again while the end of its last instance is not known. When the cloud that has
// to say so does not answer, Slurm would give jobs these names first, as the lowest, again and again, though
// others of the pool could be launched at another source. So after a minute they are kept from jobs by a
// reservation, until the cloud answers; jobs that have got one are given back, and get others.
// As with dry pools, it ends by itself, whatever becomes of burstd.

// keptFor is for how long a reservation of names is made; it is made again when less than half is left.
const keptFor = 10 * time.Minute

// keptName names the reservation of a pool's names.
func keptName(pool string) string { return "burst-away-" + pool }

// keepNames has Slurm keep jobs from the names whose clouds do not answer, and take them back.
func (e *Engine) keepNames(ctx context.Context) (due time.Duration, err error) {
	now := time.Now()
	for provider := range e.providers {
		switch away := e.market.silent[provider] || e.market.unanswered(provider); {
		case !away:
			delete(e.market.since, provider)
		case e.market.since[provider].IsZero():
			e.market.since[provider] = now
		}
	}
	by := map[string][]string{} // pool -> names
	for _, i := range e.mem.instances {
		pool := e.poolOf[i.Assigned]
		if !e.elseThan(pool, i.Provider) || i.Doomed == "" || e.serves(i.Assigned) || e.market.since[i.Provider].IsZero() {
			continue
		}
		n, have := e.mem.nodes[i.Assigned]
		switch wait := doubtFor - now.Sub(e.market.since[i.Provider]); {
		case wait > 0:
			due = sooner(due, wait)
		case (!have || n.Phase == Wanted || n.Phase == Freeing) && !slices.Contains(by[pool], i.Assigned):
			by[pool] = append(by[pool], i.Assigned)
		}
	}
	for name := range e.pools {
		slices.Sort(by[name])
		if err := e.keep(ctx, name, by[name], now); err != nil {
			return 0, err
		}
	}
	if len(e.market.kept) > 0 {
		due = sooner(due, keptFor/4)
	}
	return due, nil
}

// keep has a pool's reservation be that of the names.
func (e *Engine) keep(ctx context.Context, pool string, names []string, now time.Time) error {
	had, is := e.market.kept[pool]
	c := Change{Events: []Event{{Time: now, Kind: "names-kept", Pool: pool,
		Text: fmt.Sprintf("kept from jobs until it is known that their last instances are gone: %s (reservation %s)", hostlist.Fold(names), keptName(pool))}}}
	switch {
	case len(names) == 0 && !is:
		return nil
	case len(names) == 0:
		if e.until(keptName(pool)) > 0 {
			return nil
		}
		if err := e.slurm.Unreserve(ctx, keptName(pool)); err != nil {
			wait := e.failed(keptName(pool))
			e.log.Warn("names stay kept from jobs, until the reservation's end at most; it is tried again", "pool", pool, "nodes", hostlist.Fold(had.nodes), "in", wait.Round(time.Millisecond), "error", err)
			return nil
		}
		delete(e.backoff, keptName(pool))
		delete(e.market.kept, pool)
		c.Events[0].Kind, c.Events[0].Text = "names-back", "Slurm may use the names again that were kept from jobs: "+hostlist.Fold(had.nodes)
		return e.commit(ctx, c)
	case slices.Equal(names, had.nodes) && had.until.Sub(now) > keptFor/2, e.until(keptName(pool)) > 0:
		return nil
	}
	until := now.Add(keptFor)
	if err := e.slurm.Reserve(ctx, slurm.Reservation{Name: keptName(pool), Nodes: names, Start: now, End: until}); err != nil {
		wait := e.failed(keptName(pool))
		e.market.kept[pool] = aside{} // what there was may be removed already
		e.log.Warn("jobs are given nodes that wait for a cloud which does not answer; it is tried again", "pool", pool, "nodes", hostlist.Fold(names), "in", wait.Round(time.Millisecond), "error", err)
		return nil
	}
	delete(e.backoff, keptName(pool))
	e.market.kept[pool] = aside{now, until, names}
	if e.changed = true; slices.Equal(names, had.nodes) {
		return nil
	}
	return e.commit(ctx, c)
}

// elseThan says that the pool buys of another than the provider.
func (e *Engine) elseThan(pool, provider string) bool {
	p, known := e.pools[pool]
	return known && slices.ContainsFunc(p.Sources(), func(s Pool) bool { return s.Provider != provider })
}

// leaveNames gives wanted nodes back whose names are kept from jobs, where another source has room: the jobs get others.
func (p planning) leaveNames(out *planned) {
	given := map[string]bool{}
	for _, n := range p.mem.inPhase(Wanted) {
		at := slices.IndexFunc(p.mem.serving()[n.Name], func(i Instance) bool { return !p.market.since[i.Provider].IsZero() })
		if !slices.Contains(p.market.kept[n.Pool].nodes, n.Name) || at < 0 || given[n.Name] {
			continue
		}
		i := p.mem.serving()[n.Name][at]
		g := group{pool: n.Pool, nodes: []Node{n}, not: map[string]bool{i.Provider: true}}
		if now, _ := p.elsewhere(g, p.pools[n.Pool]); !now {
			continue
		}
		for _, o := range p.mem.whole(g.nodes, nil) {
			given[o.Name] = true
		}
		p.free(&out.Change, g, fmt.Sprintf("%s does not answer, and whether %s, which was node %s, is gone is not known; its nodes begin anew under other names", i.Provider, i.ID, n.Name),
			retryAt(p.mem.holds[n.Job], p.now))
	}
}
