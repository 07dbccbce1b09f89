package power

import (
	"cmp"
	"context"
	"fmt"
	"maps"
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
	ending := e.ending()
	for _, provider := range slices.Concat(slices.Collect(maps.Keys(e.providers)), slices.Collect(maps.Keys(ending))) {
		switch {
		case !e.deaf(provider):
			delete(e.market.since, provider)
		case e.market.since[provider].IsZero():
			e.market.since[provider] = now
		}
	}
	by, soon := map[string][]string{}, map[string]bool{} // pool -> names, and whether more are to come
	for provider, names := range ending {
		if e.market.since[provider].IsZero() {
			continue
		}
		wait := doubtFor - now.Sub(e.market.since[provider])
		for _, name := range names {
			switch pool := e.poolOf[name]; {
			case !e.elseThan(pool, provider) || e.serves(name):
			case wait > 0:
				due, soon[pool] = sooner(due, wait), true
			case !slices.Contains(by[pool], name):
				by[pool] = append(by[pool], name)
			}
		}
	}
	for name := range e.pools {
		if had := e.market.kept[name]; len(by[name]) == 0 && had.made.IsZero() && (soon[name] || !e.allTell(name)) {
			continue // what an earlier burstd has kept may be kept again in a moment
		}
		slices.Sort(by[name])
		wait, err := e.keep(ctx, name, by[name], now)
		if err != nil {
			return 0, err
		}
		due = sooner(due, wait)
	}
	if len(e.market.kept) > 0 {
		due = sooner(due, keptFor/4)
	}
	return due, nil
}

// allTell says that all of a pool's sources have told, since the start, what became of their instances.
func (e *Engine) allTell(pool string) bool {
	return !slices.ContainsFunc(e.pools[pool].Sources(), func(s Pool) bool { return !e.heard[s.Provider] || e.deaf(s.Provider) })
}

// ending are the names that wait until it is known that an instance is gone, by its provider; of one that is not
// configured any more also those that wait for what became of a launch.
func (e *Engine) ending() map[string][]string {
	by := map[string][]string{}
	for _, i := range e.mem.instances {
		if n, have := e.mem.nodes[i.Assigned]; i.Doomed != "" && (!have || n.Phase == Wanted || n.Phase == Freeing) {
			by[i.Provider] = append(by[i.Provider], i.Assigned)
		}
	}
	for _, l := range e.mem.launches {
		if e.providers[l.Provider] != nil || l.State == Abandoned {
			continue
		}
		for _, name := range l.Nodes {
			if n, have := e.mem.nodes[name]; !have || n.Phase == Wanted || n.Phase == Freeing || n.Token == l.Token {
				by[l.Provider] = append(by[l.Provider], name)
			}
		}
	}
	return by
}

// keep has a pool's reservation be that of the names, of which Slurm need not know all.
func (e *Engine) keep(ctx context.Context, pool string, names []string, now time.Time) (due time.Duration, err error) {
	had, is := e.market.kept[pool]
	what := keptName(pool)
	switch wait := e.until(what); {
	case len(names) == 0 && !is, is && slices.Equal(names, had.asked) && had.until.Sub(now) > keptFor/2:
		return 0, nil
	case wait > 0:
		return wait, nil
	}
	snap, err := e.slurm.Fresh(ctx, now) // one that hangs would take its time for each pool
	if err != nil {
		return 0, err
	}
	known := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return powerOf(snap, name) == unknown })
	next := aside{made: now, until: now.Add(keptFor), nodes: known, asked: names}
	if len(known) > 0 {
		err = e.slurm.Reserve(ctx, slurm.Reservation{Name: what, Nodes: known, Start: now, End: next.until})
	} else if is {
		err = e.slurm.Unreserve(ctx, what)
	}
	if err != nil {
		due = e.failed(what)
		text := "names stay kept from jobs, until the reservation's end at most; it is tried again"
		if len(known) > 0 {
			e.market.kept[pool] = aside{made: now} // what there was may be removed already
			text = "jobs are given nodes that wait for a cloud which does not answer; it is tried again"
		}
		e.log.Warn(text, "pool", pool, "nodes", cmp.Or(hostlist.Fold(known), hostlist.Fold(had.nodes)), "in", due.Round(time.Millisecond), "error", err)
		return due, e.hangs(ctx, err)
	}
	delete(e.backoff, what)
	if e.market.kept[pool] = next; len(names) == 0 {
		delete(e.market.kept, pool)
	}
	e.changed = true
	ev := Event{Time: now, Kind: "names-kept", Pool: pool,
		Text: fmt.Sprintf("kept from jobs until it is known that their last instances are gone: %s (reservation %s)", hostlist.Fold(known), what)}
	switch {
	case slices.Equal(known, had.nodes):
		return 0, nil
	case len(known) == 0:
		ev.Kind, ev.Text = "names-back", "Slurm may use the names again that were kept from jobs: "+hostlist.Fold(had.nodes)
	}
	return 0, e.commit(ctx, Change{Events: []Event{ev}})
}

// elseThan says that the pool buys of another than the provider.
func (e *Engine) elseThan(pool, provider string) bool {
	p, known := e.pools[pool]
	return known && slices.ContainsFunc(p.Sources(), func(s Pool) bool { return s.Provider != provider })
}

// leaveNames gives nodes back whose names are kept from jobs, where another source has room: the jobs get others.
// Those are the nodes of which nothing else is planned.
func (p planning) leaveNames(out *planned) (given map[string]bool) {
	serving := p.mem.serving()
	given = map[string]bool{}
	for _, n := range p.mem.inPhase(Wanted, Launching) {
		if !slices.Contains(p.market.kept[n.Pool].nodes, n.Name) || given[n.Name] {
			continue
		}
		provider, why := p.awaits(n, serving[n.Name])
		if provider == "" {
			continue
		}
		g := groupOf(n, map[string]bool{provider: true})
		if now, _ := p.elsewhere(g, p.pools[n.Pool]); !now {
			continue
		}
		for _, o := range p.whole(g.nodes) {
			given[o.Name] = true
		}
		p.free(&out.Change, g, why+"; its nodes begin anew under other names", retryAt(p.mem.holds[n.Job], p.now))
	}
	return given
}

// awaits is the provider that does not tell what a node's name waits for, and that in words; empty: there is none.
func (p planning) awaits(n Node, serving []Instance) (provider, why string) {
	is := func(provider string) string {
		if _, configured := p.limits[provider]; !configured {
			return provider + " is not configured any more"
		}
		return provider + " does not answer"
	}
	for _, i := range serving {
		if n.Phase == Wanted && !p.market.since[i.Provider].IsZero() {
			return i.Provider, fmt.Sprintf("%s, and whether %s, which was node %s, is gone is not known", is(i.Provider), i.ID, n.Name)
		}
	}
	for _, l := range p.mem.launches {
		_, configured := p.limits[l.Provider]
		if !configured && l.State != Abandoned && slices.Contains(l.Nodes, n.Name) && (n.Phase == Wanted || n.Token == l.Token) {
			return l.Provider, fmt.Sprintf("%s, and what became of a launch of node %s there is not known", is(l.Provider), n.Name)
		}
	}
	return "", ""
}
