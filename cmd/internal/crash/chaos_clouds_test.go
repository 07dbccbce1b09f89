package crash_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/cloud/cloudtest"
	"github.com/burst-hpc/burst/cloud/fleet"
	"github.com/burst-hpc/burst/cloud/price"
	"github.com/burst-hpc/burst/slurm/overflow/budget"
	"github.com/burst-hpc/burst/slurm/power"
)

// TestChaosInTwoClouds is TestChaos in a pool that buys of two clouds, in which jobs keep to one of
// them or do not; the second fails by dice too. In some of the worlds there is a budget.
func TestChaosInTwoClouds(t *testing.T) {
	total := &tally{met: map[string]int{}}
	play := func(seed uint64) {
		t.Run(fmt.Sprint("dice ", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { chaos(newPlayedInTwo(t, seed), seed, total) })
		})
	}
	text := os.Getenv("CHAOS_TIME")
	if text == "" {
		worlds := uint64(20)
		if testing.Short() {
			worlds = 1
		}
		for seed := range worlds {
			play(seed)
		}
		return
	}
	whole, err := time.ParseDuration(text)
	if err != nil {
		t.Fatalf("CHAOS_TIME: %v", err)
	}
	seed := rand.Uint64() % 1_000_000
	if text := os.Getenv("CHAOS_SEED"); text != "" {
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatalf("CHAOS_SEED is no number: %v", err)
		}
	}
	fmt.Printf("chaos in two clouds: CHAOS_SEED=%d CHAOS_TIME=%s, virtual time\n", seed, text)
	played := 0
	for end := time.Now().Add(whole / 8); time.Now().Before(end); played++ {
		play(seed + uint64(played))
	}
	fmt.Printf("chaos in two clouds: %d worlds\n", played)
}

func newPlayedInTwo(t *testing.T, seed uint64) *played {
	p := newPlayedWith(t, seed, []string{"fake", "other"})
	then := fleet.Config{Types: []string{"large"}, Market: fleet.SpotThenOnDemand, SpotTimeout: p.some(2 * time.Minute)}
	p.pool.Then = []power.Source{{Provider: "other", Fleet: then}}
	if seed%3 == 1 { // a budget that has room for all, and something that has no price
		free := append(p.pool.Fleet.Offerings(), then.Offerings()...)
		s := &spender{story: p.story, caps: budget.Caps{Cluster: budget.Limits{Month: 1e6}, Location: time.UTC}, inc: price.PerSecond, free: free[seed%uint64(len(free))].String()}
		p.spends = s.spend
	}
	p.more = []fault{
		{"the first cloud has no capacity", 6, func(p *played) bool {
			for _, o := range p.offerings {
				p.fake.SetCapacity(o, p.dice.IntN(2))
			}
			return true
		}},
		{"the second cloud has no capacity, or some", 4, func(p *played) bool {
			p.other.SetCapacity(then.Offerings()[p.dice.IntN(2)], p.dice.IntN(4)-1)
			return true
		}},
		{"the second cloud fails", 6, func(p *played) bool {
			ops := []cloudtest.Op{cloudtest.Launch, cloudtest.Prepare, cloudtest.List, cloudtest.Terminate}
			kinds := []cloud.Kind{cloud.Auth, cloud.Transient, cloud.Throttled, cloud.Quota}
			op := ops[p.dice.IntN(len(ops))]
			p.other.Inject(op, cloudtest.Fault{Times: 1 + p.dice.IntN(8), Lost: p.dice.IntN(2) == 0, Err: p.failure(op, kinds[p.dice.IntN(len(kinds))])})
			return true
		}},
		{"the first cloud is away", 4, func(p *played) bool {
			for _, op := range []cloudtest.Op{cloudtest.Launch, cloudtest.Prepare, cloudtest.List} {
				p.fake.Inject(op, cloudtest.Fault{Times: 1 + p.dice.IntN(30), Lost: p.dice.IntN(2) == 0, Err: p.failure(op, cloud.Transient)})
			}
			return true
		}},
		{"an instance of the second cloud ends", 3, func(p *played) bool {
			for _, i := range p.other.Instances() {
				if i.State.Live() {
					p.other.Kill(i.ID)
					return true
				}
			}
			return false
		}},
		{"slurmctld is restarted", 2, func(p *played) bool { p.ctl.Down(); p.ctl.Up(); return true }},
	}
	return p
}
