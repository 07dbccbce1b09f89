package power

import (
	"cmp"
	"fmt"
	"time"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/slurm"
)

// act plans one action on a node that has a record.
func (e *Engine) act(c *Change, a action, n Node, snap *slurm.Snapshot) {
	now := time.Now()
	i := e.mem.instances[n.Instance]
	ev := Event{Time: now, Kind: "reconcile", Node: n.Name, Instance: i.ID, Pool: n.Pool, Job: n.Job}
	switch a {
	case register:
		e.registered(c, n, now)
		return
	case address:
		n.AddrSet = false
		c.Nodes = append(c.Nodes, n)
		ev.Text = "Slurm has another address for it: ours is sent again"
	case forget:
		c.DropNodes = append(c.DropNodes, n.Name)
		ev.Text = "Slurm does not power it up any more: forgotten"
	case suspend:
		taking{mem: e.mem, pools: e.poolOf, now: now, serve: e.filePools()}.doom(c, n.Name, "Slurm has powered it down")
		c.DropNodes = append(c.DropNodes, n.Name)
		ev.Text = "Slurm has powered it down, the order was lost: suspended"
	case free:
		const why = "it did not come up in time"
		if n.Phase == Booting {
			if hadTime(i, n, e.bootTimeout(n.Pool)) {
				fail(c, e.mem, n.Instance, why)
			}
			e.giveUp(c, n, why, snap)
			return
		}
		e.giveWhole(c, []Node{n}, snap, why, now)
		return
	case dead:
		fallen := e.fallen(snap, i, n.Name)
		if i.State != cloud.Terminated { // it stops, or shuts down: its processes may live for a while
			a := e.attempts[i.ID]
			a.jobs = merged(a.jobs, runningOn(snap, func(node string) bool { return node == n.Name })[n.Name])
			for _, j := range fallen {
				a.jobs[j.ID] = j.Restarts
			}
			e.fence(c, n.Name, i.ID, a)
		}
		c.Instances = append(c.Instances, doomed(i, CloudEnded))
		e.died[n.Name] = i.Addr == "" || i.Addr == snap.Nodes[n.Name].Addr
		n.Phase, n.Since, n.Reason, n.Instance, n.Token = Freeing, now, oneLine(because(fmt.Sprintf("instance %s is gone", i.ID), i.Why)), "", ""
		n.Job = 0 // which is all of its jobs, if there are several
		jobs := append(jobsOn(snap, []Node{n})[n.Name], fallen...)
		for _, j := range jobs {
			hold(c, e.mem, j.ID, now, because(fmt.Sprintf("node %s died", n.Name), i.Why))
		}
		if len(jobs) == 1 {
			n.Job = jobs[0].ID
		}
		c.Nodes = append(c.Nodes, n)
		ev.Kind, ev.Text = "died", because("the cloud says that its instance is gone: DOWN, its jobs are requeued", i.Why)
	case retry:
		e.bootFailed(c, n, because("it ended before it registered", i.Why), snap)
		return
	case reclaim:
		const why = "no instance is behind it"
		for _, j := range jobsOn(snap, []Node{n})[n.Name] {
			hold(c, e.mem, j.ID, now, fmt.Sprintf("node %s: %s", n.Name, why))
		}
		c.Nodes = append(c.Nodes, Node{Name: n.Name, Pool: n.Pool, Phase: Freeing, Since: now, Reason: why})
		ev.Text = "Slurm has it, no instance is behind it: it is given back"
	}
	c.Events = append(c.Events, ev)
}

// maxTries is how many instances may end before they register until a node is given back.
const maxTries = 3

// because adds to a text what the cloud says of an instance's end, if it says anything.
func because(text, why string) string {
	if why == "" {
		return text
	}
	return text + "; the cloud says: " + why
}

func doomed(i Instance, why string) Instance {
	i.Doomed = cmp.Or(i.Doomed, why)
	return i
}
