package ec2test

import (
	"slices"
	"time"
)

// Call is one that was made.
type Call struct {
	Action string
	Count  int // instances that it named
	Begun  time.Time
	Took   time.Duration
	Code   string // of its error
}

// begin notes a call; end completes it.
func (c *Cloud) begin(action string, p *params) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.busy++; c.busy > c.peak {
		c.peak = c.busy
	}
	n := 0
	if p != nil {
		n = max(p.number("MaxCount"), p.number("TargetCapacitySpecification.TotalTargetCapacity"), len(p.list("InstanceId")))
	}
	c.log = append(c.log, Call{Action: action, Count: n, Begun: time.Now()})
	return len(c.log) - 1
}

func (c *Cloud) end(call int, code string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.busy--
	if call < len(c.log) { // not forgotten meanwhile
		c.log[call].Took, c.log[call].Code = time.Since(c.log[call].Begun), code
	}
}

// Log returns the calls made so far, in the order that they came.
func (c *Cloud) Log() []Call {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.log)
}

// Calls counts the calls of an action; of all if it is "".
func (c *Cloud) Calls(action string) int {
	n := 0
	for _, call := range c.Log() {
		if action == "" || call.Action == action {
			n++
		}
	}
	return n
}

// Peak is how many calls were under way at once at most.
func (c *Cloud) Peak() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.peak
}
