// Package fleet says which offering to try next for a pool's nodes: types and
// zones as the site wrote them, spot before on-demand where it wants that,
// and never one that has just said that it has no capacity.
package fleet

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/burst-hpc/burst/cloud"
)

// What a pool may buy.
const (
	SpotOnly         = "spot"
	OnDemandOnly     = "on-demand"
	SpotThenOnDemand = "spot-then-on-demand"
)

// Config is a pool's choice of offerings.
type Config struct {
	Types  []string // instance types, in order of preference; at least one
	Zones  []string // zones, in order of preference; empty: the provider's choice
	Market string   // SpotOnly, OnDemandOnly (the default) or SpotThenOnDemand
	// MaxPrice is what a spot instance may cost at most, in USD per hour; 0: no limit.
	MaxPrice float64
	// SpotTimeout is how long, from Slurm's order on, spot alone is tried before
	// on-demand may fill a SpotThenOnDemand pool; 0: on-demand as soon as no spot
	// offering is left.
	SpotTimeout time.Duration
	Order       string // of the types: "" as written, ByPrice or ByPricePerCore
}

// Orders of a pool's types.
const (
	ByPrice        = "price"
	ByPricePerCore = "price-per-core"
)

// Validate says what is wrong with the configuration.
func (c Config) Validate() error {
	if len(c.Types) == 0 {
		return errors.New("instance_types names no type")
	}
	switch c.Market {
	case "", SpotOnly, OnDemandOnly, SpotThenOnDemand:
	default:
		return fmt.Errorf("market %q is none of %q, %q, %q", c.Market, SpotOnly, OnDemandOnly, SpotThenOnDemand)
	}
	switch c.Order {
	case "", ByPrice, ByPricePerCore:
	default:
		return fmt.Errorf("order %q is none of %q, %q; leave it out for the order as written", c.Order, ByPrice, ByPricePerCore)
	}
	if c.MaxPrice < 0 || c.SpotTimeout < 0 {
		return fmt.Errorf("max_price %g and spot_timeout %s must not be negative", c.MaxPrice, c.SpotTimeout)
	}
	return nil
}

// Offerings lists what the pool may buy, best first: every spot offering
// before the first on-demand one.
func (c Config) Offerings() []cloud.Offering {
	markets := []cloud.Market{cloud.OnDemand}
	switch c.Market {
	case SpotOnly:
		markets = []cloud.Market{cloud.Spot}
	case SpotThenOnDemand:
		markets = []cloud.Market{cloud.Spot, cloud.OnDemand}
	}
	zones := c.Zones
	if len(zones) == 0 {
		zones = []string{""}
	}
	var all []cloud.Offering
	for _, m := range markets {
		for _, t := range c.Types {
			for _, z := range zones {
				all = append(all, cloud.Offering{Type: t, Zone: z, Market: m})
			}
		}
	}
	return all
}

// Cooldown is the memory of one offering's last lack of capacity.
type Cooldown struct {
	Failures int       // in a row
	Until    time.Time // not asked before
	// Before Paid it is not asked for more than Most nodes, all or nothing: so many came
	// of a launch of more, were ended again, and are paid for until then.
	Most int
	Paid time.Time
}

// Whole is the memory as it holds for a launch of so many nodes, all or nothing.
func (c Cooldown) Whole(nodes int, now time.Time) Cooldown {
	if nodes > c.Most && now.Before(c.Paid) && c.Until.Before(c.Paid) {
		c.Failures, c.Until = max(1, c.Failures), c.Paid
	}
	return c
}

// Came returns the memory after so many nodes came of a launch, and none was lacking.
func (c Cooldown) Came(nodes int, now time.Time) Cooldown {
	if nodes > c.Most || !now.Before(c.Paid) {
		return Cooldown{}
	}
	return Cooldown{Most: c.Most, Paid: c.Paid}
}

// The growth of a cooldown: 30 s doubled with each failure in a row, at most
// 10 minutes, less up to a fifth at random so that pools do not return together.
const (
	firstCooldown = 30 * time.Second
	maxCooldown   = 10 * time.Minute
)

// Fail returns the memory after one more lack of capacity.
func (c Cooldown) Fail(now time.Time) Cooldown {
	d := maxCooldown
	if c.Failures < 5 {
		d = min(maxCooldown, firstCooldown<<c.Failures)
	}
	d -= time.Duration(rand.Int64N(int64(d) / 5))
	return Cooldown{Failures: c.Failures + 1, Until: now.Add(d), Most: c.Most, Paid: c.Paid}
}
