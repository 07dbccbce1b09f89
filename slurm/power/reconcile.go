package power

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/slurm"
	"github.com/burst-hpc/burst/slurm/hostlist"
)

// How long the cloud's complete lists must lack an instance, and how often,
// before that is taken for its word that the instance is gone. Clouds show
// terminated instances for an hour or so; this is for a burstd that was away longer.
const (
	absentFor   = 5 * time.Minute
	absentTimes = 3
)

// settle is how long the table must want an action that undoes or repeats an
// order: the order itself may be on its way.
const settle = 10 * time.Second

// forgetHold is how long a job's failed launches are remembered when Slurm has
// forgotten the job: no memory may grow without end.
const forgetHold = time.Hour

// patience is how long the table has to want the action.
func patience(a action, slurm power) time.Duration {
	switch {
	case a == dead, a == register, a == address, a == retry:
		return 0
	case slurm == removed:
		return absentFor
	}
	return settle
}

// reconcile compares the clouds, Slurm and the journal, read in this order,
// once a round: at the start, soon after, and every cfg.Reconcile. The clouds
// are read beside Run, which a slow one must not keep from its work.
func (e *Engine) reconcile(ctx context.Context) (time.Duration, error) {
	const what = "round"
	if e.listed == nil {
		if wait := time.Until(e.next); wait > 0 || e.flying[what] {
			return wait, nil
		}
		e.flying[what] = true
		e.beside(ctx, func(ctx context.Context) func(context.Context) {
			l := e.listAll(ctx)
			return func(context.Context) {
				delete(e.flying, what)
				e.listed = l
			}
		})
		return 0, nil
	}
	l := e.listed
	e.listed = nil
	e.next = time.Now().Add(settle)
	err := e.round(ctx, l)
	e.answerWaiting(l.began, err)
	return max(time.Millisecond, time.Until(e.next)), err
}

// round compares what the clouds have said with Slurm and the journal.
func (e *Engine) round(ctx context.Context, l *listing) error {
	snap, err := e.slurm.Fresh(ctx, time.Now())
	if err != nil {
		return fmt.Errorf("reconciling: %w", err)
	}
	e.sawJobs(snap)
	if err := e.observe(ctx, snap); err != nil {
		return err
	}
	e.tookQuiet(ctx, snap)
	var c Change
	e.ended = 0
	e.takeLists(&c, l, snap)
	e.bookUnseen(ctx, &c, l)
	for name := range l.lists {
		// What was launched just before an older journal was lost is not shown sooner.
		if e.strange(name) > 0 && l.began.Sub(e.loaded) > e.lag(name) {
			c.Heard = append(c.Heard, name)
		}
	}
	if !e.mem.heard[""] && !slices.ContainsFunc(slices.Collect(maps.Keys(e.providers)), func(name string) bool {
		return !e.mem.heard[name] && !slices.Contains(c.Heard, name)
	}) {
		c.Heard = append(c.Heard, "") // it is as good as one that was never lost: a provider that is added has nothing of ours
	}
	for _, name := range slices.Sorted(maps.Keys(l.errs)) {
		e.credentials(&c, name, opList, l.errs[name])
		e.heardOf(name, l.errs[name])
	}
	for id, h := range e.mem.holds {
		if _, known := snap.Jobs[id]; !known && h.Released && time.Since(h.Start) > forgetHold {
			c.DropHolds = append(c.DropHolds, id)
		}
	}
	forgotten(&c, e.mem, snap, time.Now())
	e.strand(&c, snap)
	e.mem.started(&c, snap)
	if err := e.commit(ctx, c); err != nil {
		return err
	}
	for name, list := range l.lists {
		if names := e.unnamed(list); !e.heard[name] && len(names) > 0 {
			if err := e.assignNames(ctx, name, names); err != nil {
				e.log.Warn("nodes' instances keep no name in the cloud's console; their jobs are not affected", "provider", name, "error", err)
			}
		}
		e.changed = e.changed || !e.heard[name] // what waited for it is due
		e.heard[name] = true
	}
	if err := e.label(ctx, snap); err != nil {
		e.relabel = true
		e.log.Warn("jobs may not be kept to the provider that they ask for; it is tried again", "error", err)
	}
	if err := e.unbind(ctx, snap); err != nil {
		e.log.Warn("jobs that keep to a provider may not start; it is tried again", "error", err)
	}
	e.rounds++
	e.next = time.Now().Add(min(e.cfg.Reconcile, settle+time.Duration(e.rounds)*5*time.Second))
	return e.settleNodes(ctx, snap, l)
}

// listAll asks every provider for all our instances. Whose they are is asked before and after: a key that is
// exchanged meanwhile may have read a part of the list in each account.
func (e *Engine) listAll(ctx context.Context) *listing {
	var mu sync.Mutex
	var wg sync.WaitGroup
	l := newListing(time.Now())
	for name, p := range e.providers {
		wg.Go(func() {
			account, aerr := accountOf(ctx, p)
			list, err := e.listOne(ctx, p)
			if err == nil && aerr == nil {
				var after string
				if after, aerr = accountOf(ctx, p); aerr == nil && after != account {
					err = &cloud.Error{Kind: cloud.Transient, Op: opList, Err: fmt.Errorf("the credentials showed account %s before, and %s after", account, after)}
				}
			}
			e.note(name, err)
			mu.Lock()
			defer mu.Unlock()
			l.errs[name] = err
			if aerr != nil {
				l.accountErrs[name] = aerr
			} else {
				l.accounts[name] = account
			}
			if err != nil {
				e.log.Warn("no answer: nothing is concluded about its instances", "provider", name, "error", err)
				return
			}
			l.lists[name] = list
		})
	}
	wg.Wait()
	return l
}

