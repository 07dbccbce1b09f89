package power

import (
	"errors"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/cloud/fleet"
)

// TestNow: what would be asked for first, and why the others are not, until when.
func TestNow(t *testing.T) {
	now := time.Now()
	pool := Pool{Name: "p", Provider: "east", Fleet: fleet.Config{Types: []string{"small", "large"}, Market: fleet.SpotOnly}}
	small, large := cloud.Offering{Type: "small", Market: cloud.Spot}, cloud.Offering{Type: "large", Market: cloud.Spot}
	e := &Engine{mem: newMemory(State{}), market: newMarket()}
	if o := e.Now(pool, 1, now); o.First != small || o.After != 0 || len(o.Cold) > 0 {
		t.Errorf("%+v", o)
	}
	var c Change
	l := Launch{Provider: "east", Request: cloud.LaunchRequest{Pool: "p", Offering: small, Count: 1}}
	e.refuse(&c, l, &cloud.Error{Kind: cloud.Quota, Offering: small, Err: errors.New("too many")}, answer{})
	e.mem.apply(c)
	o := e.Now(pool, 1, now)
	if o.First != large || len(o.Cold) != 1 || o.Cold[0].Offering != small || o.Cold[0].Why != "over the account's quota" || !o.Cold[0].Until.After(now) {
		t.Errorf("%+v", o)
	}
	for _, why := range []string{"over the account's quota", "it has failed"} { // burstd was started
		if o := e.Now(pool, 1, now); o.Cold[0].Why != why {
			t.Errorf("%+v", o)
		}
		e.market = newMarket()
	}
	most := fleet.Cooldown{Most: 1, Paid: now.Add(time.Hour)}
	e.mem.cool[coolKey{"east", large}] = most
	if o := e.Now(pool, 1, now); o.First != large {
		t.Errorf("%+v", o)
	}
	if o := e.Now(pool, 2, now); o.First != (cloud.Offering{}) || len(o.Cold) != 2 {
		t.Errorf("%+v", o)
	}
	if o := e.Now(pool, 2, now.Add(2*time.Hour)); o.First != small {
		t.Errorf("%+v", o)
	}
}

// TestNowIsWhatIsLaunched: of nodes that are ordered now, what Now says is what is launched, and when; not a second before.
func TestNowIsWhatIsLaunched(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		seconds := func(name string, of ...int) time.Duration {
			return time.Duration(rapid.SampledFrom(of).Draw(rt, name)) * time.Second
		}
		pool := testPools()[0]
		pool.BootTimeout = seconds("boot", 0, 120, 600)
		pool.Fleet = fleet.Config{Types: []string{"small", "big"}, Market: fleet.SpotThenOnDemand, SpotTimeout: seconds("timeout", 0, 30, 120)}
		st := State{Nodes: []Node{{Name: "c1", Pool: "p", Phase: Wanted, Job: 7, Whole: true, Made: at}}}
		unpriced := rapid.SampledFrom([]cloud.Market{"", cloud.Spot, cloud.OnDemand}).Draw(rt, "unpriced")
		priced := func(_ string, o cloud.Offering) bool { return o.Market != unpriced }
		for _, o := range pool.Fleet.Offerings() {
			if d := seconds(o.String(), 0, 20, 50, 600); d > 0 {
				st.Coolings = append(st.Coolings, Cooling{"east", o, fleet.Cooldown{Failures: 1, Until: at.Add(d)}})
			}
		}
		e := &Engine{cfg: Config{Priced: priced, BootTimeout: 10 * time.Minute}, mem: newMemory(st), market: newMarket(), pools: map[string]Pool{"p": pool}}
		launched := func(after time.Duration) (o cloud.Offering) {
			p := planning{mem: newMemory(st), pools: e.pools, limits: map[string]cloud.Limits{"east": {MaxLaunch: 2}}, market: newMarket(),
				now: at.Add(after), bootTimeout: e.cfg.BootTimeout, shut: map[string]shut{}, priced: priced, purse: e.newPurse(t.Context())}
			if out := p.plan(); len(out.drafts) > 0 {
				o = out.drafts[0].Request.Offering
			}
			return o
		}
		o := e.Now(pool, 1, at)
		if got := launched(o.After); got != o.First {
			rt.Errorf("%+v, and %s is launched then", o, got)
		}
		if got := launched(o.After - time.Second); o.After > 0 && got != (cloud.Offering{}) {
			rt.Errorf("%+v, and %s is launched before", o, got)
		}
	})
}

// TestComing: those on their way up, and no others.
func TestComing(t *testing.T) {
	e := &Engine{mem: newMemory(State{Nodes: []Node{{Name: "a", Phase: Wanted}, {Name: "b", Phase: Up}, {Name: "c", Phase: Booting}, {Name: "d", Phase: Freeing}, {Name: "e", Phase: Launching}}})}
	if got := e.Coming(); len(got) != 3 {
		t.Errorf("%+v", got)
	}
}
