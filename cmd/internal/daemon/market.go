package daemon

import (
	"context"
	"log/slog"
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

// market is what the engine knows of prices and cores when it chooses what to
// buy: asked for ahead, so that no launch waits for it.
type market struct {
	pools   []config.Pool
	tables  map[string]price.Table // by provider
	pricers map[string]cloud.Pricer
	catalog map[string]cloud.Catalog
	log     *slog.Logger

	mu     sync.Mutex
	prices map[priceKey]float64
	dates  map[priceKey]time.Time // of the prices
	cores  map[typeKey]int
	done   map[priceKey]bool // whose price has been asked for, whatever the answer
	round  bool              // of all that pools may buy
}

type typeKey struct{ provider, instanceType string }

func newMarket(pools []config.Pool, tables map[string]price.Table, providers map[string]cloud.Provider, log *slog.Logger) *market {
	m := &market{tables: tables, pricers: map[string]cloud.Pricer{}, catalog: map[string]cloud.Catalog{}, log: log,
		prices: map[priceKey]float64{}, dates: map[priceKey]time.Time{}, cores: map[typeKey]int{}, done: map[priceKey]bool{}}
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

// all has it learn what all pools may buy, also of those whose choice does not depend on it.
func (m *market) all(pools []config.Pool) { m.pools = pools }

// asked says whether the price of an offering is known, or could not be had.
func (m *market) asked(provider string, o cloud.Offering) bool {
	if _, ok := m.tables[provider].Hourly(o); ok || m.pricers[provider] == nil {
		return true
	}
	m.mu.Lock()
	defer m.mu.Unlock()
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
	tick := time.NewTicker(marketEvery)
	defer tick.Stop()
	for {
		for _, p := range m.pools {
			m.learn(ctx, p.Power.Provider, p.Power.Fleet)
		}
		m.mu.Lock()
		m.round = true
		m.mu.Unlock()
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// learn asks for what one pool may buy. What cannot be had now stays as it was.
func (m *market) learn(ctx context.Context, provider string, f fleet.Config) {
	ctx, cancel := context.WithTimeout(ctx, priceTimeout)
	defer cancel()
	if pricer := m.pricers[provider]; pricer != nil {
		found, err := pricer.Prices(ctx, f.Offerings())
		m.mu.Lock()
		for _, p := range found {
			m.prices[priceKey{provider, p.Offering}], m.dates[priceKey{provider, p.Offering}] = p.USDPerHour, p.Date
		}
		for _, o := range f.Offerings() {
			m.done[priceKey{provider, o}] = true
		}
		m.mu.Unlock()
		m.warn(ctx, "prices", provider, err)
	}
	if c := m.catalog[provider]; c != nil && f.Order == fleet.ByPricePerCore {
		found, err := c.Types(ctx, f.Types)
		m.mu.Lock()
		for _, t := range found {
			m.cores[typeKey{provider, t.Name}] = t.Cores
		}
		m.mu.Unlock()
		m.warn(ctx, "instance types", provider, err)
	}
}

func (m *market) warn(ctx context.Context, what, provider string, err error) {
	if err != nil && ctx.Err() == nil {
		m.log.Warn("what pools order by cannot be had now; asked again", "what", what, "provider", provider, "in", marketEvery, "error", err)
	}
}
