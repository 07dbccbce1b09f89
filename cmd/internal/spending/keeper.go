// Package spending opens the books by which a launch is judged: what the ledger has
// booked, and what the journal's instances and launches can still cost, by the time
// limits of their jobs. Nothing of it is kept anywhere: a launch that is in the journal
// counts as long as its answer is not known, its instances as long as they are not
// booked to their end, and so no crash loses any.
package spending

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/cloud/price"
	"github.com/burst-hpc/burst/cmd/internal/store"
	"github.com/burst-hpc/burst/slurm"
	"github.com/burst-hpc/burst/slurm/overflow/budget"
	"github.com/burst-hpc/burst/slurm/power"
)

// Times are a pool's, as Slurm has them.
type Times struct {
	Boot    time.Duration // ResumeTimeout: by then a node is up, or is given up
	Suspend time.Duration // SuspendTime: so long it is idle
	End     time.Duration // SuspendTimeout: by then it has ended
	// Stays: its node has no job, but serves others; it counts as what has no time limit.
	Stays bool
}

// Own is what a job says of its own budget.
type Own struct {
	USD   float64 // 0: nothing
	Wrong string  // what is wrong with what it says; empty: nothing
}

// Keeper opens the books anew for each plan. What it calls must not block for long.
type Keeper struct {
	Caps  budget.Caps // without Jobs
	Pools map[string]Times
	// Price is what an hour of an offering costs now in USD, 0: not known; asked is false if
	// that will be known in a moment.
	Price     func(provider string, o cloud.Offering) (usd float64, asked bool)
	Increment func(provider string, o cloud.Offering) price.Increment
	Latest    func() *slurm.Snapshot // nil: Slurm has not answered yet, and nothing is judged
	// Cloud says that a node is one of a pool. nil: no partition has nodes of pools and others.
	Cloud func(node string) bool
	// Over is how long a job of these partitions goes on after its time limit; endless: for ever. It is false as long as
	// that is not known. nil: none does.
	Over func(partitions string) (d time.Duration, endless, known bool)
	// Own is a job's own budget; read is false if that will be known in a moment. nil: none has one.
	Own func(j slurm.Job) (o Own, read bool)
	// InPlaceOf is the node in whose place one was raised ahead; "": it was not. nil: none ever is.
	InPlaceOf func(node string) string
	Ledger    interface {
		Spending(ctx context.Context, q store.SpendingQuery) (store.Spending, error)
	}
	Log *slog.Logger // of amounts too
}

// Open is power.Config.Budget.
func (k *Keeper) Open(ctx context.Context, s power.Standing) (power.Afford, error) {
	o, err := k.open(ctx, s, false)
	if err != nil {
		return nil, err
	}
	if o.unread {
		return nil, errors.New("slurmctld has not answered yet")
	}
	if o.unsure {
		return nil, errors.New("how long Slurm lets jobs go on after their time limits is not known yet")
	}
	return o.afford, nil
}

// Rows are the caps as they stand now. The engine may go on meanwhile.
func (k *Keeper) Rows(ctx context.Context, s power.Standing) ([]budget.Row, error) {
	o, err := k.open(ctx, s, true)
	if err != nil {
		return nil, err
	}
	return o.books.Rows(), nil
}

// Exceeded is the cluster's cap, of the rows of Rows, that what is spent and committed exceeds, but for what builders of images could come to
// cost if they lived as long as they may: that keeps launches back, and is no reason for nodes to go.
func (k *Keeper) Exceeded(ctx context.Context, s power.Standing, rows []budget.Row) (r budget.Row, is bool, err error) {
	over := func(r budget.Row) bool { return r.Kind == budget.Cluster && r.Left() < -0.005 }
	i := slices.IndexFunc(rows, over)
	if i >= 0 && len(s.Builders) > 0 {
		s.Builders = nil
		if rows, err = k.Rows(ctx, s); err != nil {
			return r, false, err
		}
		i = slices.IndexFunc(rows, over)
	}
	if i < 0 {
		return r, false, nil
	}
	return rows[i], true, nil
}

// opened is one opening: what is asked of it counts in what is asked next.
type opened struct {
	*Keeper
	power.Standing
	books *budget.Books
	spent map[budget.Key]budget.Sum // booked
	live  []budget.Commitment       // of instances
	caps  budget.Caps
	now   time.Time
	taken time.Time // when Slurm had the jobs so
	jobs  map[uint32]slurm.Job
	on    map[string][]slurm.Job // by node, those that have it or had it last
	own   map[uint32]Own
	wait  map[uint32]bool // jobs of which it is not known yet
	mixed func(slurm.Job) bool
	// asking: the price of some instance is being asked for.
	asking bool
	unsure bool // how long jobs go on after their limits is not known yet
	unread bool // Slurm has not answered yet: how long jobs run is not known
}

