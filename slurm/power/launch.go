package power

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/burst-hpc/burst/cloud"
)

// takeOrders turns new orders into records, oldest first.
func (e *Engine) takeOrders(ctx context.Context) (time.Duration, error) {
	e.mu.Lock()
	e.mem.apply(Change{Orders: e.inbox})
	e.inbox = nil
	e.mu.Unlock()
	var fresh []Order
	for _, o := range e.mem.orders {
		if !o.Taken {
			fresh = append(fresh, o)
		}
	}
	if len(fresh) == 0 {
		return 0, nil
	}
	slices.SortFunc(fresh, byMade)
	snap, err := e.slurm.Fresh(ctx, time.Now())
	if err != nil {
		return 0, fmt.Errorf("orders wait for Slurm's answer: %w", err)
	}
	t := taking{mem: e.mem, snap: snap, pools: e.poolOf, now: time.Now()}
	for _, o := range fresh {
		if err := e.commit(ctx, t.take(o)); err != nil {
			return 0, err
		}
	}
	return 0, nil
}

// launchWanted writes launches for wanted nodes, and calls the written ones.
func (e *Engine) launchWanted(ctx context.Context) (time.Duration, error) {
	if err := e.reviewWanted(ctx); err != nil {
		return 0, err
	}
	limits := map[string]int{}
	for name, p := range e.providers {
		limits[name] = p.Limits().MaxLaunch
	}
	p := planning{mem: e.mem, pools: e.pools, maxLaunch: limits, cluster: e.cfg.Cluster, now: time.Now()}
	c := p.plan()
	if slices.ContainsFunc(c.Nodes, func(n Node) bool { return n.Phase == Freeing }) {
		// What has registered is not given back: it may run another job by now.
		snap, err := e.slurm.Fresh(ctx, p.now)
		if err != nil {
			return 0, err
		}
		if err := e.commit(ctx, e.booted(snap, e.mem.inPhase(Booting))); err != nil {
			return 0, err
		}
		c = p.plan()
	}
	if err := e.commit(ctx, c); err != nil {
		return 0, err
	}
	var due time.Duration
	for _, token := range slices.Sorted(maps.Keys(e.mem.launches)) {
		l := e.mem.launches[token]
		if e.flying[token] {
			continue
		}
		if wait := e.until("launch " + token); wait > 0 {
			due = sooner(due, wait)
			continue
		}
		provider, ok := e.providers[l.Provider]
		if !ok {
			continue // its provider has left the configuration: said at the start
		}
		e.flying[token] = true
		if l.State == Abandoned || len(e.claimants(l)) == 0 {
			e.resolve(ctx, l, provider)
			continue
		}
		e.beside(ctx, func(ctx context.Context) func(context.Context) {
			ctx, cancel := context.WithTimeout(ctx, launchTimeout)
			defer cancel()
			got, err := provider.Launch(ctx, l.Request)
			return func(ctx context.Context) { e.launched(ctx, token, got, err) }
		})
	}
	return due, nil
}

// launchTimeout bounds one Launch, callTimeout any other call of a provider.
const (
	launchTimeout = 2 * time.Minute
	callTimeout   = time.Minute
)

// reviewWanted drops the nodes that an earlier life, or the backup of a
// journal, left wanted and that Slurm does not power up any more: another may
// be behind them by now.
func (e *Engine) reviewWanted(ctx context.Context) error {
	if e.reviewed {
		return nil
	}
	var c Change
	if wanted := e.mem.inPhase(Wanted); len(wanted) > 0 {
		snap, err := e.slurm.Fresh(ctx, time.Now())
		if err != nil {
			return fmt.Errorf("launches wait for Slurm's answer: %w", err)
		}
		for _, n := range wanted {
			switch p := powerOf(snap, n.Name); p {
			case poweringUp:
			case failed:
				give(&c, e.mem, e.mem.whole([]Node{n}, snap), "it did not come up in time", time.Now())
			default:
				c.DropNodes = append(c.DropNodes, n.Name)
				c.Events = append(c.Events, Event{Time: time.Now(), Kind: "resume-stale", Node: n.Name, Pool: n.Pool, Job: n.Job,
					Text: fmt.Sprintf("not raised: Slurm does not power it up any more, it is %s", p)})
			}
		}
	}
	if err := e.commit(ctx, c); err != nil {
		return err
	}
	e.reviewed = true
	return nil
}

// claimants are the nodes that still wait for the launch.
func (e *Engine) claimants(l Launch) []Node {
	var all []Node
	for _, name := range l.Nodes {
		if n, ok := e.mem.nodes[name]; ok && n.Phase == Launching && n.Token == l.Token {
			all = append(all, n)
		}
	}
	return all
}

