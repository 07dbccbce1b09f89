package power

import (
	"cmp"
	"context"
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
	e.sawJobs(snap)
	idles, err := e.idlers(ctx, fresh, snap)
	if err != nil {
		return 0, err
	}
	t := taking{mem: e.mem, snap: snap, pools: e.poolOf, now: time.Now(), serve: e.filePools(), idles: idles, timeout: e.bootTimeout}
	for _, o := range fresh {
		if err := e.commit(ctx, t.take(o)); err != nil {
			return 0, err
		}
	}
	return 0, nil
}

// launchWanted plans launches for wanted nodes, has them prepared and written,
// and calls the written ones.
func (e *Engine) launchWanted(ctx context.Context) (time.Duration, error) {
	if err := e.reviewWanted(ctx); err != nil {
		return 0, err
	}
	back, err := e.turnBack(ctx)
	if err != nil {
		return 0, err
	}
	p, due := e.planning()
	due = sooner(due, back)
	p.purse = e.newPurse(ctx)
	out := p.plan()
	if slices.ContainsFunc(out.Nodes, func(n Node) bool { return n.Phase == Freeing }) {
		// What has registered is not given back: it may run another job by now.
		snap, err := e.slurm.Fresh(ctx, p.now)
		if err != nil {
			return 0, err
		}
		if err := e.commit(ctx, e.booted(snap, e.mem.inPhase(Booting))); err != nil {
			return 0, err
		}
		e.sawJobs(snap) // who else waits for it
		p.market, p.wants, p.purse = e.market, e.market.wants, e.newPurse(ctx)
		out = p.plan()
	}
	e.noteBrief(out)
	if err := p.purse.failed(); err != nil {
		return 0, err
	}
	e.leaveIdle(ctx, &out)
	e.noteAsked(out)
	if err := e.write(ctx, out); err != nil {
		return 0, err
	}
	e.quietRefused(p, &out)
	e.tellQuiet(ctx, out.told)
	if !out.wait.IsZero() {
		due = sooner(due, max(time.Millisecond, time.Until(out.wait)))
	}
	called, err := e.callWritten(ctx)
	return sooner(due, called), err
}

// planning is what a plan is made of, and when a pool that has to wait may be
// planned for again.
func (e *Engine) planning() (planning, time.Duration) {
	now := time.Now()
	maps.DeleteFunc(e.market.pauses, func(_ coolKey, until time.Time) bool { return now.After(until) })
	p := planning{mem: e.mem, pools: e.pools, limits: map[string]cloud.Limits{}, market: e.market, wants: e.market.wants, cluster: e.cfg.Cluster,
		bootTimeout: e.cfg.BootTimeout, now: now, loaded: e.loaded, price: e.cfg.Price, cores: e.cfg.Cores, least: e.cfg.least, priced: e.cfg.Priced, shut: map[string]shut{}, servers: e.servers}
	for name, provider := range e.providers {
		p.limits[name] = provider.Limits()
	}
	p.resume = e.cfg.ResumeTimeout
	var due time.Duration
	for _, pool := range e.pools {
		for _, s := range pool.Sources() {
			sh, wait := e.shutOf(s)
			if sh != (shut{}) {
				p.shut[sourceKey(s.Name, s.Provider)] = sh
			}
			due = sooner(due, wait)
		}
	}
	return p, due
}

// strange is how long launches at a provider wait because the journal may have
// replaced a lost one: until a list shows what the provider has, which wakes Run.
func (e *Engine) strange(provider string) time.Duration {
	if e.mem.heard[""] || e.mem.heard[provider] {
		return 0
	}
	return settle
}

// strangeTo is the same for a source, and the provider that it is about: each of the pool's may
// have an instance for a node of which a new journal knows nothing.
func (e *Engine) strangeTo(source Pool) (wait time.Duration, provider string) {
	provider = source.Provider
	if wait = e.strange(provider); wait > 0 {
		return wait, provider
	}
	for _, s := range e.pools[source.Name].Sources() {
		if _, ok := e.providers[s.Provider]; ok && e.strange(s.Provider) > 0 {
			return e.strange(s.Provider), s.Provider
		}
	}
	return 0, provider
}

// maxCalls bounds the Launch calls under way at once.
const maxCalls = 64

