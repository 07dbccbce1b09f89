package daemon

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/cloud/fleet"
	"github.com/burst-hpc/burst/cloud/price"
	"github.com/burst-hpc/burst/cmd/internal/config"
)

// marketEvery is how often the prices of what pools may buy are asked for: EC2's
// spot prices move over hours.
const marketEvery = 10 * time.Minute

// What could never be asked for is asked for again after marketAgain, and each time after twice as long, up to
// marketLate, as long as it is in vain. A budget waits for its price, and when it was asked for in vain since unansweredFor it has none: a cloud that
// never tells, as where burstd may not read its prices, keeps no job from what has one.
const (
	marketAgain   = 20 * time.Second
	marketLate    = 2 * time.Minute
	unansweredFor = 10 * time.Minute
)

// market is what the engine knows of prices and cores when it chooses what to
// buy: asked for ahead, so that no launch waits for it.
type market struct {
	pools   []config.Pool
	tables  map[string]price.Table // by provider
	pricers map[string]cloud.Pricer
	catalog map[string]cloud.Catalog
	log     *slog.Logger
	level   slog.Level // of what cannot be had: between two rounds of all it is no news

	mu     sync.Mutex
	prices map[priceKey]float64
	dates  map[priceKey]time.Time // of the prices
	cores  map[typeKey]int
	done   map[priceKey]bool      // whose cloud has answered, whether it has a price or none
	vain   map[priceKey]time.Time // of the others: since when it was asked in vain
	round  bool                   // of all that pools may buy
	// unpriced: [budget] says what counts for what has no price.
	unpriced bool
	news     func() // when a round has told more; nil: nobody waits
}

type typeKey struct{ provider, instanceType string }

func newMarket(pools []config.Pool, tables map[string]price.Table, providers map[string]cloud.Provider, log *slog.Logger) *market {
	m := &market{tables: tables, pricers: map[string]cloud.Pricer{}, catalog: map[string]cloud.Catalog{}, log: log, level: slog.LevelWarn,
		prices: map[priceKey]float64{}, dates: map[priceKey]time.Time{}, cores: map[typeKey]int{}, done: map[priceKey]bool{}, vain: map[priceKey]time.Time{}}
	for _, p := range pools {
		if f := p.Power.Fleet; f.Order != "" || f.MaxPrice > 0 {
			m.pools = append(m.pools, p)
		}
	}
	for name, p := range providers {
		if pricer, ok := p.(cloud.Pricer); ok {
			m.pricers[name] = pricer
		}
		if c, ok := p.(cloud.Catalog); ok {
			m.catalog[name] = c
		}
	}
	return m
}