// open opens the books; beside says that the engine may have heard of launches since it stood so.
func (k *Keeper) open(ctx context.Context, s power.Standing, beside bool) (*opened, error) {
	o := &opened{Keeper: k, Standing: s, caps: k.Caps, now: time.Now(), own: map[uint32]Own{}, wait: map[uint32]bool{}}
	snap := k.Latest()
	if o.unread = snap == nil; o.unread {
		snap = &slurm.Snapshot{}
	}
	snap = o.overlong(snap)
	o.jobs, o.on, o.taken = snap.Jobs, onNodes(snap), snap.Taken
	if o.mixed = func(slurm.Job) bool { return false }; k.Cloud != nil {
		o.mixed = snap.Mixed(k.Cloud)
	}
	caps := &o.caps
	caps.Jobs = o.owned()
	today, month := caps.Day(o.now), caps.Month(o.now)
	// A begun unit that is paid for may reach into the next.
	periods := []budget.Period{today, caps.Day(today.To), month, caps.Month(month.To)}
	// What is launched is judged in the journal's order; who only looks keeps nobody from writing.
	q := store.SpendingQuery{Jobs: slices.Sorted(maps.Keys(caps.Jobs)), Raised: o.raised(), Beside: beside}
	for _, p := range periods {
		q.Periods = append(q.Periods, price.Span{From: p.From, To: p.To})
	}
	l, err := k.Ledger.Spending(ctx, q)
	if err != nil {
		return nil, err
	}
	spent := map[budget.Key]budget.Sum{}
	add := func(scope budget.Scope, p budget.Period, s store.Sums) {
		key := budget.KeyOf(scope, p)
		was := spent[key]
		spent[key] = budget.Sum{USD: was.USD + s.USD, Unpriced: was.Unpriced + s.Unpriced}
	}
	for _, sp := range l.Spent {
		p := periods[sp.Period]
		add(budget.Scope{Kind: budget.Cluster}, p, sp.Sums)
		add(budget.Scope{Kind: budget.User, Name: sp.User}, p, sp.Sums)
		add(budget.Scope{Kind: budget.Account, Name: budget.AccountName(sp.Account)}, p, sp.Sums)
	}
	for job, s := range l.Jobs {
		add(budget.Scope{Kind: budget.Job, Name: fmt.Sprint(job)}, budget.Period{Length: budget.Whole}, s)
	}
	var committed []budget.Commitment
	for _, i := range l.Instances {
		if _, launching := s.Launches[i.Token]; launching && beside {
			continue // it was answered since: it counts as the launch
		}
		if c, ok := o.instance(i, l.Rows); ok {
			committed = append(committed, c)
		}
	}
	asking := o.asking
	for _, i := range s.Builders {
		known := slices.ContainsFunc(l.Instances, func(k power.Instance) bool { return k.ID == i.ID })
		// What has no price yet counts when it is booked: nobody's launch waits for that.
		if c, ok := o.instance(i, l.Rows); ok && !known && (c.USDPerHour > 0 || k.Caps.Unknown > 0) {
			if until, _ := cloud.BuilderUntil(i.Token); until.After(c.Until) {
				c.Until = until // by then its build has ended
			}
			committed = append(committed, c)
		}
	}
	o.asking = asking
	o.spent, o.live = spent, slices.Clip(committed)
	for _, token := range slices.Sorted(maps.Keys(s.Launches)) {
		committed = append(committed, o.launch(s.Launches[token], nil)...)
	}
	o.books = budget.Open(o.caps, o.now, spent, committed)
	return o, nil
}

// overlong has jobs with the time that they may really take as their limits.
func (o *opened) overlong(snap *slurm.Snapshot) *slurm.Snapshot {
	if o.Over == nil {
		return snap
	}
	all := *snap
	all.Jobs = make(map[uint32]slurm.Job, len(snap.Jobs))
	for id, j := range snap.Jobs {
		if d, endless, known := o.Over(j.Partition); endless {
			j.TimeLimit = 0
		} else if j.TimeLimit > 0 {
			j.TimeLimit += d
			o.unsure = o.unsure || !known
		}
		all.Jobs[id] = j
	}
	return &all
}
