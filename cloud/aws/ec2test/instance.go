package ec2test

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"time"
)

// Instance is one as a test may look at it.
type Instance struct {
	ID, Type, Zone, Subnet string
	Spot                   bool
	State                  string // "pending", "running", "shutting-down", "terminated", "stopped"
	Addr                   string
	Tags                   map[string]string
	Boot                   Boot
	Launched, Ended        time.Time // Ended is zero while it is not terminated
	Spec                   *Spec
}

// The states, with EC2's codes.
type state int

const (
	pending      state = 0
	running      state = 16
	shuttingDown state = 32
	terminated   state = 48
	stopped      state = 80
)

var stateNames = map[state]string{
	pending: "pending", running: "running", shuttingDown: "shutting-down", terminated: "terminated", stopped: "stopped",
}

// machine is an instance with the times at which it changes.
type machine struct {
	id          string
	serial      int
	reservation string
	pool        Pool
	subnet      *Subnet
	addr        netip.Addr
	spec        *Spec
	tags        map[string]string // shared; replaced when it changes
	boot        Boot
	launched    time.Time
	runs        time.Time
	shown       time.Time
	addressed   time.Time
	ends, ended time.Time // zero: no end in sight
	reason      string    // of the end: EC2's code
	stopped     bool
}

func (m *machine) state(now time.Time) state {
	switch {
	case !m.ends.IsZero() && !now.Before(m.ended):
		return terminated
	case !m.ends.IsZero() && !now.Before(m.ends):
		return shuttingDown
	case m.stopped:
		return stopped
	case m.boot == NeverRuns || now.Before(m.runs):
		return pending
	}
	return running
}

// address is what is known of it now.
func (m *machine) address(now time.Time) string {
	if now.Before(m.addressed) || m.state(now) == terminated {
		return ""
	}
	return m.addr.String()
}

// launch makes n instances. Called with the lock held, after all checks.
func (c *Cloud) launch(n int, pool Pool, subnet *Subnet, spec *Spec, tags map[string]string) ([]*machine, *failure) {
	now := c.now()
	c.settle(now)
	all := make([]*machine, 0, n)
	reservation := c.id("r")
	for range n {
		addr, ok := c.freeAddress(subnet)
		if !ok {
			break
		}
		c.taken[addr] = true
		m := &machine{
			id: c.id("i"), serial: c.serial, reservation: reservation, pool: pool, subnet: subnet, addr: addr,
			spec: spec, tags: tags, launched: now,
			runs: now.Add(c.o.Boot), shown: now.Add(c.o.Lag), addressed: now.Add(c.o.AddrDelay),
		}
		if len(c.boots) > 0 {
			m.boot, c.boots = c.boots[0], c.boots[1:]
		}
		c.machines = append(c.machines, m)
		c.byID[m.id] = m
		switch m.boot {
		case DiesAtBirth:
			c.finish(m, now, 0, "Server.InternalError")
		case NoKey:
			c.finish(m, m.runs, 0, "Client.InternalError")
		}
		all = append(all, m)
	}
	if c.capacity[pool] > 0 {
		c.capacity[pool] -= len(all)
	}
	if len(all) < n {
		return all, fail("InsufficientFreeAddressesInSubnet", "There are not enough free addresses in subnet '%s' to satisfy the requested number of instances.", subnet.ID)
	}
	return all, nil
}

// id makes an id that EC2 could have made.
func (c *Cloud) id(kind string) string {
	c.serial++
	return fmt.Sprintf("%s-0%016x", kind, c.serial)
}

// freeAddress finds one that is not taken; the first four and the last are EC2's.
func (c *Cloud) freeAddress(s *Subnet) (netip.Addr, bool) {
	first := s.CIDR.Masked().Addr()
	reserved := first
	for range 3 {
		reserved = reserved.Next()
	}
	for range 1 << (32 - s.CIDR.Bits()) {
		s.next = s.next.Next()
		if !s.CIDR.Contains(s.next) || !s.CIDR.Contains(s.next.Next()) {
			s.next = reserved.Next()
		}
		if s.next.Compare(reserved) > 0 && !c.taken[s.next] {
			return s.next, true
		}
	}
	return netip.Addr{}, false
}

// finish brings a machine's end forward to t; it never puts it off.
func (c *Cloud) finish(m *machine, t time.Time, shutdown time.Duration, reason string) {
	if m.ends.IsZero() {
		c.ending = append(c.ending, m)
		m.reason = reason
	}
	if m.ends.IsZero() || t.Before(m.ends) {
		m.ends, m.ended = t, t.Add(shutdown)
	}
	if end := t.Add(shutdown); end.Before(m.ended) {
		m.ended = end
	}
}

// settle frees what ended machines held, and forgets the old ones.
func (c *Cloud) settle(now time.Time) {
	forgotten := false
	c.ending = slices.DeleteFunc(c.ending, func(m *machine) bool {
		if now.Before(m.ended) {
			return false
		}
		delete(c.taken, m.addr)
		if now.Before(m.ended.Add(c.o.Keep)) {
			return false
		}
		delete(c.byID, m.id)
		forgotten = true
		return true
	})
	if forgotten {
		c.machines = slices.DeleteFunc(c.machines, func(m *machine) bool { return c.byID[m.id] == nil })
	}
}

// Instances returns all, also those that Describe does not show yet, in the
// order of their launch.
func (c *Cloud) Instances() []Instance {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.now()
	c.settle(now)
	all := make([]Instance, len(c.machines))
	for i, m := range c.machines {
		all[i] = Instance{
			ID: m.id, Type: m.pool.Type, Zone: m.pool.Zone, Subnet: m.subnet.ID, Spot: m.pool.Spot,
			State: stateNames[m.state(now)], Addr: m.addr.String(), Tags: maps.Clone(m.tags), Boot: m.boot,
			Launched: m.launched, Spec: m.spec,
		}
		if m.state(now) == terminated {
			all[i].Ended = m.ended
		}
	}
	return all
}

// Live counts the instances that cost money: all that are not terminated.
func (c *Cloud) Live() int {
	n := 0
	for _, i := range c.Instances() {
		if i.State != "terminated" {
			n++
		}
	}
	return n
}

// Kill terminates an instance at once, as a hardware fault does; unknown ids
// are no matter.
func (c *Cloud) Kill(id string) { c.change(id, 0, "Server.InternalError") }

// Interrupt takes a spot instance back, after the time of its notice.
func (c *Cloud) Interrupt(id string, notice time.Duration) {
	c.change(id, notice, "Server.SpotInstanceTermination")
}

func (c *Cloud) change(id string, after time.Duration, reason string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if m := c.byID[id]; m != nil {
		c.finish(m, c.now().Add(after), 0, reason)
	}
}

// Stop stops an instance, as someone at the console might.
func (c *Cloud) Stop(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if m := c.byID[id]; m != nil {
		m.stopped = true
	}
}
