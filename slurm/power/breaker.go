package power

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/burst-hpc/burst/slurm"
)

// A pool's breaker:
//
//	         a boot failure: +1        MaxBootFailures in a row, StopPool
//	launches ------------------> launches ------------------> stopped
//	   ^  ^        a registration: 0    |                        |
//	   |  +-----------------------------+                        |
//	   +---------------------------------------------------------+
//	                          StartPool
//
// A stopped pool launches nothing: what waits for its call, or its answer, is given back too.
// What boots or is up goes on; what came of a launch without an answer ends.
//
// Of a pool with several sources each has a breaker of its own, which counts the
// failures of its provider's instances alone: when it stops, the next source has
// its turn. The pool's own breaker counts nothing then, and is for StopPool, and for
// what it had counted before; StartPool starts all of them.

// stopped says whether the pool launches nothing at a provider, and what its
// jobs are told.
func (m *memory) stopped(pool, provider string) (why string, ok bool) {
	if !m.pause.Since.IsZero() {
		return pausedText + m.pause.Why, true
	}
	for _, of := range []string{"", provider} {
		if b := m.breakers[(Breaker{Pool: pool, Provider: of}).Key()]; !b.Stopped.IsZero() {
			return stoppedText(pool, of) + b.Why, true
		}
	}
	why, ok = m.unready[sourceKey(pool, provider)]
	return why, ok
}

// Key names the breaker: its pool, or of a pool with several sources that and
// the provider. An older burstd takes the latter for a pool that it does not have.
func (b Breaker) Key() string {
	if b.Provider == "" {
		return b.Pool
	}
	return sourceKey(b.Pool, b.Provider)
}

// stoppedText is in what the jobs of a stopped pool, or of its source at a
// provider, are told; by it they are known again when it starts.
func stoppedText(pool, provider string) string {
	if provider == "" {
		return fmt.Sprintf("pool %s is stopped: ", pool)
	}
	return fmt.Sprintf("pool %s at %s is stopped: ", pool, provider)
}

// source is the provider by which the engine tells a pool's sources apart; "":
// it has only one, and what is said of that is said of the pool.
func (e *Engine) source(pool, provider string) string {
	if len(e.pools[pool].Then) == 0 {
		return ""
	}
	return provider
}

// failed is an instance that did not become a node, and ends for it.
func (i Instance) failed(why string) Instance {
	if i.Doomed == "" {
		i.Doomed, i.Failed, i.Console = why, true, true
	}
	return i
}

// fail has a planned change, or else the journal's record, say that the
// instance has failed; give or doom may have doomed it in the same change.
func fail(c *Change, m *memory, id, why string) {
	i, ok := m.instances[id]
	if !ok || i.Doomed != "" {
		return
	}
	c.Instances = slices.DeleteFunc(c.Instances, func(o Instance) bool { return o.ID == id })
	c.Instances = append(c.Instances, i.failed(why))
}

// bootFailed plans what becomes of a node whose instance failed: another
// instance, or if it had enough of them, or too little of ResumeTimeout is left
// for another, back to Slurm.
func (e *Engine) bootFailed(c *Change, n Node, why string, snap *slurm.Snapshot) {
	now := time.Now()
	id := n.Instance
	if server := e.bereft(e.mem.instances[id]); server != "" { // it waits for it, and is given back when that takes too long
		fail(c, e.mem, id, why)
		n.Phase, n.Since, n.Token, n.Instance, n.AddrSet = Wanted, now, "", "", false
		c.Nodes = append(c.Nodes, n)
		c.Events = append(c.Events, Event{Time: now, Kind: "retry", Node: n.Name, Instance: id, Pool: n.Pool, Job: n.Job,
			Text: fmt.Sprintf("server %s, which it mounts from, was away: another instance is launched for it when that is up", server)})
		return
	}
	n.Tries++
	late := now.Sub(n.Made) > e.bootTimeout(n.Pool)/2
	if n.Tries < maxTries && !late {
		fail(c, e.mem, id, why)
		n.Phase, n.Since, n.Token, n.Instance, n.AddrSet = Wanted, now, "", "", false
		c.Nodes = append(c.Nodes, n)
		c.Events = append(c.Events, Event{Time: now, Kind: "retry", Node: n.Name, Instance: id, Pool: n.Pool, Job: n.Job,
			Text: "another instance is launched for it"})
		return
	}
	if n.Tries > 1 {
		why = oneLine(fmt.Sprintf("%d instances in a row did not become the node; the last: %s", n.Tries, why))
	}
	fail(c, e.mem, id, why)
	e.giveUp(c, n, why, snap)
}

// oneLine makes a reason fit for Slurm: one line, at most 500 bytes.
func oneLine(why string) string {
	const most = 500
	why = strings.Join(strings.Fields(tail(why, consoleText)), " ")
	if len(why) <= most {
		return why
	}
	end := most - len("…")
	for !utf8.RuneStart(why[end]) {
		end--
	}
	return why[:end] + "…"
}

