package slurmtest

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// node is one node. Its cycle:
//
//	POWERED_DOWN ──allocated or POWER_UP, next round──► POWERING_UP ──registered──► up
//	     ▲                                                  │ ResumeTimeout
//	     │ SuspendTimeout                                   ▼
//	POWERING_DOWN ◄──POWER_DOWN without a job, or idle── up, or DOWN+POWERED_DOWN
type node struct {
	name, partition string
	cloud           bool
	addr, host      string
	cpus            int
	active          []string // features, by which jobs are given the node
	reason          string   // with its stamp
	boot, busy      time.Time
	history         []Change

	jobs  []*job // hold the node, also while completing
	down  bool
	drain bool

	poweredDown, poweringUp, poweringDown bool
	powerUp, powerDown                    bool      // asked for, not begun
	since                                 time.Time // powering up or down

	notResponding bool
	alive         bool // a slurmd answers
	lost          int  // counts Lost: guards its timers
}

// state is the node's state as scontrol prints it, flags in Slurm's order.
func (n *node) state() string {
	base := "IDLE"
	switch {
	case n.down:
		base = "DOWN"
	case n.used() > 0 && n.used() < n.cpus:
		base = "MIXED"
	case n.used() > 0:
		base = "ALLOCATED"
	}
	var b strings.Builder
	b.WriteString(base)
	for _, f := range [...]struct {
		set  bool
		name string
	}{
		{n.cloud, "+CLOUD"},
		{n.completing(), "+COMPLETING"},
		{n.drain, "+DRAIN"},
		{n.powerDown, "+POWER_DOWN"},
		{n.powerUp, "+POWER_UP"},
		{n.poweringDown, "+POWERING_DOWN"},
		{n.poweredDown, "+POWERED_DOWN"},
		{n.notResponding, "+NOT_RESPONDING"},
		{n.poweringUp, "+POWERING_UP"},
	} {
		if f.set {
			b.WriteString(f.name)
		}
	}
	return b.String()
}

// usable says whether the node can run a job now.
func (n *node) usable() bool {
	return !n.down && !n.poweredDown && !n.poweringUp && !n.poweringDown && !n.notResponding
}

// used is how many CPUs those jobs have that are not completing.
func (n *node) used() (cpus int) {
	for _, j := range n.jobs {
		if j.state != completing {
			cpus += j.onNode(n)
		}
	}
	return cpus
}

// left is how many CPUs nobody has.
func (n *node) left() int {
	cpus := n.cpus
	for _, j := range n.jobs {
		cpus -= j.onNode(n)
	}
	return cpus
}

func (n *node) completing() bool {
	return slices.ContainsFunc(n.jobs, func(j *job) bool { return j.state == completing })
}

// onNode is how many of the node's CPUs the job has there.
func (j *job) onNode(n *node) int { return cmp.Or(j.CPUs, n.cpus) }

// allocatable says whether a job may be given some of the node, perhaps to be powered up for it.
func (n *node) allocatable() bool {
	return n.left() > 0 && !n.down && !n.drain && !n.powerDown && !n.poweringDown &&
		(!n.notResponding || n.poweredDown || n.poweringUp)
}

func (n *node) resetAddr() { n.addr, n.host = n.name, n.name }

func (n *node) setReason(text, user string) {
	n.reason = text + " [" + user + "@" + stamp(time.Now()) + "]"
}

// Register is a slurmd's registration on a host that booted just now (or
// slurmd -b). It tells whether the node is usable after it. A slurmd whose
// registration comes while the controller is down is heard after Up.
func (c *Controller) Register(node string) bool { return c.RegisterBooted(node, time.Now()) }

// RegisterBooted is Register by a slurmd on a host that booted at boot: before
// the power-up request, and it is ignored.
func (c *Controller) RegisterBooted(node string, boot time.Time) (usable bool) {
	c.locked(func() {
		n := c.byName[node]
		if n == nil {
			return
		}
		n.alive, n.boot = true, boot
		n.lost++
		if !c.down {
			c.register(n)
			usable = n.usable()
		}
	})
	return usable
}

func (c *Controller) register(n *node) {
	switch {
	case n.poweringDown:
		return
	case n.poweringUp:
		if n.boot.Before(n.since) {
			return
		}
	case n.poweredDown && c.opt.ReturnToService < 2:
		return
	}
	if n.down && !n.poweringUp {
		if c.opt.ReturnToService == 0 || c.opt.ReturnToService == 1 && !n.notResponding {
			return
		}
	}
	c.touch(n)
	if n.down {
		n.down, n.reason = false, ""
	}
	n.poweredDown, n.poweringUp, n.powerUp, n.notResponding = false, false, false, false
	n.busy = time.Now()
	c.kick()
	for _, j := range slices.Clone(n.jobs) {
		if j.state == completing {
			c.completeLater(n, j)
		} else {
			c.ready(j)
		}
	}
}

// Lost says that a node's slurmd no longer answers: the node is
// NOT_RESPONDING after SlurmdTimeout, and DOWN after twice as long (the real
// one took 1.7 to 3 times).
func (c *Controller) Lost(node string) {
	c.locked(func() {
		n := c.byName[node]
		if n == nil {
			return
		}
		n.alive = false
		n.lost++
		loss := n.lost
		still := func() bool {
			return n.lost == loss && !n.down && !n.poweredDown && !n.poweringUp && !n.poweringDown
		}
		c.after(c.opt.SlurmdTimeout, func() {
			if still() {
				n.notResponding = true
				c.touch(n)
			}
		})
		c.after(2*c.opt.SlurmdTimeout, func() {
			if still() {
				reason := n.reason // an admin's stays
				c.setDown(n, "Not responding", "slurm")
				if reason != "" {
					n.reason = reason
				}
			}
		})
	})
}

// Strand takes a node off the job that runs there, unseen by the job, as a late
// answer to the end of its last attempt does with a real one.
func (c *Controller) Strand(node string) {
	c.locked(func() {
		if n := c.byName[node]; n != nil {
			n.jobs = nil
			c.touch(n)
		}
	})
}

// Forget removes a node, as when it leaves slurm.conf; nothing may run there.
func (c *Controller) Forget(name string) {
	c.locked(func() {
		if n := c.byName[name]; n != nil && len(n.jobs) == 0 {
			delete(c.byName, name)
			c.nodes = slices.DeleteFunc(c.nodes, func(other *node) bool { return other == n })
		}
	})
}

// setDown makes a node DOWN and takes it from its job.
func (c *Controller) setDown(n *node, reason, user string) {
	c.touch(n)
	n.down = true
	n.setReason(reason, user)
	c.takeFromJobs(n)
}
