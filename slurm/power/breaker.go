package power

import (
	"cmp"
	"context"
	"errors"
	"fmt"
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
// A stopped pool launches nothing: what waits for its call is given back too.
// What may have been launched, or is up, goes on.

// stopped says whether the pool launches nothing, and what its jobs are told.
func (m *memory) stopped(pool string) (why string, ok bool) {
	if !m.pause.Since.IsZero() {
		return pausedText + m.pause.Why, true
	}
	if b := m.breakers[pool]; !b.Stopped.IsZero() {
		return stoppedText(pool) + b.Why, true
	}
	why = m.unready[pool]
	return stoppedText(pool) + why, why != ""
}

// stoppedText is in what the jobs of a stopped pool are told; by it they are
// known again when the pool starts.
func stoppedText(pool string) string { return fmt.Sprintf("pool %s is stopped: ", pool) }

// halt gives back what a stopped pool does not launch. The jobs try again at
// long intervals: an admin has to look first.
func (p planning) halt(c *Change, g group, why string) {
	give(c, p.mem, p.mem.whole(g.nodes, nil), why, p.now)
	for _, n := range g.nodes {
		if n.Job != 0 {
			hold(c, p.mem, n.Job, p.now.Add(maxRetry), why)
		}
	}
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
	var nodes []Node
	for _, o := range e.mem.whole([]Node{n}, snap) {
		if !slices.ContainsFunc(c.Nodes, func(p Node) bool { return p.Name == o.Name && p.Phase == Freeing }) {
			nodes = append(nodes, o)
		}
	}
	var given Change
	give(&given, e.mem, nodes, why, now)
	for _, i := range given.Instances {
		if !slices.ContainsFunc(c.Instances, func(o Instance) bool { return o.ID == i.ID }) {
			c.Instances = append(c.Instances, i)
		}
	}
	c.Nodes, c.Events = append(c.Nodes, given.Nodes...), append(c.Events, given.Events...)
	if n.Job != 0 {
		hold(c, e.mem, n.Job, retryAt(e.mem.holds[n.Job], now), fmt.Sprintf("node %s: %s", n.Name, why))
	}
}

// count adds to a change what it says of the pools' breakers: an instance that
// it marks as failed is one more in a row, a node that registers ends the row.
func (e *Engine) count(c *Change, now time.Time) {
	changed := map[string]Breaker{}
	get := func(pool string) Breaker {
		if b, ok := changed[pool]; ok {
			return b
		}
		b := e.mem.breakers[pool]
		b.Pool = pool
		return b
	}
	for _, n := range c.Nodes {
		if b := get(n.Pool); n.Phase == Up && e.mem.nodes[n.Name].Phase == Booting && b.Failures > 0 {
			b.Failures = 0
			changed[n.Pool] = b
		}
	}
	for _, i := range c.Instances {
		if !i.Failed || e.mem.instances[i.ID].Failed || !e.mem.pause.Since.IsZero() { // all may be ended by hand then
			continue
		}
		i.Pool = cmp.Or(e.poolOf[i.Assigned], i.Pool)
		b := get(i.Pool)
		b.Failures++
		c.Events = append(c.Events, Event{Time: now, Kind: "boot-failed", Node: i.Assigned, Instance: i.ID, Pool: i.Pool,
			Text: fmt.Sprintf("%s; boot failures in a row: %d", i.Doomed, b.Failures)})
		if most := e.pools[i.Pool].MaxBootFailures; most > 0 && b.Failures >= most && b.Stopped.IsZero() {
			b.Stopped, b.Why = now, oneLine(fmt.Sprintf("%d instances in a row did not become nodes; the last, %s: %s", b.Failures, i.ID, i.Doomed))
			c.Events = append(c.Events, Event{Time: now, Kind: "pool-stopped", Pool: i.Pool,
				Text: fmt.Sprintf("%s; it launches nothing until `burst pool start %s`", b.Why, i.Pool)})
		}
		changed[i.Pool] = b
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
		b, ok := e.mem.breakers[pool]
		if !ok {
			return nil
		}
		c := Change{Breakers: []Breaker{{Pool: pool}}}
		if !b.Stopped.IsZero() {
			c.Events = append(c.Events, Event{Time: time.Now(), Kind: "pool-started", Pool: pool, Text: "by " + by})
			unhold(&c, e.mem, snap, stoppedText(pool), fmt.Sprintf("pool %s launches again", pool))
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
		b.Pool, b.Why = pool, fmt.Sprintf("%s (by %s)", reason, by)
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
