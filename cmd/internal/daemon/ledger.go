package daemon

import (
	"context"
	"slices"
	"time"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/cloud/price"
	"github.com/burst-hpc/burst/cmd/internal/api"
	"github.com/burst-hpc/burst/cmd/internal/crash"
	"github.com/burst-hpc/burst/cmd/internal/ledger"
	"github.com/burst-hpc/burst/cmd/internal/store"
	"github.com/burst-hpc/burst/slurm"
	"github.com/burst-hpc/burst/slurm/power"
)

// The ledger is booked each bookEvery, settle after an instance has ended, since those
// that end together are booked together, and when attempts of jobs have come or gone,
// which is looked for each lookEvery.
const (
	bookEvery = 30 * time.Second
	settle    = time.Second
	lookEvery = time.Second
	lastRound = 5 * time.Second // what the one at the end may take
)

// keepLedger books what instances cost until ctx ends. A round that fails is
// made good by the next.
func (d *Daemon) keepLedger(ctx context.Context) error {
	tick, look := time.NewTicker(bookEvery), time.NewTicker(lookEvery)
	defer tick.Stop()
	defer look.Stop()
	turn := ledger.Turnover{Ours: d.rates.has}
	told, late := "", time.Time{}
	round := func(ctx context.Context, readings []*slurm.Snapshot) {
		text, began := "", time.Now()
		for _, snap := range readings {
			if err := d.book(ctx, snap); err != nil {
				text = err.Error()
			} else if snap != nil {
				d.mu.Lock()
				d.bookedTo = snap.Taken
				d.mu.Unlock()
			}
		}
		turn.Booked(time.Now(), time.Since(began))
		if time.Since(late) >= lateEvery {
			late = time.Now()
			if err := d.priceLate(ctx); err != nil && text == "" {
				text = err.Error()
			}
		}
		if text != "" && text != told && ctx.Err() == nil {
			d.log.Warn("what instances cost is not booked now; it will be, from the cloud's times", "error", text)
		}
		told = text
	}
	for readings := turn.All(d.watcher.Latest(), time.Now()); ; {
		if len(readings) > 0 {
			round(ctx, readings)
		}
		select {
		case <-ctx.Done():
			// What is known now the next burstd need not guess.
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastRound)
			defer cancel()
			round(last, turn.All(d.watcher.Latest(), time.Now()))
			return nil
		case <-look.C:
			readings = turn.Due(d.watcher.Latest(), time.Now())
			continue
		case <-tick.C:
		case <-d.ended:
			select {
			case <-ctx.Done():
			case <-time.After(settle):
			}
		}
		readings = turn.All(d.watcher.Latest(), time.Now())
	}
}

// book books all instances up to a reading of Slurm; nil: there is none.
func (d *Daemon) book(ctx context.Context, snap *slurm.Snapshot) error {
	instances, rows, err := d.store.LoadUsage(ctx)
	if err != nil {
		return err
	}
	ask := instances
	if d.keeper != nil { // who builds an image counts to caps
		ask = slices.Concat(instances, d.engine.Standing().Builders)
	}
	d.prices.learn(ctx, ask)
	if len(instances) == 0 {
		d.meters.costs(ledger.Input{})
		return nil
	}
	in := ledger.Input{Instances: instances, Snapshot: snap, Price: d.prices.price, Increment: d.increment}
	d.meters.costs(in)
	written := ledger.Book(rows, in)
	if err := d.store.PutUsage(ctx, written); err != nil {
		return err
	}
	d.meters.spend(rows, written)
	by := map[string]price.Increment{}
	for _, i := range instances {
		if !i.Gone.IsZero() {
			by[i.ID] = d.increment(i.Provider, i.Offering)
		}
	}
	return d.store.NoteBilling(ctx, by)
}

// recall reads from the journal what is known of providers, and notes what burst.toml says of them.
func (d *Daemon) recall(ctx context.Context) (err error) {
	now := map[string]string{}
	for _, p := range d.cfg.Providers {
		now[p.Name] = p.Kind
	}
	if d.kinds, err = d.store.Kinds(ctx, now); err != nil {
		return err
	}
	return d.prices.recall(ctx, d.store)
}

