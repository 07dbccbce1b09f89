package chaos

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/cmd/internal/api"
)

// rules of pools for what is less than an eviction, drawn from the seed.
func rules(seed uint64) string {
	dice := rand.New(rand.NewPCG(seed, 5))
	return fmt.Sprintf("on_rebalance = %q\non_maintenance = %q\n",
		[]string{"ignore", "drain", "replace"}[dice.IntN(3)], []string{"ignore", "drain", "reserve"}[dice.IntN(3)])
}

// pauseLaunches is an admin's pause. Its end is asked for until burstd has it.
func (w *world) pauseLaunches(ctx context.Context, e event) bool {
	change := func(c api.PauseChange) func() error {
		return func() error { return insist(time.Minute, func() error { return w.API.ChangePause(ctx, c) }) }
	}
	return w.during(e, change(api.PauseChange{Pause: true, Reason: "chaos"}), change(api.PauseChange{}))
}

// practise is burst evict: a drill is as real as an eviction on this cloud. It
// waits for burstd, and for an instance.
func (w *world) practise(ctx context.Context, e event) bool {
	return insist(20*time.Second, func() error {
		m, ok := w.machine(e.pick)
		if !ok {
			return errors.New("no instance lives")
		}
		all, err := w.API.Evict(ctx, api.EvictRequest{Names: m.ID, Lead: e.last, NoNotice: e.pick%4 == 0})
		w.say("burst evict of %s (%s): %+v, %v", m.ID, m.Node, all, err)
		return err
	}) == nil
}

// insist asks again until it is answered: burstd may be away.
func insist(most time.Duration, ask func() error) error {
	for end := time.Now().Add(most); ; time.Sleep(500 * time.Millisecond) {
		if err := ask(); err == nil || time.Now().After(end) {
			return err
		}
	}
}

// lesser announces what is no eviction: twice, as clouds do.
func (w *world) lesser(e event) bool {
	m, ok := w.await(e.pick)
	if !ok {
		return false
	}
	n := cloud.Notice{Kind: cloud.Rebalance}
	switch e.kind {
	case maintenance:
		n = cloud.Notice{Kind: cloud.Maintenance, Event: fmt.Sprint("event-", e.pick), Action: "system-reboot", Deadline: time.Now().Add(e.last)}
	case stateChange:
		n = cloud.Notice{Kind: cloud.StateChange, Action: []string{"stopping", "terminated", "running", "sleeping"}[e.pick%4]}
	}
	announce := func() error { return w.Control.Announce(m.ID, n) }
	for range 2 {
		if err := announce(); err != nil {
			w.say("%s: %v", e.kind, err)
			return false
		}
	}
	if e.kind != maintenance || e.pick%2 == 0 {
		return true
	}
	return w.lasting(func() {
		time.Sleep(e.last / 2)
		n.Cancelled = true
		w.say("%s of %s is cancelled: %v", n.Event, m.ID, announce())
	})
}