// giveUp gives a node back to Slurm, with the others of its job, which is told.
func (e *Engine) giveUp(c *Change, n Node, why string, snap *slurm.Snapshot) {
	now := time.Now()
	e.giveWhole(c, []Node{n}, snap, why, now)
	if n.Job != 0 {
		hold(c, e.mem, n.Job, retryAt(e.mem.holds[n.Job], now), fmt.Sprintf("node %s: %s", n.Name, why))
	}
}

// count adds to a change what it says of the pools' breakers: an instance that
// it marks as failed is one more in a row, a node that registers ends the row.
func (e *Engine) count(c *Change, now time.Time) {
	changed := map[string]Breaker{}
	get := func(pool, provider string) Breaker {
		b := Breaker{Pool: pool, Provider: e.source(pool, provider)}
		if had, ok := changed[b.Key()]; ok {
			return had
		}
		if had, ok := e.mem.breakers[b.Key()]; ok {
			return had
		}
		return b
	}
	for _, n := range c.Nodes {
		if b := get(n.Pool, e.mem.instances[n.Instance].Provider); n.Phase == Up && e.mem.nodes[n.Name].Phase == Booting && b.Failures > 0 {
			b.Failures = 0
			changed[b.Key()] = b
		}
	}
	for _, i := range c.Instances {
		if !i.Failed || e.mem.instances[i.ID].Failed || !e.mem.pause.Since.IsZero() { // all may be ended by hand then
			continue
		}
		if server := e.bereft(i); server != "" {
			c.Events = append(c.Events, Event{Time: now, Kind: "boot-failed", Node: i.Assigned, Instance: i.ID, Pool: i.Pool,
				Text: fmt.Sprintf("%s; not counted, as server %s, which it mounts from, was away", i.Doomed, server)})
			continue
		}
		b := get(i.Pool, i.Provider)
		b.Failures++
		c.Events = append(c.Events, Event{Time: now, Kind: "boot-failed", Node: i.Assigned, Instance: i.ID, Pool: i.Pool,
			Text: fmt.Sprintf("%s; boot failures in a row: %d", i.Doomed, b.Failures)})
		if most := e.pools[i.Pool].MaxBootFailures; most > 0 && b.Failures >= most && b.Stopped.IsZero() {
			b.Stopped, b.Why = now, oneLine(fmt.Sprintf("%d instances in a row did not become nodes; the last, %s: %s", b.Failures, i.ID, i.Doomed))
			c.Events = append(c.Events, Event{Time: now, Kind: "pool-stopped", Pool: i.Pool,
				Text: strings.TrimPrefix(fmt.Sprintf("%s: %s; it launches nothing until `burst pool start %s`", b.Provider, b.Why, i.Pool), ": ")})
		}
		changed[b.Key()] = b
	}
	for _, b := range changed {
		c.Breakers = append(c.Breakers, b)
	}
}

// ErrNoPool is wrapped when no pool of the configuration has the name.
var ErrNoPool = errors.New("no such pool")

// StartPool has a stopped pool launch again, its count begin anew, and the jobs
// that wait for it start.
// By says who asked.
func (e *Engine) StartPool(ctx context.Context, pool, by string) error {
	snap := e.jobsNow(ctx)
	return e.do(ctx, func(ctx context.Context) error {
		if _, ok := e.pools[pool]; !ok {
			return fmt.Errorf("%w: %q", ErrNoPool, pool)
		}
		var c Change
		for _, key := range slices.Sorted(maps.Keys(e.mem.breakers)) {
			b := e.mem.breakers[key]
			if b.Pool != pool {
				continue
			}
			c.Breakers = append(c.Breakers, Breaker{Pool: pool, Provider: b.Provider})
			if !b.Stopped.IsZero() {
				text := strings.TrimPrefix(b.Provider+": by "+by, ": ")
				c.Events = append(c.Events, Event{Time: time.Now(), Kind: "pool-started", Pool: pool, Text: text})
				unhold(&c, e.mem, snap, stoppedText(pool, b.Provider), fmt.Sprintf("pool %s launches again", pool))
			}
		}
		return e.commit(ctx, c)
	})
}

// StopPool stops a pool by hand. One that is stopped stays so, for the new reason.
func (e *Engine) StopPool(ctx context.Context, pool, reason, by string) error {
	return e.do(ctx, func(ctx context.Context) error {
		if _, ok := e.pools[pool]; !ok {
			return fmt.Errorf("%w: %q", ErrNoPool, pool)
		}
		b := e.mem.breakers[pool]
		b.Pool, b.Why, b.ByHand = pool, fmt.Sprintf("%s (by %s)", reason, by), true
		if b.Stopped.IsZero() {
			b.Stopped = time.Now()
		}
		return e.commit(ctx, Change{Breakers: []Breaker{b},
			Events: []Event{{Time: time.Now(), Kind: "pool-stopped", Pool: pool, Text: b.Why}}})
	})
}

// do has Run's goroutine run f, and waits for it.
func (e *Engine) do(ctx context.Context, f func(context.Context) error) error {
	done := make(chan error, 1)
	select {
	case e.results <- func(ctx context.Context) { done <- f(ctx) }:
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}
