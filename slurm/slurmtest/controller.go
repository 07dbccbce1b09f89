package slurmtest

import (
	"container/heap"
	"context"
	"slices"
	"strings"
	"sync"
	"time"
)

// Controller is the simulated slurmctld. Its methods may be called
// concurrently, also from the hooks.
type Controller struct {
	opt  Options
	wake chan struct{} // the first event has changed

	mu         sync.Mutex
	nodes      []*node
	byName     map[string]*node
	jobs       map[uint32]*job
	lastJob    uint32
	events     events
	lastEvent  int
	passDue    bool // a scheduling pass is queued
	down       bool
	loseResume bool
	touched    []*node // may have changed state in this critical section
	calls      []Call
	reserved   map[string]Reservation
}

// New makes a cluster whose cloud nodes are powered down. Nothing happens in
// time before Serve. In a synctest bubble New is called inside it.
func New(o Options) *Controller {
	o = o.withDefaults()
	c := &Controller{opt: o, wake: make(chan struct{}, 1), byName: map[string]*node{}, jobs: map[uint32]*job{}, reserved: map[string]Reservation{}}
	now := time.Now()
	for _, name := range o.Nodes {
		c.add(&node{name: name, partition: o.Partition, cloud: true, poweredDown: true, active: o.Features})
	}
	for _, name := range o.Servers {
		c.add(&node{name: name, partition: servers, cloud: true, poweredDown: true})
	}
	for _, name := range o.OnPrem {
		c.add(&node{name: name, partition: onPrem, alive: true, boot: now, busy: now})
	}
	c.after(o.Interval, c.powerRound)
	c.after(o.Interval/2, c.schedRound)
	if o.Ungated {
		c.after(jobTick, c.startRound)
	}
	c.record()
	return c
}

// The partitions of the ordinary nodes, and of servers.
const (
	onPrem  = "onprem"
	servers = "servers"
)

func (c *Controller) add(n *node) {
	n.cpus = c.opt.CPUs
	n.resetAddr()
	c.nodes = append(c.nodes, n)
	c.byName[n.name] = n
	c.touch(n)
}

// event is something that happens later.
type event struct {
	at  time.Time
	seq int // order among equals
	do  func()
}

type events []event

func (e events) Len() int      { return len(e) }
func (e events) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)   { *e = append(*e, x.(event)) }
func (e events) Less(i, j int) bool {
	return e[i].at.Before(e[j].at) || e[i].at.Equal(e[j].at) && e[i].seq < e[j].seq
}
func (e *events) Pop() any {
	last := len(*e) - 1
	x := (*e)[last]
	*e = (*e)[:last]
	return x
}

// after queues do, which runs with the lock held.
func (c *Controller) after(d time.Duration, do func()) {
	c.lastEvent++
	heap.Push(&c.events, event{time.Now().Add(d), c.lastEvent, do})
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// locked runs do with the lock held and writes the nodes' history.
func (c *Controller) locked(do func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	do()
	c.record()
}

func (c *Controller) touch(n *node) { c.touched = append(c.touched, n) }

func (c *Controller) record() {
	now := time.Now()
	for _, n := range c.touched {
		s := n.state()
		if len(n.history) == 0 || n.history[len(n.history)-1].State != s {
			n.history = append(n.history, Change{s, now})
		}
	}
	c.touched = c.touched[:0]
}

// Serve lets time pass for the controller until ctx ends.
func (c *Controller) Serve(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		if next, ok := c.runDue(); ok {
			timer.Reset(time.Until(next))
		}
		select {
		case <-ctx.Done():
			return
		case <-c.wake:
		case <-timer.C:
		}
	}
}

// runDue carries out all that is due and returns when the next is; while the
// controller is down nothing is.
func (c *Controller) runDue() (next time.Time, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for !c.down && len(c.events) > 0 {
		if next = c.events[0].at; next.After(time.Now()) {
			return next, true
		}
		heap.Pop(&c.events).(event).do()
		c.record()
	}
	return time.Time{}, false
}

// Down stops the controller: commands fail and nothing changes. What happens
// to jobs and slurmds meanwhile it learns after Up.
func (c *Controller) Down() { c.locked(func() { c.down = true }) }

// Up starts the controller again with the state that it had.
func (c *Controller) Up() {
	c.locked(func() {
		c.down = false
		c.reconfigure()
		for _, n := range c.nodes {
			if n.alive && !n.usable() {
				c.register(n)
			}
		}
		c.after(0, func() {}) // what became due while it was down
	})
}

// LoseResume makes the controller die between marking nodes as powering up
// and calling ResumeProgram: the next call is not made, and never repeated.
func (c *Controller) LoseResume() { c.locked(func() { c.loseResume = true }) }

// Node returns a node's state as scontrol prints it, "" for an unknown one.
func (c *Controller) Node(name string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n := c.byName[name]; n != nil {
		return n.state()
	}
	return ""
}

// Addr returns a node's NodeAddr, "" for an unknown one.
func (c *Controller) Addr(name string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n := c.byName[name]; n != nil {
		return n.addr
	}
	return ""
}

// History returns a node's states since New, oldest first.
func (c *Controller) History(name string) []Change {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n := c.byName[name]; n != nil {
		return slices.Clone(n.history)
	}
	return nil
}

// Calls returns the commands run so far.
func (c *Controller) Calls() []Call {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.calls)
}

// ForgetPast forgets the commands run so far and the nodes' history, for tests of
// which both would become large.
func (c *Controller) ForgetPast() {
	c.locked(func() {
		c.calls = nil
		for _, n := range c.nodes {
			n.history = nil
			c.touch(n)
		}
	})
}

// Count returns how many command lines ("scontrol update nodename=…") begin
// with prefix.
func (c *Controller) Count(prefix string) int {
	count := 0
	for _, call := range c.Calls() {
		if strings.HasPrefix(call.line(), prefix) {
			count++
		}
	}
	return count
}

func (c Call) line() string { return strings.Join(append([]string{c.Name}, c.Args...), " ") }
