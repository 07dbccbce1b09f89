package slurmtest

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/burst-hpc/burst/slurm/hostlist"
)

// over says whether limit has passed since t the way slurmctld counts: in
// whole seconds, and more of them than the limit.
func over(t time.Time, limit time.Duration) bool {
	return time.Now().Unix() > t.Add(limit).Unix()
}

// powerRound is slurmctld's power saving round: timeouts, then one call of
// each program for all nodes that need it.
func (c *Controller) powerRound() {
	c.after(c.opt.Interval, c.powerRound)
	var resume, suspend, failed []*node
	for _, n := range c.nodes {
		switch {
		case n.poweringDown:
			if over(n.since, c.opt.SuspendTimeout) {
				c.touch(n)
				n.poweringDown, n.poweredDown, n.alive = false, true, false
				n.busy = time.Time{}
				if c.opt.ResetAddr {
					n.resetAddr()
				}
			}
		case n.poweringUp:
			if over(n.since, c.opt.ResumeTimeout) {
				n.poweringUp, n.poweredDown, n.notResponding, n.powerDown = false, true, true, false
				n.busy = time.Time{}
				c.setDown(n, "ResumeTimeout reached", "root")
				failed = append(failed, n)
			}
		case n.powerDown && len(n.jobs) == 0, c.idle(n):
			c.touch(n)
			n.poweringDown, n.since = true, time.Now()
			n.powerDown, n.poweredDown, n.notResponding = false, false, false
			n.down, n.drain = false, false // idle_on_node_suspend
			suspend = append(suspend, n)
		case n.poweredDown && (n.powerUp || len(n.jobs) > 0):
			c.touch(n)
			n.poweringUp, n.since, n.notResponding = true, time.Now(), true
			n.powerUp, n.poweredDown, n.reason = false, false, ""
			resume = append(resume, n)
		case n.notResponding && n.alive && !n.down:
			c.touch(n) // a ping
			n.notResponding = false
			c.kick()
		case n.down && n.alive && !n.poweredDown && c.opt.ReturnToService == 2:
			c.register(n)
		}
	}
	c.callPrograms(resume, suspend, failed)
}

// idle says whether the node has been idle, or down, for SuspendTime.
func (c *Controller) idle(n *node) bool {
	return n.cloud && n.partition != servers && len(n.jobs) == 0 && !n.drain && !n.poweredDown && !n.busy.IsZero() && over(n.busy, c.opt.SuspendTime)
}

// callPrograms calls Slurm's programs, a moment after the nodes are as they are told of: in a bubble's time who
// has read them before, at the same instant, would take that for a reading made after the call.
func (c *Controller) callPrograms(resume, suspend, failed []*node) {
	call := func(program func()) { c.after(time.Microsecond, func() { go program() }) }
	if len(resume) > 0 && c.opt.OnResume != nil && !c.loseResume {
		nodes, file := fold(resume), c.resumeFile(resume)
		call(func() { c.opt.OnResume(nodes, file) })
	}
	if len(resume) > 0 {
		c.loseResume = false
	}
	if len(suspend) > 0 && c.opt.OnSuspend != nil {
		nodes := fold(suspend)
		call(func() { c.opt.OnSuspend(nodes) })
	}
	if len(failed) > 0 && c.opt.OnResumeFail != nil {
		nodes := fold(failed)
		call(func() { c.opt.OnResumeFail(nodes) })
	}
}

func names(nodes []*node) []string {
	list := make([]string, len(nodes))
	for i, n := range nodes {
		list[i] = n.name
	}
	return list
}

func fold(nodes []*node) string { return hostlist.Fold(names(nodes)) }

type oldResumeJob struct {
	ID    uint32 `json:"job_id"`
	Nodes string `json:"nodes"`
}

type newResumeJob struct {
	Extra         *string `json:"extra"`
	Features      *string `json:"features"`
	ID            uint32  `json:"job_id"`
	NodesAlloc    string  `json:"nodes_alloc"`
	NodesResume   string  `json:"nodes_resume"`
	Oversubscribe string  `json:"oversubscribe"`
	Partition     string  `json:"partition"`
	Reservation   *string `json:"reservation"`
}

// resumeFile is what slurmctld would put behind SLURM_RESUME_FILE.
func (c *Controller) resumeFile(resume []*node) string {
	byJob := map[*job][]*node{}
	var order []*job
	for _, n := range resume {
		for _, j := range n.jobs {
			if byJob[j] == nil {
				order = append(order, j)
			}
			byJob[j] = append(byJob[j], n)
		}
	}
	slices.SortFunc(order, byID)
	old, recent := []oldResumeJob{}, []newResumeJob{}
	for _, j := range order {
		part := fold(byJob[j])
		old = append(old, oldResumeJob{j.id, part})
		recent = append(recent, newResumeJob{ID: j.id, NodesAlloc: fold(j.nodes), NodesResume: part, Oversubscribe: "NO", Partition: j.partition()})
	}
	var file any = struct {
		Jobs []oldResumeJob `json:"jobs"`
		All  string         `json:"all_nodes"`
	}{old, fold(resume)}
	if c.opt.NewResumeFile {
		file = struct {
			All  string         `json:"all_nodes_resume"`
			Jobs []newResumeJob `json:"jobs"`
		}{fold(resume), recent}
	}
	text, err := json.Marshal(file)
	if err != nil {
		panic(err) // strings and numbers only
	}
	return string(text)
}
