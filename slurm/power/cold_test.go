package power

import (
	"errors"
	"testing"
	"time"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/cloud/fleet"
)

// TestNow: what would be asked for first, and why the others are not, until when.
func TestNow(t *testing.T) {
	now := time.Now()
	pool := Pool{Name: "p", Provider: "east", Fleet: fleet.Config{Types: []string{"small", "large"}, Market: fleet.SpotOnly}}
	small, large := cloud.Offering{Type: "small", Market: cloud.Spot}, cloud.Offering{Type: "large", Market: cloud.Spot}
	e := &Engine{mem: newMemory(State{}), market: newMarket()}
	if first, cold, _ := e.Now(pool, 1, now); first != small || len(cold) > 0 {
		t.Error(first, cold)
	}
	var c Change
	l := Launch{Provider: "east", Request: cloud.LaunchRequest{Pool: "p", Offering: small, Count: 1}}
	e.refuse(&c, l, &cloud.Error{Kind: cloud.Quota, Offering: small, Err: errors.New("too many")}, answer{})
	e.mem.apply(c)
	first, cold, _ := e.Now(pool, 1, now)
	if first != large || len(cold) != 1 || cold[0].Offering != small || cold[0].Why != "over the account's quota" || !cold[0].Until.After(now) {
		t.Error(first, cold)
	}
	for _, why := range []string{"over the account's quota", "it has failed"} { // burstd was started
		if _, cold, _ := e.Now(pool, 1, now); cold[0].Why != why {
			t.Error(cold)
		}
		e.market = newMarket()
	}
	most := fleet.Cooldown{Most: 1, Paid: now.Add(time.Hour)}
	e.mem.cool[coolKey{"east", large}] = most
	if first, _, _ := e.Now(pool, 1, now); first != large {
		t.Error(first)
	}
	if first, cold, _ := e.Now(pool, 2, now); first != (cloud.Offering{}) || len(cold) != 2 {
		t.Error(first, cold)
	}
	if first, _, _ := e.Now(pool, 2, now.Add(2*time.Hour)); first != small {
		t.Error(first)
	}
}

// TestComing: those on their way up, and no others.
func TestComing(t *testing.T) {
	e := &Engine{mem: newMemory(State{Nodes: []Node{{Name: "a", Phase: Wanted}, {Name: "b", Phase: Up}, {Name: "c", Phase: Booting}, {Name: "d", Phase: Freeing}, {Name: "e", Phase: Launching}}})}
	if got := e.Coming(); len(got) != 3 {
		t.Errorf("%+v", got)
	}
}
