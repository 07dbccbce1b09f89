package power

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/burst-hpc/burst/slurm"
)

// watchBoots looks at the nodes that are on their way: at the cloud for those
// without an address, at Slurm for those that may have registered, or whose
// job has been cancelled.
func (e *Engine) watchBoots(ctx context.Context) (time.Duration, error) {
	moving := e.mem.inPhase(Wanted, Launching, Booting)
	if len(moving) == 0 {
		return 0, nil
	}
	e.findAddresses(ctx, moving)
	look, stale := bootPace(moving, time.Now())
	if wait := e.until("look at boots"); wait > 0 {
		return wait, nil
	}
	e.backoff["look at boots"] = backoff{until: time.Now().Add(look)}
	snap, err := e.slurm.Fresh(ctx, time.Now().Add(-stale))
	if err != nil {
		return 0, err
	}
	if len(forNobody(snap, moving)) > 0 {
		// Since that reading they may have been given to another job.
		if snap, err = e.slurm.Fresh(ctx, time.Now()); err != nil {
			return 0, err
		}
	}
	if err := e.commit(ctx, e.booted(snap, moving)); err != nil {
		return 0, err
	}
	// Without those that have just registered, which may run something by now.
	var c Change
	e.tooLate(&c, snap)
	if err := e.commit(ctx, c); err != nil {
		return 0, err
	}
	c = Change{}
	give(&c, e.mem, forNobody(snap, e.mem.inPhase(Wanted, Launching, Booting)), "its job was cancelled or requeued while it booted", time.Now())
	return look, e.commit(ctx, c)
}

// bootTimeout is that of a pool, which may have left the configuration.
func (e *Engine) bootTimeout(pool string) time.Duration {
	return e.cfg.timeout(pool, e.pools[pool])
}

// lateMargin is what a boot is given beyond BootTimeout: until then it is
// Slurm that gives the node up, and tells us by its ResumeFailProgram.
const lateMargin = time.Minute

// tooLate plans the end of boots that take too long, and that Slurm still waits for.
func (e *Engine) tooLate(c *Change, snap *slurm.Snapshot) {
	for _, n := range e.mem.inPhase(Booting) {
		if n.Made.IsZero() {
			continue // adopted from a cloud that does not say when it was launched
		}
		timeout := e.bootTimeout(n.Pool)
		if snap.Taken.Sub(n.Made) > timeout+lateMargin && powerOf(snap, n.Name) == poweringUp {
			why := fmt.Sprintf("it did not register within %s", timeout)
			if hadTime(e.mem.instances[n.Instance], n, timeout) {
				fail(c, e.mem, n.Instance, why)
			}
			e.giveUp(c, n, why, snap)
		}
	}
}

// hadTime says that it is a failure of the instance that its node did not register within the timeout: of one that was
// launched in the last third of it that says nothing, and a pool is not stopped for it.
func hadTime(i Instance, n Node, timeout time.Duration) bool {
	return timeout <= 0 || n.Made.IsZero() || i.Launched.Sub(n.Made) < timeout/3*2
}

// bootPace says how soon to look again at what is known of Slurm, and how old
// that may be before Slurm is read anew. Registration is noticed late without
// harm, while a reading of a large site costs slurmctld time. What a waiting
// burst-gate has read serves here too: then a look finds it, and reads nothing.
// A node without an address cannot have registered: only its job matters.
func bootPace(moving []Node, now time.Time) (look, stale time.Duration) {
	look, stale = 5*time.Second, 10*time.Second
	for _, n := range moving {
		age := now.Sub(n.Since)
		look = min(look, max(250*time.Millisecond, age/8))
		if n.AddrSet {
			stale = min(stale, max(time.Second, age*2/3)) // each reading at three times the age of the last
		}
	}
	return look, stale
}

// booted plans that nodes which a reading of Slurm shows registered are up.
func (e *Engine) booted(snap *slurm.Snapshot, moving []Node) Change {
	var c Change
	now := time.Now()
	for _, n := range moving {
		if n.Since.Before(snap.Taken) && powerOf(snap, n.Name) == on && n.Phase == Booting && n.AddrSet {
			e.registered(&c, n, now)
		}
	}
	return c
}

// forNobody lists the nodes whose job was cancelled while they boot.
func forNobody(snap *slurm.Snapshot, moving []Node) []Node {
	var idle []Node
	for _, n := range moving {
		if n.Since.Before(snap.Taken) && powerOf(snap, n.Name) == poweringUp && n.Job != 0 && jobless(snap, n) {
			idle = append(idle, n)
		}
	}
	return idle
}

func (e *Engine) registered(c *Change, n Node, now time.Time) {
	took := now.Sub(n.Made).Round(10 * time.Millisecond)
	n.Phase, n.Since, n.Reason, n.Tries = Up, now, "", 0 // a reason would have it powered down: see leaveNodes
	c.Nodes = append(c.Nodes, n)
	c.Events = append(c.Events, Event{Time: now, Kind: "up", Node: n.Name, Instance: n.Instance, Pool: n.Pool, Job: n.Job,
		Text: fmt.Sprintf("registered, %s after Slurm asked", took)})
	if h, held := e.mem.holds[n.Job]; held && h.Released && !slices.Contains(c.DropHolds, n.Job) {
		c.DropHolds = append(c.DropHolds, n.Job)
	}
}

// jobless says that a node powers up for nobody: it is not allocated, and the
// job that it was raised for is over or gone. A job that is pending again may
// have lost another of its nodes: its others are not what it will get.
func jobless(snap *slurm.Snapshot, n Node) bool {
	if snap.Nodes[n.Name].State.Base != "IDLE" {
		return false
	}
	j, known := snap.Jobs[n.Job]
	return !known || !slices.Contains([]string{"CONFIGURING", "RUNNING", "SUSPENDED", "COMPLETING", "STAGE_OUT"}, j.State)
}
