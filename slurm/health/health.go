// Package health judges nodes that have registered by what their agents say,
// and has Slurm drain and power down the sick ones: Slurm replaces what it needs.
package health

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/burst-hpc/burst/slurm"
)

// Sick is a node that is about to be drained.
type Sick struct {
	Node
	Why string
}

// Site is what the journal knows.
type Site interface {
	// Up lists the nodes that the journal has up with an instance that is not to end.
	Up() []Node
	// Note makes it durable that these nodes are drained.
	Note(ctx context.Context, sick []Sick) error
}

// controller is what the monitor needs of Slurm.
type controller interface {
	Fresh(ctx context.Context, since time.Time) (*slurm.Snapshot, error)
	UpdateNodes(ctx context.Context, u slurm.NodeUpdate) error
}

// pace is how often nodes are judged.
const pace = 5 * time.Second

// lookAgain is how often Slurm is read for the sake of nodes that are drained
// already and have a job for days, or that have to wait.
const lookAgain = time.Minute

// peace is how long after so many nodes of a pool have been drained as may be
// at once the next are.
const peace = 10 * time.Minute

// forget is how long a beat of an instance that is no node is remembered: it
// may be registering.
const forget = 30 * time.Minute

// Monitor hears agents and judges their nodes. What it knows is in memory
// only: after a restart every agent beats again within an interval.
type Monitor struct {
	limits Limits
	site   Site
	slurm  controller
	log    *slog.Logger

	mu    sync.Mutex
	heard map[string]heard
	count Count

	// Of Run alone.
	clear map[string]time.Time
	last  time.Time            // when nodes were judged
	noted map[string]bool      // instances that the journal has as sick
	tried map[string]attempt   // by instance: those of late
	left  map[string]time.Time // sick instances that could not be drained, or need not: when Slurm was read
	told  string               // what was said last of nodes that wait
}

// attempt is a node that was drained, or may have been.
type attempt struct {
	pool string
	at   time.Time
	done bool // Slurm has taken it
}

// Count is how many nodes of those that are up have an agent that is heard,
// was and is not, or has not been since we listen, and how many are sick.
type Count struct{ Heard, Silent, Never, Sick int }

// New makes a monitor.
func New(l Limits, site Site, c controller, log *slog.Logger) *Monitor {
	return &Monitor{limits: l, site: site, slurm: c, log: log, heard: map[string]heard{}, noted: map[string]bool{},
		tried: map[string]attempt{}, left: map[string]time.Time{}}
}

// Hear takes a beat of an agent whose identity has been checked.
func (m *Monitor) Hear(b Beat) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.heard[b.Instance] = m.heard[b.Instance].next(b, m.limits)
}

// Interval is how often agents are to beat.
func (m *Monitor) Interval() time.Duration { return m.limits.Interval() }

// Count is as of the last judgement.
func (m *Monitor) Count() Count {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.count
}

// Run judges nodes until ctx ends. A failure is tried again at the next judgement.
func (m *Monitor) Run(ctx context.Context) {
	tick := time.NewTicker(pace)
	defer tick.Stop()
	for failed := ""; ; {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		err := m.round(ctx, time.Now())
		if err != nil && err.Error() != failed && ctx.Err() == nil {
			m.log.Warn("sick nodes are not drained yet", "error", err)
		}
		failed = ""
		if err != nil {
			failed = err.Error()
		}
	}
}

// round judges once, and drains what is sick.
func (m *Monitor) round(ctx context.Context, now time.Time) error {
	up := m.site.Up()
	if now.Sub(m.last) > 3*pace {
		m.clear = nil // we have not listened, or the clock has jumped
	}
	m.last = now
	v := m.look(up, now)
	m.clear = v.clear
	sick := m.limits.judge(v)
	m.tally(v, len(sick))
	if len(sick) == 0 {
		m.told = ""
		return nil
	}
	if !slices.ContainsFunc(sick, func(s verdict) bool { return now.Sub(m.left[s.Instance]) >= lookAgain }) {
		return nil
	}
	snap, err := m.slurm.Fresh(ctx, now)
	if err != nil {
		return err
	}
	// The reading took its time: a node may have another instance by now.
	chosen, waiting := choose(sick, m.site.Up(), snap, m.tried)
	if waiting != "" && waiting != m.told {
		m.log.Warn("sick nodes wait until others of their pool have been replaced", "nodes", waiting)
	}
	m.told = waiting
	for _, s := range sick {
		if !slices.Contains(chosen, s) {
			m.left[s.Instance] = now
		}
	}
	return m.drain(ctx, chosen, now)
}

