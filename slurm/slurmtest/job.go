package slurmtest

import (
	"maps"
	"slices"
	"time"
)

// job is one job. Its cycle:
//
//	PENDING ──nodes free──► CONFIGURING ──all nodes ready──► RUNNING ──► COMPLETING ──► ended
//	   ▲                          │                              │            │
//	   └── held for Hold ◄────────┴───── requeue or a lost node ─┴────────────┘
type job struct {
	Job
	id       uint32
	state    string
	reason   string
	restarts int
	nodes    []*node
	count    int // nodes held at the end, for squeue

	held    bool // until it is released
	givenUp bool // for want of nodes with its features, until it is released

	submitted, begin, start, end time.Time

	run      int           // counts allocations: guards the timers of each
	gated    int           // the run for which Gate has been called
	saved    time.Duration // work that a next run need not repeat
	before   time.Duration // saved when this run started
	next     string        // the state after COMPLETING
	code     int
	signal   int
	signals  []string
	admin    string
	batch    string // the batch host
	nodeList string // kept after the end
	in       string // the partition of the nodes that it has, or had last
}

const (
	pending     = "PENDING"
	configuring = "CONFIGURING"
	running     = "RUNNING"
	completing  = "COMPLETING"
	cancelled   = "CANCELLED"
)

func byID(a, b *job) int { return int(a.id) - int(b.id) }

func (j *job) active() bool { return j.state == configuring || j.state == running }
func (j *job) over() bool   { return !j.active() && j.state != pending && j.state != completing }

// sorted returns the jobs by id.
func (c *Controller) sorted() []*job { return slices.SortedFunc(maps.Values(c.jobs), byID) }

// Submit queues a job and returns its id; 0 where sbatch says "Requested node configuration is
// not available", since no node has the features that it wants.
func (c *Controller) Submit(j Job) (id uint32) {
	c.locked(func() {
		c.lastJob++
		id = c.lastJob
		now := time.Now()
		if j.Name == "" {
			j.Name = "job"
		}
		if j.User == "" {
			j.User = "root"
		}
		if j.Partition == "" {
			j.Partition = c.opt.Partition
		}
		j.Nodes = max(1, j.Nodes)
		if c.constrained(j) && c.withFeatures(j) == 0 {
			id = 0
			return
		}
		c.jobs[id] = &job{Job: j, id: id, state: pending, reason: "None", submitted: now, begin: now}
		c.kick()
	})
	return id
}

// Cancel ends a job as scancel does.
func (c *Controller) Cancel(id uint32) {
	c.locked(func() {
		if j := c.jobs[id]; j != nil {
			c.cancel(j)
		}
	})
}

func (c *Controller) cancel(j *job) {
	switch {
	case j.active():
		c.finish(j, cancelled, 0, 15)
	case j.state == pending:
		j.start, j.end, j.count = time.Now(), time.Now(), j.Nodes
		c.ended(j, cancelled)
	case j.state == completing && j.next == pending:
		j.next = cancelled
	}
}

// Exit ends a running job's batch script with code. While the controller is
// down it does not hear of it until Up.
func (c *Controller) Exit(id uint32, code int) {
	c.locked(func() {
		if j := c.jobs[id]; j != nil && j.state == running {
			c.leave(j, code)
		}
	})
}

// Leave has the attempt that runs now save its work and end its script with code
// after a time, unless it has ended by then. It waits for that.
func (c *Controller) Leave(id uint32, after time.Duration, code int) {
	var run int
	c.locked(func() {
		if j := c.jobs[id]; j != nil {
			run = j.run
		}
	})
	time.Sleep(after)
	c.locked(func() {
		if j := c.jobs[id]; j != nil && j.run == run && j.state == running {
			j.saved = j.before + time.Since(j.start)
			c.leave(j, code)
		}
	})
}

// leave ends the script of a job that runs, of which the controller hears when it is up.
func (c *Controller) leave(j *job, code int) {
	if !c.down {
		c.exit(j, code)
		return
	}
	run := j.run
	c.after(0, func() {
		if j.run == run && j.state == running {
			c.exit(j, code)
		}
	})
}

func (c *Controller) exit(j *job, code int) {
	if code == 0 {
		c.finish(j, "COMPLETED", 0, 0)
		return
	}
	c.finish(j, "FAILED", code, 0)
	j.reason = "NonZeroExitCode"
}

// Checkpoint saves a running job's work: its next run needs only the rest.
func (c *Controller) Checkpoint(id uint32) {
	c.locked(func() {
		if j := c.jobs[id]; j != nil && j.state == running {
			j.saved = j.before + time.Since(j.start)
		}
	})
}

