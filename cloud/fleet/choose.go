package fleet

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/burst-hpc/burst/cloud"
)

// Query is what a choice among a pool's offerings depends on.
type Query struct {
	// Cool is the memory of what failed. One with no Failures is a pause: it was
	// asked too often, which says nothing of its capacity.
	Cool map[cloud.Offering]Cooldown
	Now  time.Time
	// Waited is the time since Slurm asked for the nodes.
	Waited time.Duration
	// Only narrows the offerings, to the kind that a job's other nodes have; nil: all.
	Only func(cloud.Offering) bool
	// Priced is false for what may not be launched for want of a price; nil: none is needed.
	Priced func(cloud.Offering) bool
	// Price is an offering's present price in USD per hour, Cores a type's number
	// of cores; false, or nil functions: not known.
	Price func(cloud.Offering) (float64, bool)
	Cores func(instanceType string) (int, bool)
}

// Choice is what to do for nodes that want instances. Exactly one of
// Offering, Wait and Retry is set.
type Choice struct {
	Offering cloud.Offering   // to be launched now
	Or       []cloud.Offering // of the same market, as good as open, next best first
	// Wait is when to choose again: a pause ends, or spot alone is not waited for any longer.
	Wait time.Time
	// Retry is when the first of Tried will have cooled: none is left before.
	Retry time.Time
	Tried []cloud.Offering // with Retry: what cools down
	Dear  []cloud.Offering // spot offerings whose price is known to be above MaxPrice
	// Unpriced is what was passed over, or with Wait is waited for, for want of a price: of markets in which nothing has
	// one, and which come before what is chosen.
	Unpriced []cloud.Offering
}

// Choose picks the offering to launch next.
//
//	spot, not dear, not cooling               the first in order, and the others of spot beside it
//	its first is only pausing                 wait for the end of the pause: no other is dearer for that
//	all of spot cools, SpotTimeout not over   wait for the first to have cooled, or the timeout
//	nothing of spot has a price, likewise     wait for the timeout: a price may be known before
//	all of spot cools                         on-demand, by the same rules
//	SpotTimeout is over                       on-demand first, then spot
//	all cool                                  none left
//
// Without a spot offering that may be bought at all, as dear ones may not, on-demand does not wait.
func (c Config) Choose(q Query) Choice {
	var out Choice
	byMarket, priced := map[cloud.Market][]cloud.Offering{}, map[cloud.Market]bool{}
	for _, o := range c.Ordered(q.Price, q.Cores) {
		if q.Only != nil && !q.Only(o) {
			continue
		}
		if q.Priced != nil && !q.Priced(o) {
			out.Unpriced = append(out.Unpriced, o)
			continue
		}
		priced[o.Market] = true
		if c.dear(o, q.Price) {
			out.Dear = append(out.Dear, o)
			continue
		}
		byMarket[o.Market] = append(byMarket[o.Market], o)
		out.Tried = append(out.Tried, o)
	}
	waited := max(0, q.Waited)
	markets := []cloud.Market{cloud.Spot, cloud.OnDemand}
	held := c.Market == SpotThenOnDemand && waited < c.SpotTimeout
	if c.SpotTimeout > 0 && !held {
		slices.Reverse(markets)
	}
	out.Unpriced = slices.DeleteFunc(out.Unpriced, func(o cloud.Offering) bool { return priced[o.Market] })
	for i, m := range markets {
		list := byMarket[m]
		before := slices.DeleteFunc(slices.Clone(out.Unpriced), func(o cloud.Offering) bool { return !slices.Contains(markets[:i+1], o.Market) })
		open := slices.DeleteFunc(slices.Clone(list), func(o cloud.Offering) bool {
			return q.Cool[o].Failures > 0 && q.Now.Before(q.Cool[o].Until)
		})
		if len(open) > 0 {
			if until := q.Cool[open[0]].Until; q.Now.Before(until) {
				return Choice{Wait: until, Dear: out.Dear, Unpriced: before}
			}
			or := slices.DeleteFunc(open[1:], func(o cloud.Offering) bool { return q.Now.Before(q.Cool[o].Until) })
			return Choice{Offering: open[0], Or: or, Dear: out.Dear, Unpriced: before}
		}
		if held && m == cloud.Spot && (len(list) > 0 || len(before) > 0) {
			over := q.Now.Add(c.SpotTimeout - waited)
			if first, ok := firstCooled(list, q.Cool); ok && first.Before(over) {
				over = first
			}
			return Choice{Wait: over, Dear: out.Dear, Unpriced: before}
		}
	}
	if first, ok := firstCooled(out.Tried, q.Cool); ok {
		out.Retry = first
	} else {
		out.Retry = q.Now.Add(maxCooldown) // nothing may be bought at all: prices change slowly
	}
	return out
}

func firstCooled(offerings []cloud.Offering, cool map[cloud.Offering]Cooldown) (first time.Time, ok bool) {
	for _, o := range offerings {
		if until := cool[o].Until; !ok || until.Before(first) {
			first, ok = until, true
		}
	}
	return first, ok
}

// dear says that a spot offering's price is known to be above MaxPrice.
func (c Config) dear(o cloud.Offering, price func(cloud.Offering) (float64, bool)) bool {
	if o.Market != cloud.Spot || c.MaxPrice == 0 || price == nil {
		return false
	}
	usd, known := price(o)
	return known && usd > c.MaxPrice
}

// Ordered lists what the pool may buy, best first by Config.Order. What has no
// known price comes last, as written. Every spot offering stays before the first on-demand one.
func (c Config) Ordered(price func(cloud.Offering) (float64, bool), cores func(string) (int, bool)) []cloud.Offering {
	all := c.Offerings()
	if c.Order == "" || price == nil || c.Order == ByPricePerCore && cores == nil {
		return all
	}
	worth := map[cloud.Offering]float64{}
	for _, o := range all {
		usd, known := price(o)
		if known && c.Order == ByPricePerCore {
			n, counted := cores(o.Type)
			known = counted && n > 0
			usd /= float64(max(1, n))
		}
		if !known {
			usd = math.Inf(1)
		}
		worth[o] = usd
	}
	rank := map[cloud.Market]int{cloud.Spot: 0, cloud.OnDemand: 1}
	slices.SortStableFunc(all, func(a, b cloud.Offering) int {
		return cmp.Or(cmp.Compare(rank[a.Market], rank[b.Market]), cmp.Compare(worth[a], worth[b]))
	})
	return all
}
