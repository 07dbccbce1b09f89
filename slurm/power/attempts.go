package power

import (
	"context"
	"maps"
	"time"

	"github.com/burst-hpc/burst/slurm"
	"github.com/burst-hpc/burst/slurm/hostlist"
)

// attempts is what may run on one instance, as far as readings of Slurm tell.
//
//	          the node answers              it does not
//	blank --------------------> known ----------------------> silent
//	  |                           ^   <----------------------   |
//	  |                           |         it answers          | Slurm gives it up
//	  |    Slurm gives it up      |                             v
//	  +---------------------------|-------------------------> fenced
//	                              +------ it answers -----------+
//
// While a node is silent, its jobs are kept: what Slurm then says of them is
// not what runs there. A blank one is an earlier life's: anything may run there.
type attempts struct {
	jobs   map[uint32]int // job -> its restarts
	taken  time.Time      // of the last reading in which Slurm had not given the node up
	back   time.Time      // since when it answers; zero: it does not
	silent bool
	blank  bool
	fenced bool
}

// What a reading of a node asks for.
type verdict int

const (
	keep    verdict = iota // what is known of it is to be kept
	giveUp                 // Slurm has given it up: its jobs are to be fenced, and are kept
	moved                  // the same, and there is nothing more to see of it
	forgets                // nothing of it is left to know
)

// trusted is how old what is known may be when Slurm gives a node up that was
// not seen silent. All that runs there is then known: a node has been silent for
// SlurmdTimeout by then, and begins no job while it is.
const trusted = 30 * time.Second

// answersFor is how long a node that was fenced has to answer until slurmctld
// has ended there what it does not know.
const answersFor = 10 * time.Second

// read takes in how a reading shows the instance's node, and which jobs Slurm has there.
func (a attempts) read(n slurm.Node, p power, jobs map[uint32]int, taken time.Time) (attempts, verdict) {
	switch {
	case p == unknown:
		return a, keep
	case p == on:
		b := attempts{jobs: jobs, taken: taken, back: a.back}
		if a.silent || b.back.IsZero() {
			b.back = taken
		}
		return b, keep
	case p == down && n.State.Base != "DOWN":
		return attempts{jobs: merged(a.jobs, jobs), taken: taken, silent: true}, keep
	case p == down && n.State.Has(slurm.NotResponding):
		a.blank = a.blank || a.taken.IsZero() || !a.silent && taken.Sub(a.taken) > trusted
		a.silent, a.back = true, time.Time{}
		return a, giveUp
	case p == down: // by an admin, and it may answer: its slurmd is told to end the jobs
		return a, keep
	case a.silent:
		return a, moved
	}
	return a, forgets
}

// merged are the jobs of both; of what both have, the newer's restarts.
func merged(older, newer map[uint32]int) map[uint32]int {
	all := map[uint32]int{}
	maps.Copy(all, older)
	maps.Copy(all, newer)
	return all
}

// runningOn lists by node the jobs that may have processes there, with the
// restarts of the attempt whose they are. Slurm counts a requeue while the
// attempt that it ends is still COMPLETING: what completes is the one before.
func runningOn(snap *slurm.Snapshot, ours func(node string) bool) map[string]map[uint32]int {
	on := map[string]map[uint32]int{}
	for id, j := range snap.Jobs {
		switch j.State {
		case "RUNNING", "COMPLETING", "CONFIGURING", "SUSPENDED", "STAGE_OUT", "SIGNALING", "STOPPED", "RESIZING":
		default:
			continue
		}
		names, err := hostlist.Expand(j.Nodes)
		if err != nil {
			continue // it has none
		}
		for _, n := range names {
			if !ours(n) {
				continue
			}
			if on[n] == nil {
				on[n] = map[uint32]int{}
			}
			on[n][id] = j.Restarts
			if j.State == "COMPLETING" {
				on[n][id] = max(0, j.Restarts-1)
			}
		}
	}
	return on
}

// blanks are the instances that an earlier life has left up.
func blanks(m *memory) map[string]attempts {
	all := map[string]attempts{}
	for _, n := range m.inPhase(Up) {
		if _, ok := m.instances[n.Instance]; ok {
			all[n.Instance] = attempts{blank: true, silent: true}
		}
	}
	return all
}

// observe takes in what a reading of Slurm says of the jobs on our instances,
// and fences those on nodes that Slurm has given up. An older reading is no news.
func (e *Engine) observe(ctx context.Context, snap *slurm.Snapshot) error {
	if !snap.Taken.After(e.observed) {
		return nil
	}
	var c Change
	on := runningOn(snap, func(node string) bool { return e.mem.nodes[node].Instance != "" })
	next := map[string]attempts{}
	for _, n := range e.mem.nodes {
		if _, ok := e.mem.instances[n.Instance]; !ok {
			continue
		}
		a, have := e.attempts[n.Instance]
		if !n.Since.Before(snap.Taken) { // what was read may be older than the instance
			if have {
				next[n.Instance] = a
			}
			continue
		}
		a, v := a.read(snap.Nodes[n.Name], powerOf(snap, n.Name), on[n.Name], snap.Taken)
		switch {
		case v == giveUp && !a.fenced, v == moved && !a.fenced:
			if !a.blank || !e.mem.sameOutage(n.Instance, snap.Nodes[n.Name]) {
				e.fence(&c, n.Name, n.Instance, a)
			}
			a.fenced = true
		case !a.back.IsZero() && snap.Taken.Sub(a.back) >= answersFor:
			e.unfence(&c, n, snap.Nodes[n.Name])
		}
		if v == keep || v == giveUp {
			next[n.Instance] = a
		}
	}
	for id, a := range e.attempts {
		i, ok := e.mem.instances[id]
		if ok && a.silent && !a.fenced && e.mem.nodes[i.Assigned].Instance != id {
			e.fence(&c, i.Assigned, id, a) // powered down without an answer
		}
	}
	if err := e.commit(ctx, c); err != nil {
		return err
	}
	e.attempts, e.observed = next, snap.Taken
	return e.watchServers(ctx, snap)
}
