package power

import (
	"slices"
	"time"
)

// give plans that the nodes are freed, and that their instances end.
func give(c *Change, m *memory, nodes []Node, why string, now time.Time) {
	for _, n := range nodes {
		if i, ok := m.instances[n.Instance]; ok && i.Doomed == "" {
			i.Doomed = why
			c.Instances = append(c.Instances, i)
		}
		n.Phase, n.Since, n.Reason, n.Token, n.Instance, n.AddrSet = Freeing, now, why, "", "", false
		c.Nodes = append(c.Nodes, n)
		c.Events = append(c.Events, Event{Time: now, Kind: "free", Node: n.Name, Pool: n.Pool, Job: n.Job, Text: why})
	}
}

// hold plans that the job is told why it waits, and starts again at start.
func hold(c *Change, m *memory, job uint32, start time.Time, why string) {
	if slices.ContainsFunc(c.Holds, func(h Hold) bool { return h.Job == job }) {
		return // one failure, however many nodes of the job have it
	}
	last := m.holds[job]
	c.Holds = append(c.Holds, Hold{Job: job, Start: start, Why: why, Tries: last.Tries + 1,
		NoRequeue: last.NoRequeue && !last.Released})
}

// retryAt is when a job starts again whose nodes failed for another reason
// than capacity: after 30 s doubled with each failure in a row, at most 10 minutes.
func retryAt(last Hold, now time.Time) time.Time {
	return now.Add(min(maxRetry, 30*time.Second<<min(last.Tries, 5)))
}

// maxRetry is the longest wait of a job or an offering that failed, but for one that waits
// until what came short is not paid for any more, which is maxPaid: no cloud bills longer units.
const (
	maxRetry = 10 * time.Minute
	maxPaid  = time.Hour
)
