// Package spending opens the books by which a launch is judged: what the ledger has
// booked, and what the journal's instances and launches can still cost, by the time
// limits of their jobs. Nothing of it is kept anywhere: a launch that is in the journal
// counts as long as its answer is not known, its instances as long as they are not
// booked to their end, and so no crash loses any.
package spending

import (
	"context"
	"fmt"
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
	// Stays: its node has no job, but serves others; it counts to the end of the month.
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
	Latest    func() *slurm.Snapshot // nil: Slurm has not answered yet
	// Own is a job's own budget; read is false if that will be known in a moment. nil: none has one.
	Own    func(j slurm.Job) (o Own, read bool)
	Ledger interface {
		Spending(ctx context.Context, q store.SpendingQuery) (store.Spending, error)
	}
}

// Open is power.Config.Budget.
func (k *Keeper) Open(ctx context.Context, s power.Standing) (power.Afford, error) {
	o, err := k.open(ctx, s)
	if err != nil {
		return nil, err
	}
	return o.afford, nil
}

// Rows are the caps as they stand now.
func (k *Keeper) Rows(ctx context.Context, s power.Standing) ([]budget.Row, error) {
	o, err := k.open(ctx, s)
	if err != nil {
		return nil, err
	}
	return o.books.Rows(), nil
}

// opened is one opening: what is asked of it counts in what is asked next.
type opened struct {
	*Keeper
	power.Standing
	books *budget.Books
	caps  budget.Caps
	now   time.Time
	jobs  map[uint32]slurm.Job
	on    map[string][]slurm.Job // by node, those that have it or had it last
	own   map[uint32]Own
	wait  map[uint32]bool // jobs of which it is not known yet
	// asking: the price of some instance is being asked for.
	asking bool
}

func (k *Keeper) open(ctx context.Context, s power.Standing) (*opened, error) {
	o := &opened{Keeper: k, Standing: s, caps: k.Caps, now: time.Now(), own: map[uint32]Own{}, wait: map[uint32]bool{}}
	snap := k.Latest()
	if snap == nil {
		snap = &slurm.Snapshot{}
	}
	o.jobs, o.on = snap.Jobs, onNodes(snap)
	caps := &o.caps
	caps.Jobs = o.owned()
	today, month := caps.Day(o.now), caps.Month(o.now)
	// A begun unit that is paid for may reach into the next.
	periods := []budget.Period{today, caps.Day(today.To), month, caps.Month(month.To)}
	q := store.SpendingQuery{Jobs: slices.Sorted(maps.Keys(caps.Jobs))}
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
		add(budget.Scope{Kind: budget.Account, Name: sp.Account}, p, sp.Sums)
	}
	for job, s := range l.Jobs {
		add(budget.Scope{Kind: budget.Job, Name: fmt.Sprint(job)}, budget.Period{Length: budget.Whole}, s)
	}
	var committed []budget.Commitment
	for _, i := range l.Instances {
		if c, ok := o.instance(i, l.Rows); ok {
			committed = append(committed, c)
		}
	}
	for _, token := range slices.Sorted(maps.Keys(s.Launches)) {
		committed = append(committed, o.launch(s.Launches[token])...)
	}
	o.books = budget.Open(o.caps, o.now, spent, committed)
	return o, nil
}
