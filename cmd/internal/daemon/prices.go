package daemon

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/cloud/price"
	"github.com/burst-hpc/burst/cmd/internal/config"
	"github.com/burst-hpc/burst/cmd/internal/ledger"
	"github.com/burst-hpc/burst/cmd/internal/store"
	"github.com/burst-hpc/burst/slurm/power"
)

// How long a price of a cloud holds, after what time one is asked for again
// that could not be had, and how long a cloud has to say.
const (
	priceAge     = time.Hour
	priceAgain   = 5 * time.Minute
	priceTimeout = 20 * time.Second
	priceKept    = 24 * time.Hour // so old may what was kept over a restart be, to be what a new instance costs
)

// prices knows what offerings cost: by the provider's table, where the site
// has written one, else by the cloud's own word. The ledger alone has it learn.
type prices struct {
	tables  map[string]price.Table // by provider
	pricers map[string]cloud.Pricer
	kept    *store.Store // has the plans over a restart; nil: they are forgotten
	some    bool         // it has plans
	log     *slog.Logger
	learnt  atomic.Bool // the ledger has had it learn once

	mu       sync.Mutex
	known    map[priceKey]quote
	compared map[priceKey]time.Time // when the on-demand price of what runs on spot is asked for again
}

type priceKey struct {
	provider string
	cloud.Offering
}

// quote is a cloud's last word on a price, the zero Price if it had none, and
// when it is asked again.
type quote struct {
	ledger.Price
	usdPerMonth float64 // at most; 0: not known
	again       time.Time
	old         bool // kept over a restart, and good for a month's most only
}

func newPrices(all []config.Provider, providers map[string]cloud.Provider, log *slog.Logger) *prices {
	p := &prices{tables: map[string]price.Table{}, pricers: map[string]cloud.Pricer{}, known: map[priceKey]quote{}, compared: map[priceKey]time.Time{}, log: log}
	for _, c := range all {
		if pricer, ok := providers[c.Name].(cloud.Pricer); ok {
			p.pricers[c.Name] = pricer
		}
		if c.PriceTable == "" {
			continue
		}
		table, err := price.Load(c.PriceTable)
		if err != nil {
			log.Error("the ledger has no prices from this table: correct it and restart burstd", "provider", c.Name, "error", err)
		}
		p.tables[c.Name] = table
	}
	return p
}

// recall has what clouds have last said of plans with a month's price, and keeps from now on what they say:
// while a cloud does not answer after a restart, a month has the same most as before, and no hour of it costs more or less.
// A price stays an instance's for its life, so an old one is no new instance's.
func (p *prices) recall(ctx context.Context, st *store.Store) error {
	all, err := st.Plans(ctx)
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.kept, p.some = st, len(all) > 0
	for _, k := range all {
		p.known[priceKey{k.Provider, k.Offering}] = quote{Price: ledger.Price{USDPerHour: k.USDPerHour, Date: k.Date, Source: k.Source}, usdPerMonth: k.USDPerMonth,
			old: p.pricers[k.Provider] == nil || time.Since(k.Date) > priceKept}
	}
	return nil
}

// plans are those of which a month's price is known, to be kept.
func (p *prices) plans() (all []store.Plan) {
	for key, q := range p.known {
		if q.usdPerMonth > 0 {
			all = append(all, store.Plan{Provider: key.provider, Offering: key.Offering, USDPerHour: q.USDPerHour, USDPerMonth: q.usdPerMonth, Date: q.Date, Source: q.Source})
		}
	}
	return all
}

// price is that of the provider's instance now, or the zero Price.
func (p *prices) price(provider string, o cloud.Offering) ledger.Price {
	if t, ok := p.tables[provider].Price(o); ok {
		return ledger.Price{USDPerHour: t.USDPerHour, Date: t.Date, Source: "table"}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if q := p.known[priceKey{provider, o}]; !q.old {
		return q.Price
	}
	return ledger.Price{}
}

// month is the cloud's own word on the prices of an hour and, at most, of a month; zeros
// where there is none, or the site has a price of its own, of which no month's is known.
func (p *prices) month(provider string, o cloud.Offering) (usdPerHour, usdPerMonth float64) {
	if _, ok := p.tables[provider].Price(o); ok {
		return 0, 0
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	q := p.known[priceKey{provider, o}]
	return q.USDPerHour, q.usdPerMonth
}

// learn asks the clouds for the prices of the instances that no table has and
// that are not known, or are old. A price that cannot be had now stays as it was.
func (p *prices) learn(ctx context.Context, instances []power.Instance) {
	due := map[string][]cloud.Offering{}
	now := time.Now()
	p.mu.Lock()
	for _, i := range instances {
		if _, ok := p.tables[i.Provider].Price(i.Offering); ok || p.pricers[i.Provider] == nil {
			continue
		}
		key := priceKey{i.Provider, i.Offering}
		q, known := p.known[key]
		if wait := q.again.Sub(now); known && wait > 0 && wait <= priceAge { // more: the clock was set back
			continue
		}
		q.again = now.Add(priceAgain)
		p.known[key] = q
		due[i.Provider] = append(due[i.Provider], i.Offering)
	}
	p.compare(instances, due, now)
	p.mu.Unlock()
	for name, offerings := range due {
		p.ask(ctx, name, offerings)
	}
	p.learnt.Store(true)
}

// asked says that the clouds have been asked for what lives.
func (p *prices) asked() bool { return p.learnt.Load() }

// compare adds to what is due, once an hour, the on-demand offerings of what runs on spot: nothing but
// what is shown beside the cost waits for such a price.
func (p *prices) compare(instances []power.Instance, due map[string][]cloud.Offering, now time.Time) {
	for _, i := range instances {
		o := i.Offering
		if o.Market != cloud.Spot || p.pricers[i.Provider] == nil {
			continue
		}
		o.Market = cloud.OnDemand
		if _, ok := p.tables[i.Provider].Price(o); ok {
			continue
		}
		key := priceKey{i.Provider, o}
		if wait := p.compared[key].Sub(now); wait > 0 && wait <= priceAge { // more: the clock was set back
			continue
		}
		p.compared[key] = now.Add(priceAge)
		if !slices.Contains(due[i.Provider], o) {
			due[i.Provider] = append(due[i.Provider], o)
		}
	}
}

func (p *prices) ask(ctx context.Context, provider string, offerings []cloud.Offering) {
	ctx, cancel := context.WithTimeout(ctx, priceTimeout)
	defer cancel()
	found, err := p.pricers[provider].Prices(ctx, offerings)
	if err != nil {
		p.log.Warn("prices cannot be had now; the ledger asks again", "provider", provider, "in", priceAgain, "error", err)
	}
	p.mu.Lock()
	for _, f := range found {
		if f.USDPerHour > 0 {
			p.known[priceKey{provider, f.Offering}] = quote{Price: ledger.Price{USDPerHour: f.USDPerHour, Date: f.Date, Source: f.Source},
				usdPerMonth: f.USDPerMonth, again: time.Now().Add(priceAge)}
		}
	}
	plans := p.plans()
	p.mu.Unlock()
	if p.kept == nil || len(plans) == 0 && !p.some {
		return
	}
	p.some = len(plans) > 0
	if err := p.kept.PutPlans(context.WithoutCancel(ctx), plans); err != nil {
		p.log.Warn("the prices of a month are not known after a restart until the cloud says them again", "error", err)
	}
}
