package slurmtest

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/burst-hpc/burst/slurm/hostlist"
)

// Reservation is one of flags maint and ignore_jobs, for a day, or of ignore_jobs and overlap.
type Reservation struct {
	Nodes      []string
	Start, End time.Time
}

const reservationName = "reservationname="

// Reservations returns the present ones, by name.
func (c *Controller) Reservations() map[string]Reservation {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.reserved)
}

func (c *Controller) reserve(args []string) answer {
	set := map[string]string{}
	for _, a := range args {
		key, v, _ := strings.Cut(a, "=")
		set[key] = v
	}
	start, err := startTime(set["starttime"])
	end, known := start.Add(24*time.Hour), set["flags"] == "maint,ignore_jobs" && set["duration"] == "1-00:00:00"
	if at, ok := set["endtime"]; ok && err == nil && set["flags"] == "ignore_jobs,overlap" {
		end, err = startTime(at)
		known = true
	}
	nodes, nerr := hostlist.Expand(set["nodes"])
	name := set["reservationname"]
	switch {
	case c.down:
		return failure(1, "Error creating the reservation: "+noController)
	case err != nil || !known || set["user"] == "" || name == "":
		return answer{unknown: true}
	case nerr != nil || slices.ContainsFunc(nodes, func(n string) bool { return c.byName[n] == nil }):
		return failure(1, "Error creating the reservation: Invalid node name specified")
	}
	if _, there := c.reserved[name]; there {
		return failure(1, "Error creating the reservation: Duplicate reservation name")
	}
	c.reserved[name] = Reservation{nodes, start, end}
	return answer{stdout: "Reservation created: " + name + "\n"}
}

func (c *Controller) unreserve(arg string) answer {
	name := strings.TrimPrefix(arg, reservationName)
	if c.down {
		return failure(1, "delete_reservation %s: %s", arg, noController)
	}
	if _, there := c.reserved[name]; !there {
		return failure(1, "delete_reservation %s: Requested reservation is invalid", arg)
	}
	delete(c.reserved, name)
	c.kick()
	return answer{}
}

// outside leaves those nodes on which the job would have ended before a
// reservation begins. A job's Duration stands for its time limit.
func (c *Controller) outside(nodes []*node, j *job) []*node {
	if len(c.reserved) == 0 {
		return nodes
	}
	closed := map[string]bool{}
	for _, r := range c.reserved {
		if time.Now().After(r.End) {
			continue
		}
		if j.Duration == 0 || time.Now().Add(j.Duration).After(r.Start) {
			for _, n := range r.Nodes {
				closed[n] = true
			}
		}
	}
	return slices.DeleteFunc(slices.Clone(nodes), func(n *node) bool { return closed[n.name] })
}
