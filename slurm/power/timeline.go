package power

import (
	"slices"
	"time"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/slurm"
	"github.com/burst-hpc/burst/slurm/hostlist"
)

// Stage is a part of a node's way up.
type Stage string

// A stage ends with what it is named after, and begins with the end of the one before.
const (
	StageQueued     Stage = "queued"     // until the launch call begins: planning, cooldowns, the cloud's rate limits
	StageLaunched   Stage = "launched"   // the call
	StageRunning    Stage = "running"    // until the cloud says that the instance runs
	StageReachable  Stage = "reachable"  // until its first word: kernel, network
	StageSetup      Stage = "setup"      // until the site's commands begin
	StageReady      Stage = "ready"      // until slurmd is started
	StageRegistered Stage = "registered" // until slurmctld has it
	StageStarted    Stage = "started"    // until the job runs
)

// Stages lists all in their order.
var Stages = []Stage{StageQueued, StageLaunched, StageRunning, StageReachable, StageSetup, StageReady, StageRegistered, StageStarted}

func (b *Boot) times() []*time.Time {
	return []*time.Time{&b.Called, &b.Launched, &b.Running, &b.Reachable, &b.Setup, &b.Ready, &b.Registered, &b.Started}
}

// Took is how long each stage took of which the end is known. What is not
// known counts to the next one that is.
func (b Boot) Took() map[Stage]time.Duration {
	took := map[Stage]time.Duration{}
	from := b.Ordered
	for i, t := range b.times() {
		if t.IsZero() {
			continue
		}
		took[Stages[i]] = max(0, t.Sub(from)) // a newer order may have taken over an instance
		from = *t
	}
	return took
}

// Total is from the order to the end of the last stage that is known.
func (b Boot) Total() time.Duration {
	var sum time.Duration
	for _, d := range b.Took() {
		sum += d
	}
	return sum
}

// note sets when a stage ended, unless it is set, or what comes after it is
// known: news of the past says nothing of the time.
func (b *Boot) note(s Stage, at time.Time) bool {
	i := slices.Index(Stages, s)
	times := b.times()
	if slices.ContainsFunc(times[i:], func(t *time.Time) bool { return !t.IsZero() }) {
		return false
	}
	*times[i] = at
	return true
}

// timeline adds to a change what it says of boots, so that it is written with
// the phases that it comes from.
func (m *memory) timeline(c *Change, now time.Time) {
	boots := map[string]Boot{}
	type key struct{ node, order string }
	at := map[key]int{} // in c.Boots
	get := func(node string) (Boot, bool) {
		b, ok := boots[node]
		if !ok {
			b, ok = m.boots[node]
		}
		return b, ok && b.Ended.IsZero()
	}
	put := func(b Boot) {
		boots[b.Node] = b
		k := key{b.Node, b.Order}
		i, have := at[k]
		if !have {
			i, at[k] = len(c.Boots), len(c.Boots)
			c.Boots = append(c.Boots, b)
		}
		c.Boots[i] = b
	}
	for i, b := range c.Boots {
		boots[b.Node], at[key{b.Node, b.Order}] = b, i
	}
	for _, name := range c.DropNodes {
		if b, open := get(name); open {
			put(b.end("not wanted any more", now))
		}
	}
	for _, n := range c.Nodes {
		b, open := get(n.Name)
		if open && b.Order != n.Order && n.Phase != Up && n.Phase != Freeing {
			put(b.end("a newer order has the node", now))
			b.Order, b.Ordered = n.Order, n.Made
			put(b)
		}
		if b, changed := b.follow(n, open, now); changed {
			put(b)
		}
	}
	for _, i := range c.Instances {
		b, open := get(i.Assigned)
		if open && b.Instance == i.ID && i.State == cloud.Running && b.note(StageRunning, now) {
			put(b)
		}
	}
}

// follow brings in a node's record.
func (b Boot) follow(n Node, open bool, now time.Time) (Boot, bool) {
	before := b
	switch n.Phase {
	case Wanted, Launching, Booting:
		if n.Order == "" {
			return b, false // adopted: nobody has seen it come
		}
		if !open {
			b = Boot{Node: n.Name, Order: n.Order, Ordered: n.Made}
		}
		if b.Instance != "" && n.Instance != b.Instance || n.Phase == Wanted {
			b = Boot{Node: b.Node, Order: b.Order, Ordered: b.Ordered} // another instance
		}
		b.Pool, b.Job, b.Instance, b.Tries = n.Pool, n.Job, n.Instance, n.Tries
		if n.Phase == Launching {
			b.note(StageQueued, n.Since)
		}
		if n.Phase == Booting {
			b.note(StageLaunched, n.Since)
		}
	case Up:
		if !open {
			return b, false
		}
		if b.note(StageRegistered, n.Since) && b.Job == 0 {
			b = b.end("", now)
		}
	case Freeing:
		if !open {
			return b, false
		}
		b = b.end(n.Reason, now)
	}
	return b, b != before
}

// end closes a boot; why says what kept the node from coming up, if it did not.
func (b Boot) end(why string, now time.Time) Boot {
	b.Ended, b.Outcome = now, why
	if !b.Registered.IsZero() {
		b.Outcome = BootUp
	}
	return b
}

// started plans what a reading of Slurm says of the jobs of nodes that are up.
// For a job that waited for nodes to power up, Slurm takes its start anew when
// it begins, in whole seconds; a reading that comes late loses nothing, unless
// the job has been requeued by then: its next start is not that of this boot.
func (m *memory) started(c *Change, snap *slurm.Snapshot) {
	has := map[uint32]map[string]bool{} // job -> its nodes
	for _, b := range m.boots {
		if b.Registered.IsZero() || !b.Registered.Before(snap.Taken) {
			continue
		}
		j, known := snap.Jobs[b.Job]
		if known && j.State == "CONFIGURING" {
			continue
		}
		if has[j.ID] == nil {
			has[j.ID] = nodesOf(j)
		}
		late := j.Start.Before(b.Registered.Add(-time.Second))
		if has[j.ID][b.Node] && j.State != "PENDING" && !(late && j.State == "CANCELLED") { // which had not begun
			b.note(StageStarted, latest(j.Start, b.Registered))
		}
		c.Boots = append(c.Boots, b.end("", snap.Taken))
	}
}

// nodesOf is the set of the job's nodes, as far as Slurm says.
func nodesOf(j slurm.Job) map[string]bool {
	set := map[string]bool{}
	names, err := hostlist.Expand(j.Nodes)
	if err != nil {
		return set // it has none
	}
	for _, n := range names {
		set[n] = true
	}
	return set
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
