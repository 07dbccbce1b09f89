package daemon

import (
	"slices"
	"time"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/cmd/internal/ledger"
	"github.com/burst-hpc/burst/slurm/power"
)

// rowKey is what a row of the ledger is written under.
type rowKey struct {
	instance string
	from     int64
	job      uint32
}

func keyOf(r ledger.Row) rowKey { return rowKey{r.Instance, r.From.UnixMicro(), r.Job} }

func usd(r ledger.Row) float64 {
	return r.Price.USDPerHour * r.Share * r.To.Sub(r.From).Hours()
}

// spend counts what a round of the ledger has added: the rows written, less
// what they replace. A booking may be corrected downwards; the counter then
// waits until it is reached again.
func (m *meters) spend(known, written []ledger.Row) {
	before := make(map[rowKey]float64, len(known))
	for _, r := range known {
		before[keyOf(r)] = usd(r)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, r := range written {
		m.booked[m.labels.pool(r.Pool)] += usd(r) - before[keyOf(r)]
	}
	for pool, sum := range m.booked {
		if more := sum - m.told[pool]; more > 0 {
			m.spent.WithLabelValues(pool).Add(more)
			m.told[pool] = sum
		}
	}
}

// costs says what the live instances cost now, also where that is nothing.
func (m *meters) costs(in ledger.Input) {
	rate, unpriced := map[poolMarket]float64{}, map[string]float64{}
	for _, pool := range m.labels.andOther() {
		unpriced[pool] = 0
		for _, market := range markets {
			rate[poolMarket{pool, market}] = 0
		}
	}
	sum := cost{at: time.Now(), pools: map[string]poolCost{}}
	for _, i := range in.Instances {
		if !i.Gone.IsZero() {
			continue
		}
		pool, market := m.labels.pool(i.Pool), i.Offering.Market
		of := sum.pools[pool]
		if p := in.Price(i.Provider, i.Offering); monthPaid(in, i, sum.at) {
			// it costs nothing until the month's end
		} else if p.Known() && slices.Contains(markets, market) {
			rate[poolMarket{pool, market}] += p.USDPerHour
			of.usdPerHour += p.USDPerHour
		} else {
			unpriced[pool]++
			of.unpriced++
		}
		sum.pools[pool] = of
	}
	for k, v := range rate {
		m.rate.WithLabelValues(k.pool, string(k.market)).Set(v)
	}
	for pool, n := range unpriced {
		m.unpriced.WithLabelValues(pool).Set(n)
	}
	for _, of := range sum.pools {
		sum.usdPerHour += of.usdPerHour
		sum.unpriced += of.unpriced
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.cost = sum
}

// monthPaid says whether the instance has had the most of its month.
func monthPaid(in ledger.Input, i power.Instance, now time.Time) bool {
	return !i.Launched.IsZero() && len(in.Increment(i.Provider, i.Offering).Free(i.Launched, now, now.Add(1))) > 0
}

type poolMarket struct {
	pool   string
	market cloud.Market
}

var markets = []cloud.Market{cloud.Spot, cloud.OnDemand}

// now is what the live instances cost, as of the ledger's last round.
func (m *meters) now() cost {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.cost
}

// cost is what the live instances cost at a time.
type cost struct {
	poolCost
	pools map[string]poolCost
	at    time.Time // zero: not summed up yet
}

type poolCost struct {
	usdPerHour float64 // of those with a known price
	unpriced   int     // the others
}