// callWritten calls what the journal says is to be launched, and looks for
// what nobody waits for any more.
func (e *Engine) callWritten(ctx context.Context) (due time.Duration, err error) {
	var calls []Launch
	callsOf := map[string]int{} // by provider
	for _, token := range slices.Sorted(maps.Keys(e.mem.launches)) {
		l := e.mem.launches[token]
		provider, ok := e.providers[l.Provider]
		if !ok {
			continue // a provider that has left the configuration: said at the start
		}
		if e.flying[token] {
			wait, err := e.overstays(ctx, l)
			if err != nil {
				return 0, err
			}
			due = sooner(due, wait)
			continue
		}
		if wait := e.until("launch " + token); wait > 0 {
			due = sooner(due, wait)
			continue
		}
		nodes := e.claimants(l)
		again, where := e.doubt[token], l.Account
		if l.State == Abandoned || len(nodes) == 0 {
			if !again && l.State != Abandoned { // it has had no effect anywhere
				if l, err = e.locate(ctx, l, ""); err != nil {
					return 0, err
				}
			}
			e.flying[token] = true
			e.resolve(ctx, l, provider)
			continue
		}
		// A call may make what an earlier one has not begun: what that has made is looked for instead
		// where nothing is to be launched any more.
		late := e.overdue(nodes)
		_, stopped := e.mem.stopped(e.mem.poolOf(l), l.Provider)
		if away := stopped || !again && e.shut(l.Provider) > 0; !late && away && e.others(l, nodes) {
			var c Change
			e.withdraw(&c, l, nodes, nil)
			if err := e.commit(ctx, c); err != nil {
				return 0, err
			}
			delete(e.backoff, "launch "+token)
			continue
		}
		if stopped || late {
			var c Change
			e.abandon(&c, l, nodes, nil)
			if err := e.commit(ctx, c); err != nil {
				return 0, err
			}
			continue
		}
		d, probing := e.market.denied[l.Provider]
		if wait := e.shut(l.Provider); wait > 0 {
			if !again {
				if _, err := e.locate(ctx, l, ""); err != nil { // the next key may be another account's
					return 0, err
				}
			}
			due = sooner(due, wait)
			continue
		}
		if e.underWay()+len(calls) >= maxCalls || probing && d.op != opList && e.market.calling[l.Provider]+callsOf[l.Provider] > 0 {
			continue // one that ends wakes us
		}
		if e.judgedBefore(l) {
			var c Change
			e.withdraw(&c, l, nodes, nil)
			if err := e.commit(ctx, c); err != nil {
				return 0, err
			}
			continue
		}
		if !again {
			where = cmp.Or(e.accounts[l.Provider], where)
		}
		l.Account = where
		calls = append(calls, l)
		callsOf[l.Provider]++
	}
	return due, e.callAll(ctx, calls)
}

func (e *Engine) underWay() int {
	n := 0
	for _, calls := range e.market.calling {
		n += calls
	}
	return n
}

// launchTimeout bounds one Launch, callTimeout any other call of a provider.
const (
	launchTimeout = 2 * time.Minute
	callTimeout   = time.Minute
)

// reviewWanted drops the nodes that an earlier life, or the backup of a
// journal, left without an instance and that Slurm does not power up any more:
// another may be behind them by now. A launch that none is left of is not called
// again, only looked for.
func (e *Engine) reviewWanted(ctx context.Context) error {
	if e.reviewed {
		return nil
	}
	var c Change
	// A pool with several sources: nodes that boot may be launched anew, where their jobs
	// want it, before there is an order or a round.
	removed := e.ofRemoved()
	if wanted := e.mem.inPhase(Wanted, Launching); len(wanted) > 0 || len(removed) > 0 || e.several {
		snap, err := e.slurm.Fresh(ctx, time.Now())
		if err != nil {
			return fmt.Errorf("launches wait for Slurm's answer: %w", err)
		}
		e.sawJobs(snap)
		serving := e.mem.serving()
		for _, n := range wanted {
			switch p := powerOf(snap, n.Name); {
			case p == poweringUp, slices.ContainsFunc(c.Nodes, func(o Node) bool { return o.Name == n.Name }):
			case p == on && len(serving[n.Name]) > 0:
				// What is ended in favour of another instance has registered first: its job
				// would run on it, beside nodes of another kind, and lose it.
				e.giveWhole(&c, []Node{n}, snap, "an instance that ends has registered as it", time.Now())
			case p == failed:
				e.giveWhole(&c, []Node{n}, snap, "it did not come up in time", time.Now())
			default:
				c.DropNodes = append(c.DropNodes, n.Name)
				c.Events = append(c.Events, Event{Time: time.Now(), Kind: "resume-stale", Node: n.Name, Pool: n.Pool, Job: n.Job,
					Text: fmt.Sprintf("not raised: Slurm does not power it up any more, it is %s", p)})
			}
		}
		for _, n := range removed {
			if powerOf(snap, n.Name) == poweringUp && !slices.ContainsFunc(c.Nodes, func(o Node) bool { return o.Name == n.Name }) {
				planning{mem: e.mem, now: time.Now()}.anew(&c, n, "its pool does not buy there any more")
			}
		}
		e.withdrawRemoved(&c)
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
