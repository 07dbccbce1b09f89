package slurmtest

import (
	"slices"
	"strings"
	"time"
)

const (
	// schedDelay is from an event that may let a job start to the pass that starts it.
	schedDelay = 500 * time.Millisecond
	// schedPeriod is between two passes without an event. That a node is powered
	// down again is no event.
	schedPeriod = 30 * time.Second
	// jobTick is when slurmctld starts jobs that no PrologSlurmctld starts.
	jobTick = 30 * time.Second
)

// kick queues a scheduling pass.
func (c *Controller) kick() {
	if c.passDue {
		return
	}
	c.passDue = true
	c.after(schedDelay, func() {
		c.passDue = false
		c.schedule()
	})
}

func (c *Controller) schedRound() {
	c.after(schedPeriod, c.schedRound)
	c.schedule()
}

// startRound is the tick of Ungated.
func (c *Controller) startRound() {
	c.after(jobTick, c.startRound)
	for _, j := range c.sorted() {
		c.begin(j)
	}
}

// hold keeps a pending job from starting before t.
func (c *Controller) hold(j *job, t time.Time) {
	j.begin = t
	c.after(time.Until(t), c.kick)
}

// schedule gives nodes to the jobs that may start.
func (c *Controller) schedule() {
	free := map[string][]*node{} // by partition, those that are up first
	now := time.Now()
	for _, j := range c.sorted() {
		switch {
		case j.state != pending:
			continue
		case j.held:
			j.reason = "JobHeldUser"
			continue
		case j.begin.After(now):
			j.reason = beginTime
			continue
		}
		if j.givenUp || c.tooFew(j.Job) {
			j.givenUp, j.reason = true, "BadConstraints"
			continue
		}
		j.reason = "Resources"
		for _, part := range j.partitions() {
			nodes, known := free[part]
			if !known {
				nodes = c.free(part)
				free[part] = nodes
			}
			if fit := j.roomy(c.suiting(c.outside(nodes, j), j.Job)); len(fit) >= j.Nodes {
				j.in = part
				c.allocate(j, fit)
				free[part] = slices.DeleteFunc(nodes, func(n *node) bool { return n.left() == 0 })
				break
			}
		}
	}
}

// partitions are those that the job may start in, as it names them.
func (j Job) partitions() []string { return strings.Split(j.Partition, ",") }

// partition is what Slurm shows: while the job waits all that it named, else the one that its nodes are in.
func (j *job) partition() string {
	if j.state == pending || j.in == "" {
		return j.Partition
	}
	return j.in
}

// roomy are the first nodes that have room for the job, no more than it needs.
func (j *job) roomy(nodes []*node) (fit []*node) {
	for _, n := range nodes {
		if len(fit) == j.Nodes {
			break
		}
		if n.left() >= j.onNode(n) {
			fit = append(fit, n)
		}
	}
	return fit
}

func (c *Controller) free(partition string) []*node {
	var up, off []*node
	for _, n := range c.nodes {
		switch {
		case n.partition != partition || !n.allocatable():
		case n.usable():
			up = append(up, n)
		default:
			off = append(off, n)
		}
	}
	return append(up, off...)
}

func (c *Controller) allocate(j *job, nodes []*node) {
	j.state, j.reason, j.nodes, j.start = configuring, "None", nodes, time.Now()
	j.nodeList, j.batch, j.count = fold(nodes), nodes[0].name, len(nodes)
	j.run++
	for _, n := range nodes {
		n.jobs, n.reason = append(n.jobs, j), ""
		c.touch(n)
	}
	c.ready(j)
}