// price is the present one in USD per hour, as far as it is known.
func (m *market) price(provider string, o cloud.Offering) (float64, bool) {
	if usd, ok := m.tables[provider].Hourly(o); ok {
		return usd, true
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	usd, ok := m.prices[priceKey{provider, o}]
	return usd, ok
}

// dated is the cloud's own price as it was asked for last, and when it was so.
func (m *market) dated(provider string, o cloud.Offering) (usd float64, at time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.prices[priceKey{provider, o}], m.dates[priceKey{provider, o}]
}

// all has it learn what all pools may buy, also of those whose choice does not depend on it. Unpriced: there is a price for
// what has none, and nobody waits for one that was asked for in vain.
func (m *market) all(pools []config.Pool, unpriced bool) { m.pools, m.unpriced = pools, unpriced }

// asked says whether the price of an offering is known, or its cloud has none, or has been asked in vain for long.
func (m *market) asked(provider string, o cloud.Offering) bool {
	if _, ok := m.tables[provider].Hourly(o); ok || m.pricers[provider] == nil {
		return true
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if since, vain := m.vain[priceKey{provider, o}]; vain {
		return m.unpriced || time.Since(since) >= unansweredFor
	}
	return m.round || m.done[priceKey{provider, o}]
}

func (m *market) coresOf(provider, instanceType string) (int, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n, ok := m.cores[typeKey{provider, instanceType}]
	return n, ok
}

// run keeps prices and cores until ctx ends, if a pool's choice depends on them.
func (m *market) run(ctx context.Context) error {
	if len(m.pools) == 0 {
		return nil
	}
	again, next := marketAgain, time.Time{} // the next round of all
	for {
		all, vain := !time.Now().Before(next), false
		m.level = map[bool]slog.Level{true: slog.LevelWarn, false: slog.LevelDebug}[all]
		for _, p := range m.pools {
			if all || m.inVain(p.Power.Provider, p.Power.Fleet) {
				vain = m.learn(ctx, p.Power.Provider, p.Power.Fleet) || vain
			}
		}
		if all {
			next = time.Now().Add(jitter(marketEvery))
		}
		wait := time.Until(next)
		if vain {
			wait = min(wait, jitter(again))
		}
		if again = min(2*again, marketLate); !vain {
			again = marketAgain
		}
		m.mu.Lock()
		m.round = true
		m.mu.Unlock()
		if m.news != nil {
			m.news()
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(wait):
		}
	}
}

// inVain says that some of what a pool may buy was only ever asked for in vain.
func (m *market) inVain(provider string, f fleet.Config) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.ContainsFunc(f.Offerings(), func(o cloud.Offering) bool { _, vain := m.vain[priceKey{provider, o}]; return vain })
}

// learn asks for what one pool may buy. What cannot be had now stays as it was; vain: so it is with some that never was to be had.
func (m *market) learn(parent context.Context, provider string, f fleet.Config) (vain bool) {
	by := map[cloud.Market][]cloud.Offering{} // each by itself: that one cannot be asked for says nothing of the other
	for _, o := range f.Offerings() {
		by[o.Market] = append(by[o.Market], o)
	}
	for _, of := range slices.Sorted(maps.Keys(by)) {
		vain = m.learnPrices(parent, provider, by[of]) || vain
	}
	ctx, cancel := context.WithTimeout(parent, priceTimeout)
	defer cancel()
	if c := m.catalog[provider]; c != nil && f.Order == fleet.ByPricePerCore {
		found, err := c.Types(ctx, f.Types)
		m.mu.Lock()
		for _, t := range found {
			m.cores[typeKey{provider, t.Name}] = t.Cores
		}
		m.mu.Unlock()
		m.warn(parent, "instance types", provider, err)
	}
	return vain
}

// learnPrices is learn for what is sold on one market.
func (m *market) learnPrices(parent context.Context, provider string, offerings []cloud.Offering) (vain bool) {
	pricer := m.pricers[provider]
	if pricer == nil {
		return false
	}
	ctx, cancel := context.WithTimeout(parent, priceTimeout)
	defer cancel()
	found, err := pricer.Prices(ctx, offerings)
	m.mu.Lock()
	told := len(found) > 0 // some price is known: what has none there is not sold, or not told at all
	for _, o := range offerings {
		if _, ok := m.tables[provider].Hourly(o); ok {
			told = true
		}
	}
	for _, p := range found {
		key := priceKey{provider, p.Offering}
		m.prices[key], m.dates[key], m.done[key] = p.USDPerHour, p.Date, true
	}
	for _, o := range offerings {
		key := priceKey{provider, o}
		if err == nil || m.done[key] || told && !unanswered(err) {
			m.done[key] = true
			delete(m.vain, key)
			continue
		}
		if m.vain[key].IsZero() {
			m.vain[key] = time.Now()
		}
		vain = true
	}
	m.mu.Unlock()
	m.warn(parent, "prices", provider, err)
	return vain
}

// unanswered says that the cloud has said nothing of some that it was asked for, not even that it does not tell.
func unanswered(err error) bool {
	return cloud.KindOf(err) == cloud.Transient || slices.ContainsFunc(cloud.Errors(err), func(e *cloud.Error) bool {
		return e.Kind == cloud.Transient || e.Kind == cloud.Throttled
	})
}

func (m *market) warn(ctx context.Context, what, provider string, err error) {
	if err != nil && ctx.Err() == nil {
		m.log.Log(ctx, m.level, "what pools order by cannot be had now; asked again", "what", what, "provider", provider, "error", err)
	}
}