// look puts together what a judgement needs, and forgets who is no node.
func (m *Monitor) look(up []Node, now time.Time) view {
	nodes := map[string]bool{}
	for _, n := range up {
		nodes[n.Instance] = true
	}
	m.mu.Lock()
	maps.DeleteFunc(m.heard, func(i string, h heard) bool { return !nodes[i] && now.Sub(h.At) > forget })
	v := view{now: now, nodes: up, heard: maps.Clone(m.heard)}
	m.mu.Unlock()
	maps.DeleteFunc(m.noted, func(i string, _ bool) bool { return !nodes[i] })
	maps.DeleteFunc(m.left, func(i string, _ time.Time) bool { return !nodes[i] })
	maps.DeleteFunc(m.tried, func(_ string, a attempt) bool { return now.Sub(a.at) > peace })
	v.clear = m.limits.clearSince(v, m.clear)
	return v
}

func (m *Monitor) tally(v view, sick int) {
	c := Count{Sick: sick}
	for _, n := range v.nodes {
		switch h, spoke := v.heard[n.Instance]; {
		case !spoke:
			c.Never++
		case v.now.Sub(h.At) <= m.limits.overdue():
			c.Heard++
		default:
			c.Silent++
		}
	}
	m.mu.Lock()
	m.count = c
	m.mu.Unlock()
}

// prefix begins the reason of a node that we have drained.
const prefix = "burst: sick: "

// choose keeps what may be drained now: nodes that Slurm has up, whose instance
// is still the one that was judged, and at most a tenth of each pool's nodes,
// or one, at once and within peace (tried has those that were): a wrong limit
// must not drain a site. An idle node is gone in seconds: that makes no room for
// the next. waiting names the others, for the log.
func choose(sick []verdict, up []Node, snap *slurm.Snapshot, tried map[string]attempt) (chosen []verdict, waiting string) {
	now, size, leaving := map[string]Node{}, map[string]int{}, map[string]int{}
	for _, n := range up {
		now[n.Name] = n
		size[n.Pool]++
		if s := snap.Nodes[n.Name]; strings.HasPrefix(s.Reason, prefix) && slices.ContainsFunc([]string{slurm.Drain, slurm.PowerDown, slurm.PoweringDown}, s.State.Has) {
			leaving[n.Pool]++
		}
	}
	recent, room := map[string]int{}, map[string]int{}
	for _, a := range tried {
		recent[a.pool]++
	}
	for pool, n := range size {
		room[pool] = max(1, n/10) - max(leaving[pool], recent[pool])
	}
	var wait []string
	for _, s := range sick {
		before, again := tried[s.Instance]
		switch n := now[s.Name]; {
		case n.Instance != s.Instance || before.done || !inUse(snap.Nodes[s.Name].State):
		case again:
			chosen = append(chosen, s)
		case room[s.Pool] <= 0:
			wait = append(wait, s.Name)
		default:
			room[s.Pool]--
			chosen = append(chosen, s)
		}
	}
	return chosen, strings.Join(wait, ",")
}

// inUse says that Slurm has the node up and open to jobs. What is drained or
// powered down already, by whomever, is left alone, and a node that does not answer Slurm
// either is a question for the cloud.
func inUse(s slurm.NodeState) bool {
	if !slices.Contains([]string{"IDLE", "MIXED", "ALLOCATED"}, s.Base) {
		return false
	}
	return !slices.ContainsFunc([]string{slurm.PoweredDown, slurm.PoweringDown, slurm.PowerDown, slurm.PoweringUp, slurm.PowerUp,
		slurm.NotResponding, slurm.Drain}, s.Has)
}

// drain writes down who is sick, and has them powered down once their jobs
// have ended: a command for each trouble.
func (m *Monitor) drain(ctx context.Context, sick []verdict, now time.Time) error {
	byWhy := map[string][]verdict{}
	var news []Sick
	for _, s := range sick {
		byWhy[s.why] = append(byWhy[s.why], s)
		if !m.noted[s.Instance] {
			news = append(news, Sick{s.Node, s.why})
		}
	}
	if len(news) > 0 {
		if err := m.site.Note(ctx, news); err != nil {
			return err
		}
	}
	for _, s := range news {
		m.noted[s.Instance] = true
	}
	var errs []error
	for _, why := range slices.Sorted(maps.Keys(byWhy)) {
		u := slurm.NodeUpdate{State: "power_down_asap", Reason: prefix + why}
		for _, s := range byWhy[why] {
			u.Nodes = append(u.Nodes, s.Name)
			m.tried[s.Instance] = attempt{pool: s.Pool, at: now} // whatever comes: it may have its effect
		}
		if err := m.slurm.UpdateNodes(ctx, u); err != nil {
			errs = append(errs, fmt.Errorf("draining %d nodes: %w", len(u.Nodes), err))
			continue
		}
		for _, s := range byWhy[why] {
			m.tried[s.Instance] = attempt{pool: s.Pool, at: now, done: true}
		}
	}
	return errors.Join(errs...)
}
