package health

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// Limits say when a node is sick; one of 0 does not judge.
type Limits struct {
	SlurmdRestarts int           // so many restarts of slurmd within SlurmdWindow; also: it does not run
	SlurmdWindow   time.Duration //
	SpoolFull      int           // per cent of the file system of slurmd's spool
	AgentSilent    time.Duration // since the last beat
}

// Interval is how often agents are to beat: so often that one may hang until it
// is given up, and the next be late, before the limit; every 20 s if that is enough.
func (l Limits) Interval() time.Duration {
	if l.AgentSilent == 0 {
		return 20 * time.Second
	}
	return max(time.Second, min(20*time.Second, l.AgentSilent/4))
}

// overdue is how long after a beat the next one is missing, jitter and a slow
// network allowed for.
func (l Limits) overdue() time.Duration { return l.Interval() * 5 / 4 }

// stoppedFor is how long slurmd may be down: it is started again after five
// seconds, and an admin's upgrade takes no longer.
const stoppedFor = time.Minute

// Node is a node that the journal has up.
type Node struct {
	Name, Pool, Provider string
	Instance             string
	Since                time.Time // it has been registered
}

// Beat is what an agent said last.
type Beat struct {
	Instance string
	At       time.Time   // when we heard it
	Started  []time.Time // starts of slurmd, by the node's clock
	Stopped  bool        // slurmd does not run
	Spool    float64     // per cent; -1: not known
}

// heard is what is remembered of an instance's agent.
type heard struct {
	Beat
	stopped time.Time // slurmd has not run in any beat since; zero: it ran in the last
	full    int       // beats in a row in which the spool was over the limit
}

// next is what is remembered after one more beat.
func (h heard) next(b Beat, l Limits) heard {
	n := heard{Beat: b}
	if b.Stopped {
		n.stopped = h.stopped
		if n.stopped.IsZero() {
			n.stopped = b.At
		}
	}
	if l.SpoolFull > 0 && b.Spool >= float64(l.SpoolFull) {
		n.full = h.full + 1
	}
	return n
}

// view is all that a judgement is made of.
type view struct {
	now   time.Time
	nodes []Node
	heard map[string]heard // by instance
	// clear is since when most agents of a provider have been heard without a
	// break, and we have listened; a provider that is not in it is not clear.
	clear map[string]time.Time
}

// verdict is a sick node. Why is the same for all nodes with the same trouble, so
// that one command serves them.
type verdict struct {
	Node
	why string
}

// judge finds the sick nodes, in the order of their names.
func (l Limits) judge(v view) []verdict {
	var sick []verdict
	for _, n := range v.nodes {
		h, spoke := v.heard[n.Instance]
		if !spoke {
			continue // no agent, or none since we listen: it says nothing of the node
		}
		why := ""
		switch {
		case l.SlurmdRestarts > 0 && !h.stopped.IsZero() && h.At.Sub(h.stopped) >= stoppedFor && h.At.Sub(n.Since) >= stoppedFor:
			why = "slurmd does not run"
		case l.SlurmdRestarts > 0 && restarts(h.Started, n.Since, v.now.Add(-l.SlurmdWindow)) >= l.SlurmdRestarts:
			why = fmt.Sprintf("slurmd has restarted %d times within %s", l.SlurmdRestarts, l.SlurmdWindow)
		case h.full >= 2: // a job's file may come and go
			why = fmt.Sprintf("the disk of slurmd's spool is over %d %% full", l.SpoolFull)
		case l.silent(v, n, h):
			why = fmt.Sprintf("its burst-agent is silent for %s, and others are not", l.AgentSilent)
		}
		if why != "" {
			sick = append(sick, verdict{n, why})
		}
	}
	slices.SortFunc(sick, func(a, b verdict) int { return cmp.Compare(a.Name, b.Name) })
	return sick
}

// restarts counts the starts of slurmd since a time that came after the node
// had registered. Those before are the boot's: a slurmd that cannot reach
// slurmctld is started again and again. A first start that seems to have come shortly
// after, and has none before it, is the boot's too: the node's clock is ahead.
func restarts(starts []time.Time, registered, since time.Time) int {
	starts = slices.SortedFunc(slices.Values(starts), time.Time.Compare)
	starts = slices.CompactFunc(starts, time.Time.Equal)
	if len(starts) > 0 && starts[0].After(registered) && starts[0].Before(registered.Add(time.Minute)) {
		starts = starts[1:]
	}
	n := 0
	for _, t := range starts {
		if t.After(registered) && t.After(since) {
			n++
		}
	}
	return n
}

// silent says that it is the node that is silent, and not the network or us.
// All nodes of a provider are reached by the same VPN or link, so that only
// its others tell what that carries: most of them must have beaten in the
// time in which this one should have, and before that for a whole limit
// without a break. A node without others is never silent: nobody can tell.
func (l Limits) silent(v view, n Node, h heard) bool {
	clear, ok := v.clear[n.Provider]
	if l.AgentSilent == 0 || !ok {
		return false
	}
	from := h.At
	if from.Before(clear) {
		from = clear
	}
	if v.now.Sub(from) < l.AgentSilent {
		return false
	}
	others, since := 0, 0
	for _, o := range v.nodes {
		if oh, spoke := v.heard[o.Instance]; spoke && o.Provider == n.Provider && o.Instance != n.Instance {
			others++
			if oh.At.After(h.At.Add(l.overdue())) {
				since++
			}
		}
	}
	return 2*since > others
}

// clearSince is when each provider became clear, after what it was before.
// A provider is clear while most of its agents that ever spoke are heard; of two, one.
func (l Limits) clearSince(v view, before map[string]time.Time) map[string]time.Time {
	all, now := map[string]int{}, map[string]int{}
	for _, n := range v.nodes {
		if h, spoke := v.heard[n.Instance]; spoke {
			all[n.Provider]++
			if v.now.Sub(h.At) <= l.overdue() {
				now[n.Provider]++
			}
		}
	}
	clear := map[string]time.Time{}
	for provider, n := range all {
		if most := 2*now[provider] > n || n == 2 && now[provider] == 1; !most {
			continue
		}
		clear[provider] = v.now
		if t, ok := before[provider]; ok {
			clear[provider] = t
		}
	}
	return clear
}