func (e *Engine) listOne(ctx context.Context, p cloud.Provider) ([]cloud.Instance, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return p.List(ctx, cloud.Filter{Cluster: e.cfg.Cluster})
}

// unnamed are a list's instances that are nodes and do not say so: a provider
// may write names in the background, and lose some if burstd ends meanwhile. So they
// are told again in the first round after a start.
func (e *Engine) unnamed(list []cloud.Instance) map[string]string {
	names := map[string]string{}
	for _, i := range list {
		rec := e.mem.instances[i.ID]
		if n := e.mem.nodes[rec.Assigned]; i.Node == "" && i.State.Live() && n.Instance == i.ID && n.AddrSet {
			names[i.ID] = n.Name
		}
	}
	return names
}

// settleNodes applies the table to every node of ours.
func (e *Engine) settleNodes(ctx context.Context, snap *slurm.Snapshot, l *listing) error {
	now := time.Now()
	var c Change
	var lost []string // resume orders to make again
	var cut []Node    // that slurmctld has given up
	ours, planned := map[string]bool{}, map[string]bool{}
	for name := range e.poolOf {
		ours[name] = true
	}
	for name := range e.mem.nodes { // also those that have left the configuration
		ours[name] = true
	}
	for _, name := range slices.Sorted(maps.Keys(ours)) {
		n, have := e.mem.nodes[name]
		if planned[name] || have && !n.Since.Before(l.began) {
			delete(e.settling, name)
			continue // newer than what was read
		}
		cell := e.cellOf(snap, l, name)
		a := decide(cell)
		if a == recreate && (!e.Owns(name) || !snap.Nodes[name].State.Has(slurm.PoweringUp) || !e.adopted(Node{Pool: e.poolOf[name]})) {
			a = wait // nobody's any more, or Slurm has not given the order yet, or a source that has not answered may have it
		}
		s := e.settling[name].seen(fmt.Sprint(a, cell.slurm == removed), now)
		e.settling[name] = s
		if a == wait {
			delete(e.settling, name)
			continue
		}
		if e.rounds == 1 && a != register && a != address {
			continue // the first round only adopts
		}
		settled := now.Sub(s.since) >= patience(a, cell.slurm) && (a != reclaim || s.times > 1)
		if e.plan(Planned{Kind: string(a), Node: name, Instance: n.Instance, Why: cell.why(a), Settling: !settled}) || !settled {
			continue
		}
		if a == isolate {
			cut = append(cut, n)
			continue
		}
		if a == suspend && cell.slurm == removed && !e.mayEnd() {
			continue
		}
		delete(e.settling, name)
		if a == recreate {
			lost = append(lost, name)
			continue
		}
		from := len(c.Nodes)
		c.Actions = append(c.Actions, string(a))
		n.Name, n.Pool = name, cmp.Or(n.Pool, e.poolOf[name])
		e.act(&c, a, n, snap)
		for _, n := range c.Nodes[from:] {
			planned[n.Name] = true // with another node of its job
		}
	}
	e.endCutOff(&c, cut, snap)
	if err := e.commit(ctx, c); err != nil {
		return err
	}
	if len(lost) == 0 {
		return nil
	}
	list := hostlist.Fold(lost)
	e.log.Warn("Slurm powers up nodes without an order: it is made again", "nodes", list)
	o := Order{ID: "reconcile-" + rand.Text(), Kind: Resume, Nodes: list, Made: snap.Taken}
	if _, err := e.journal.AddOrder(ctx, o); err != nil {
		return err
	}
	e.apply(Change{Orders: []Order{o}})
	e.Wake()
	return nil
}

func (e *Engine) cellOf(snap *slurm.Snapshot, l *listing, name string) cell {
	c := cell{slurm: powerOf(snap, name), journal: noRecord, instance: noInstance}
	if c.slurm == unknown && e.showsOurs(snap, l) {
		c.slurm = removed
	}
	n, have := e.mem.nodes[name]
	if !have {
		if (c.slurm == down || c.slurm == failed) && !e.unclaimed(snap, l, name) {
			c.instance = noAnswer
		}
		return c
	}
	c.journal = n.Phase
	if n.Instance == "" {
		return c
	}
	c.instance = noAnswer
	i, ok := e.mem.instances[n.Instance]
	if _, answered := l.lists[i.Provider]; ok && answered && e.missing[i.ID].times == 0 || i.State == cloud.Terminated {
		c.instance = i.State
	}
	c.addrWrong = n.AddrSet && i.Addr != "" && snap.Nodes[name].Addr != i.Addr
	c.serves = e.serves(name)
	c.cut = cutOff(snap.Nodes[name]) && !c.serves // no job runs there, and its files would go with it
	c.stranger = e.stranger(n, snap.Nodes[name]) && e.idle(snap, name)
	return c
}