// Info returns a job's state; ok is false when it is not known (any more).
func (c *Controller) Info(id uint32) (info JobInfo, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	j := c.jobs[id]
	if j == nil {
		return JobInfo{}, false
	}
	return JobInfo{
		ID: j.id, State: j.state, Reason: j.reason, Restarts: j.restarts, Nodes: names(j.nodes),
		AdminComment: j.admin, ExitCode: j.code, Begin: j.begin, Start: j.start, End: j.end,
		Signals: slices.Clone(j.signals),
	}, true
}

// ready starts a configuring job whose nodes are all up, unless Ungated keeps
// it for the next tick.
func (c *Controller) ready(j *job) {
	switch {
	case c.opt.Ungated:
	case c.opt.Gate == nil:
		c.begin(j)
	case j.gated != j.run && !slices.ContainsFunc(j.nodes, func(n *node) bool { return !n.usable() }):
		j.gated = j.run
		go func(run int) {
			c.opt.Gate(j.id)
			c.locked(func() {
				if j.run == run {
					j.gated = 0
					c.begin(j)
				}
			})
		}(j.run)
	}
}

func (c *Controller) begin(j *job) {
	if j.state != configuring || slices.ContainsFunc(j.nodes, func(n *node) bool { return !n.usable() }) {
		return
	}
	j.state, j.start, j.before = running, time.Now(), j.saved
	if j.OnStart != nil {
		go j.OnStart(j.id, j.restarts)
	}
	if j.Duration == 0 {
		return
	}
	run := j.run
	c.after(max(0, j.Duration-j.saved), func() {
		if j.run == run && j.state == running {
			c.exit(j, j.ExitCode)
		}
	})
}

// finish ends a run: COMPLETING, then next, which is pending for a requeue.
// Nodes that do not run have nothing to complete.
func (c *Controller) finish(j *job, next string, code, signal int) {
	now := time.Now()
	j.end, j.next, j.code, j.signal = now, next, code, signal
	j.nodeList, j.count = fold(j.nodes), len(j.nodes)
	if next == pending {
		j.restarts++
		j.start = now
	}
	nodes := j.nodes
	j.nodes, j.reason, j.state = nil, "None", completing
	for _, n := range nodes {
		c.touch(n)
		n.busy = now
		if !slices.Contains(n.jobs, j) { // see Strand
			continue
		}
		if n.down || n.poweredDown || n.poweringUp {
			n.drop(j)
			continue
		}
		j.nodes = append(j.nodes, n)
		c.completeLater(n, j)
	}
	if len(j.nodes) == 0 {
		c.completed(j)
	}
}

const beginTime = "BeginTime"

// completeLater frees a completing node, if its slurmd is alive then. A dead
// one keeps its job COMPLETING until it is DOWN.
func (c *Controller) completeLater(n *node, j *job) {
	run := j.run
	c.after(c.opt.Completing, func() {
		if !slices.Contains(n.jobs, j) || j.run != run || j.state != completing || !n.alive {
			return
		}
		c.detach(n, j)
		if len(j.nodes) == 0 {
			c.completed(j)
			if j.state == pending {
				j.reason = beginTime
			}
		}
	})
}

// detach takes a node from its job.
func (c *Controller) detach(n *node, j *job) {
	c.touch(n)
	n.drop(j)
	n.busy = time.Now()
	j.nodes = slices.DeleteFunc(j.nodes, func(other *node) bool { return other == n })
}

// completed ends COMPLETING: no node is left.
func (c *Controller) completed(j *job) {
	if j.next == pending {
		// The reason stays None until slurmctld next looks at the job.
		j.state, j.reason = pending, "None"
		c.hold(j, time.Now().Add(c.opt.Hold))
		j.submitted, j.start, j.end, j.nodeList, j.batch = time.Now(), time.Time{}, time.Time{}, "", ""
	} else {
		c.ended(j, j.next)
	}
	c.kick()
}

func (c *Controller) ended(j *job, state string) {
	j.state = state
	end := j.end
	c.after(c.opt.MinJobAge, func() {
		if j.over() && j.end.Equal(end) { // not requeued since
			delete(c.jobs, j.id)
		}
	})
}

func (n *node) drop(j *job) {
	n.jobs = slices.DeleteFunc(n.jobs, func(other *job) bool { return other == j })
}

// takeFromJobs frees a node that is DOWN; its jobs have lost it.
func (c *Controller) takeFromJobs(n *node) {
	for _, j := range slices.Clone(n.jobs) {
		c.detach(n, j)
		switch {
		case j.active():
			c.loseNode(j)
		case len(j.nodes) == 0:
			c.completed(j)
		}
	}
}

// loseNode ends a job's run for want of a node: it is requeued, or ends as
// NODE_FAIL if it may not be.
func (c *Controller) loseNode(j *job) {
	switch {
	case !j.active():
	case j.Requeue && !j.Salloc:
		c.finish(j, pending, 0, 0)
	default:
		c.finish(j, "NODE_FAIL", 0, 0)
	}
}
