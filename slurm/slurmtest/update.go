package slurmtest

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/burst-hpc/burst/slurm/hostlist"
)

const (
	badNode  = "slurm_update error: Invalid node name specified"
	badState = "slurm_update error: Invalid node state specified"
)

// update is scontrol update.
func (c *Controller) update(args []string) answer {
	set := map[string]string{}
	for _, a := range args {
		key, v, ok := strings.Cut(a, "=")
		if !ok {
			return failure(1, "Invalid input: %s\nRequest aborted", a)
		}
		set[strings.ToLower(key)] = v
	}
	if len(set) == 1 {
		return failure(1, "No changes specified")
	}
	if list, ok := set["nodename"]; ok {
		delete(set, "nodename")
		return c.updateNodes(list, set)
	}
	if id, ok := set["jobid"]; ok {
		delete(set, "jobid")
		return c.updateJob(id, set)
	}
	return answer{unknown: true}
}

// updateNodes changes nodes one by one: those that Slurm does not know, or
// refuses, do not keep it from the others.
func (c *Controller) updateNodes(list string, set map[string]string) answer {
	for key := range set {
		switch key {
		case "nodeaddr", "nodehostname", "state", "reason", "activefeatures":
		default:
			return answer{unknown: true}
		}
	}
	state := strings.ToLower(set["state"])
	if state != "" && changes[state] == nil {
		return failure(1, "Invalid input: state=%s\nRequest aborted", set["state"])
	}
	if (state == "down" || state == "drain") && set["reason"] == "" {
		return failure(1, "You must specify a reason when DOWNING or DRAINING a node. Request denied")
	}
	if c.down {
		return failure(1, "slurm_update error: "+noController)
	}
	nodes, err := hostlist.Expand(list)
	if err != nil {
		return failure(1, badNode)
	}
	addrs, okAddrs := expandFor(set["nodeaddr"], len(nodes))
	hosts, okHosts := expandFor(set["nodehostname"], len(nodes))
	if !okAddrs || !okHosts {
		return failure(1, badNode)
	}
	active := split(set["activefeatures"])
	if slices.ContainsFunc(active, func(f string) bool { return !slices.Contains(c.opt.Features, f) }) {
		return failure(1, "slurm_update error: Invalid feature specification")
	}
	var out answer
	for i, name := range nodes {
		n := c.byName[name]
		if n == nil {
			out = failure(1, badNode)
			continue
		}
		if addrs != nil {
			n.addr = addrs[i]
		}
		if hosts != nil {
			n.host = hosts[i]
		}
		if len(active) > 0 {
			n.active = active
			c.kick()
		}
		if set["reason"] != "" {
			n.setReason(set["reason"], "root")
		}
		if state != "" && !changes[state](c, n) {
			out = failure(1, badState)
		}
		c.touch(n)
	}
	return out
}

// expandFor expands an address or host name list, which must have n members.
func expandFor(list string, n int) ([]string, bool) {
	if list == "" {
		return nil, true
	}
	all, err := hostlist.Expand(list)
	return all, err == nil && len(all) == n
}

// changes are the states that an update can ask for; false is a refusal.
var changes = map[string]func(c *Controller, n *node) bool{
	"power_up": func(c *Controller, n *node) bool {
		n.powerUp = n.poweredDown
		return true
	},
	"power_down": func(c *Controller, n *node) bool {
		if !n.poweringDown {
			n.powerDown, n.poweredDown, n.powerUp = true, false, false
		}
		return true
	},
	// As power_down, and no new job until then.
	"power_down_asap": func(c *Controller, n *node) bool {
		if !n.poweringDown {
			n.powerDown, n.poweredDown, n.powerUp, n.drain = true, false, false, true
			if n.reason == "" {
				n.setReason("POWER_DOWN_ASAP", "nobody")
			}
		}
		return true
	},
	// As power_down, which waits for a job's end and for a boot, but now: its job is requeued, its
	// boot forgotten. If its slurmd is dead, the job stays COMPLETING until the node is DOWN.
	"power_down_force": func(c *Controller, n *node) bool {
		if !n.poweringDown {
			for _, j := range slices.Clone(n.jobs) {
				c.loseNode(j)
			}
			n.powerDown, n.poweredDown, n.powerUp, n.poweringUp = true, false, false, false
		}
		return true
	},
	"down": func(c *Controller, n *node) bool {
		n.down = true
		c.takeFromJobs(n)
		return true
	},
	"drain": func(c *Controller, n *node) bool {
		n.drain = true
		return true
	},
	"undrain": func(c *Controller, n *node) bool {
		n.drain, n.reason = false, ""
		return true
	},
	"resume": func(c *Controller, n *node) bool {
		if !n.down && !n.drain && !n.poweringDown {
			return false
		}
		if n.poweringDown {
			n.poweringDown, n.poweredDown = false, true // at once
		} else {
			n.notResponding = true // until a ping
		}
		n.down, n.drain, n.reason = false, false, ""
		c.kick()
		return true
	},
	"idle": func(c *Controller, n *node) bool {
		if len(n.jobs) > 0 {
			return false
		}
		if n.down {
			n.down, n.drain, n.reason = false, false, ""
		}
		c.kick()
		return true
	},
}

// job finds a job by its id as text.
func (c *Controller) job(text string) *job {
	id, err := strconv.ParseUint(text, 10, 32)
	if err != nil {
		return nil
	}
	return c.jobs[uint32(id)]
}

// updateJob changes a job.
func (c *Controller) updateJob(id string, set map[string]string) answer {
	begin, err := startTime(set["starttime"])
	if err != nil {
		return failure(1, "Invalid time specification (pos=0): %s", set["starttime"])
	}
	if c.down {
		return failure(1, "Unexpected message received for job %s", id)
	}
	j := c.job(id)
	_, start := set["starttime"]
	switch {
	case j == nil:
		return failure(1, "Invalid job id specified for job %s", id)
	case j.over():
		return failure(1, "Job has already finished for job %s", id)
	case start && j.active():
		return failure(1, "Job is no longer pending execution for job %s", id)
	}
	for key, v := range set {
		switch key {
		case "admincomment":
			j.admin = v
		case "comment":
			j.Comment = v
		case "partition":
			if j.active() {
				return failure(1, "Job is no longer pending execution for job %s", id)
			}
			j.Partition = v
		case "requeue":
			j.Requeue = v == "1"
		case "starttime":
			if j.state == pending { // while COMPLETING it is accepted and forgotten
				j.reason = "None"
				c.hold(j, begin)
			}
		default:
			return answer{unknown: true}
		}
	}
	return answer{}
}

// startTime reads now, seconds since 1970 ("uts…") or Slurm's local time.
func startTime(v string) (time.Time, error) {
	if v == "" || v == "now" {
		return time.Now(), nil
	}
	if sec, ok := strings.CutPrefix(v, "uts"); ok {
		n, err := strconv.ParseInt(sec, 10, 64)
		return time.Unix(n, 0), err
	}
	return time.ParseInLocation("2006-01-02T15:04:05", v, time.Local)
}