// launched takes a launch's answer into the journal. Whatever goes wrong here
// leaves the launch as it was, to be called again under the same token.
func (e *Engine) launched(ctx context.Context, token string, got []cloud.Instance, err error) {
	delete(e.flying, token)
	l, ok := e.mem.launches[token]
	if !ok || ctx.Err() != nil {
		return
	}
	e.note(l.Provider, err)
	nodes := e.claimants(l)
	c, known := e.assign(l, nodes, got, err)
	if err != nil && !known {
		e.doubt[token] = true
	}
	if !known && time.Since(l.Created) > e.cfg.BootTimeout {
		// Too late for Slurm: the nodes go back, the outcome is still to be learnt.
		l.State, l.Error = Abandoned, fmt.Sprint(err)
		c.Launches = append(c.Launches, l)
		give(&c, e.mem, e.mem.whole(nodes, nil), fmt.Sprintf("%s does not answer: %v", l.Provider, err), time.Now())
		for _, n := range nodes {
			if n.Job != 0 {
				hold(&c, e.mem, n.Job, retryAt(e.mem.holds[n.Job], time.Now()), fmt.Sprintf("%s does not answer", l.Provider))
			}
		}
	}
	if err := e.commit(ctx, c); err != nil {
		e.log.Warn("a launch's answer could not be written; it will be asked again", "token", token, "error", err)
		e.failed("launch " + token)
		return
	}
	if known {
		delete(e.backoff, "launch "+token)
		delete(e.doubt, token)
		return
	}
	e.refused("launch "+token, err)
	e.log.Warn("the launch's outcome is not known; the same request follows", "pool", l.Request.Pool, "token", token, "error", err)
}

// assign plans what an answer means: instances for the nodes that still want
// one, the end of those that nobody wants, another offering for the nodes that
// got none. known is false when the outcome of the launch is not known.
func (e *Engine) assign(l Launch, nodes []Node, got []cloud.Instance, err error) (c Change, known bool) {
	now := time.Now()
	if kind := cloud.KindOf(err); err != nil && (kind == cloud.Transient || kind == cloud.Throttled) {
		return c, false
	}
	got = slices.DeleteFunc(got, func(i cloud.Instance) bool {
		_, have := e.mem.instances[i.ID]
		return have || !i.State.Live()
	})
	short := len(got) < len(nodes)
	for _, i := range got {
		rec := Instance{Instance: i, Provider: l.Provider}
		if len(nodes) == 0 || short && l.Request.AllOrNothing {
			rec.Doomed = "launched for nobody"
			c.Instances = append(c.Instances, rec)
			continue
		}
		n := nodes[0]
		nodes = nodes[1:]
		rec.Assigned = n.Name
		n.Phase, n.Since, n.Instance, n.AddrSet = Booting, now, i.ID, false
		c.Instances, c.Nodes = append(c.Instances, rec), append(c.Nodes, n)
		c.Events = append(c.Events, Event{Time: now, Kind: "instance", Node: n.Name, Instance: i.ID, Pool: n.Pool, Job: n.Job,
			Text: fmt.Sprintf("%s is node %s", i.Offering, n.Name)})
	}
	for _, n := range nodes { // nothing came for these: the next offering
		n.Phase, n.Since, n.Token = Wanted, now, ""
		c.Nodes = append(c.Nodes, n)
	}
	if err == nil && short {
		err = errors.New("fewer came than were asked for")
	}
	key := coolKey{l.Provider, l.Request.Offering}
	switch {
	case err != nil:
		cool := e.mem.cool[key].Fail(now)
		c.Coolings = append(c.Coolings, Cooling{l.Provider, l.Request.Offering, cool})
		c.Events = append(c.Events, Event{Time: now, Kind: "no-" + string(cloud.KindOf(err)), Pool: l.Request.Pool,
			Text: fmt.Sprintf("%d of %d × %s; not asked again before %s: %v", len(got), l.Request.Count, l.Request.Offering, cool.Until.Format(time.TimeOnly), err)})
		l.Error = err.Error()
	case e.mem.cool[key].Failures > 0:
		c.Coolings = append(c.Coolings, Cooling{Provider: l.Provider, Offering: l.Request.Offering})
	}
	if l.Resolved = now; err != nil && e.doubt[l.Token] {
		// An earlier call's outcome is unknown, and a refusal need not have looked
		// for it: it is looked up before another launch is tried for the nodes.
		l.Resolved, l.State = time.Time{}, Abandoned
	}
	c.Launches = append(c.Launches, l)
	return c, true
}

// resolve learns what became of a launch that no node waits for: what is
// found under its token ends, but for what says that it is a node: that was
// claimed, and reconciliation knows whether it still serves. Nothing found means nothing before the cloud's
// lag has passed, counted from now, since the call may have been a moment ago.
func (e *Engine) resolve(ctx context.Context, l Launch, provider cloud.Provider) {
	e.beside(ctx, func(ctx context.Context) func(context.Context) {
		err := pause(ctx, provider.Limits().Lag)
		var found []cloud.Instance
		if err == nil {
			ctx, cancel := context.WithTimeout(ctx, callTimeout)
			defer cancel()
			found, err = provider.List(ctx, cloud.Filter{Cluster: e.cfg.Cluster, Tokens: []string{l.Token}})
		}
		return func(ctx context.Context) {
			delete(e.flying, l.Token)
			var c Change
			if err == nil {
				l.Resolved = time.Now()
				c.Launches = append(c.Launches, l)
				for _, i := range found {
					if _, have := e.mem.instances[i.ID]; !have && i.State.Live() && i.Node == "" {
						c.Instances = append(c.Instances, Instance{Instance: i, Provider: l.Provider, Doomed: "launched for nobody"})
					}
				}
				err = e.commit(ctx, c)
			}
			if err != nil {
				e.failed("launch " + l.Token)
				return
			}
			delete(e.backoff, "launch "+l.Token)
			delete(e.doubt, l.Token)
		}
	})
}

// pause waits d, or until ctx ends.
func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// sooner is the smaller of two waits, of which 0 is none.
func sooner(a, b time.Duration) time.Duration {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}