// increment is how a provider bills an offering, or did when burst.toml still had it.
func (d *Daemon) increment(provider string, o cloud.Offering) price.Increment {
	kind := d.kinds[provider]
	if p, ok := d.cfg.Provider(provider); ok {
		kind = p.Kind
	}
	return price.Of(kind).UpTo(d.prices.month(provider, o))
}

// begun is the least that a provider bills of an offering's instance, however soon it ends.
func (d *Daemon) begun(provider string, o cloud.Offering) time.Duration {
	return d.increment(provider, o).Billed(1)
}

// Usage sums the ledger up, with what of begun hours has to be paid already.
func (d *Daemon) Usage(ctx context.Context, q api.UsageQuery) ([]api.Usage, error) {
	owed := func(instances []power.Instance, rows []ledger.Row) []ledger.Row {
		return ledger.Owed(rows, ledger.Input{Instances: instances, Price: d.prices.price, Increment: d.increment}, time.Now())
	}
	sums, err := d.store.Usage(ctx, store.UsageQuery{Since: q.Since, Until: q.Until, By: q.By, UID: q.UID, Owed: owed})
	if err != nil {
		return nil, err
	}
	all := make([]api.Usage, len(sums))
	for i, s := range sums {
		all[i] = api.Usage{Key: s.Key, User: s.User, Account: s.Account, ArrayJob: s.ArrayID, ArrayTask: s.ArrayTask, Seconds: s.Seconds, UnpricedSeconds: s.Unpriced, Instances: s.Instances,
			OnDemandUnknownSeconds: s.Unknown, BootSeconds: s.Boot.Seconds, BootUSD: s.Boot.USD, IdleSeconds: s.Idle.Seconds, IdleUSD: s.Idle.USD,
			RestSeconds: s.Rest.Seconds, RestUSD: s.Rest.USD, ServeSeconds: s.Serve.Seconds, ServeUSD: s.Serve.USD,
			LostSeconds: s.Lost.Seconds, LostUSD: s.Lost.USD, CheckpointSeconds: s.Checkpoints.Seconds, CheckpointUSD: s.Checkpoints.USD}
		if s.Unpriced < s.Seconds || s.Seconds == 0 { // a line may have nothing but what evictions took of an earlier time
			all[i].USD = &s.USD
		}
		if s.Unknown < s.Seconds || s.Seconds == 0 {
			all[i].OnDemandUSD = &s.OnDemand
		}
	}
	return all, nil
}

// Bills compares the ledger with what the providers have told of each instance that is gone.
func (d *Daemon) Bills(ctx context.Context, since time.Time) ([]api.Bill, error) {
	bills, err := d.store.Bills(ctx, since, time.Now())
	if err != nil {
		return nil, err
	}
	all := make([]api.Bill, len(bills))
	for n, b := range bills {
		if b.By.Unit < 0 {
			b.By = d.increment(b.Provider, b.Offering)
		}
		billed, charged, told := ledger.Due(b.Instance, b.By)
		all[n] = api.Bill{Instance: b.ID, Provider: b.Provider, Pool: b.Pool, Offering: b.Offering.String(), Node: b.Assigned, Launched: b.Launched, Ended: b.Ended,
			Guessed: !told, Billing: b.By.String(), BilledSeconds: billed.Seconds(), ChargedSeconds: charged.Seconds(),
			BookedSeconds: b.Booked.Seconds(), BookedChargeSeconds: b.Charged.Seconds(),
			Differs: (b.Booked-billed).Abs() > time.Millisecond || (b.Charged-charged).Abs() > time.Millisecond}
		if b.Ended.IsZero() {
			all[n].Ended = b.Gone
		}
		if b.Unknown < b.Charged || b.Charged == 0 {
			all[n].USD = &b.USD
		}
	}
	return all, nil
}

// watched is a journal that tells the ledger of ends.
type watched struct {
	crash.Journal
	ended chan<- struct{}
}

func (j watched) CommitPower(ctx context.Context, c power.Change) error {
	if err := j.Journal.CommitPower(ctx, c); err != nil {
		return err
	}
	for _, i := range c.Instances {
		if !i.Gone.IsZero() {
			select {
			case j.ended <- struct{}{}:
			default: // it is told already
			}
			break
		}
	}
	return nil
}
