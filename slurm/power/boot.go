package power

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/slurm"
)

// setAddresses tells the provider which instance is which node, and Slurm the
// addresses of all nodes that have one, in one update.
func (e *Engine) setAddresses(ctx context.Context) (time.Duration, error) {
	names := map[string]map[string]string{} // provider -> instance -> node
	var u slurm.NodeUpdate
	var ready []Node
	for _, n := range e.mem.inPhase(Booting, Up) {
		i, ok := e.mem.instances[n.Instance]
		if n.AddrSet || !ok || i.Addr == "" {
			continue
		}
		if names[i.Provider] == nil {
			names[i.Provider] = map[string]string{}
		}
		names[i.Provider][i.ID] = n.Name
		host := i.Hostname
		if host == "" {
			host = n.Name
		}
		u.Nodes, u.Addrs, u.Hostnames = append(u.Nodes, n.Name), append(u.Addrs, i.Addr), append(u.Hostnames, host)
		ready = append(ready, n)
	}
	if len(ready) == 0 {
		return 0, nil
	}
	// Slurm first: a node that registers before its address is known would be
	// reached at the old one.
	err := e.slurm.UpdateNodes(ctx, u)
	var partial *slurm.PartialError
	if err != nil && !errors.As(err, &partial) {
		return 0, fmt.Errorf("setting the addresses of %d nodes: %w", len(ready), err)
	}
	unnamed := map[string]bool{} // providers
	for _, provider := range slices.Sorted(maps.Keys(names)) {
		if aerr := e.assignNames(ctx, provider, names[provider]); aerr != nil {
			unnamed[provider] = true // the others' nodes go on
			err = errors.Join(err, aerr)
		}
	}
	var c Change
	for _, n := range ready {
		if partial != nil && partial.Failed[n.Name] != "" || unnamed[e.mem.instances[n.Instance].Provider] {
			continue
		}
		n.AddrSet = true
		c.Nodes = append(c.Nodes, n)
	}
	if cerr := e.commit(ctx, c); cerr != nil {
		return 0, cerr
	}
	return 0, err
}

func (e *Engine) assignNames(ctx context.Context, provider string, ids map[string]string) error {
	a, ok := e.providers[provider].(cloud.Assigner)
	if !ok {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if err := a.Assign(ctx, ids); err != nil {
		e.note(provider, err)
		return fmt.Errorf("naming %d instances of %s: %w", len(ids), provider, err)
	}
	return nil
}

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
	give(&c, e.mem, forNobody(snap, e.mem.inPhase(Wanted, Launching, Booting)), "its job was cancelled while it booted", time.Now())
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
			fail(c, e.mem, n.Instance, why)
			e.giveUp(c, n, why, snap)
		}
	}
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
	n.Phase, n.Since, n.Tries = Up, now, 0
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

// runningPace is the least time between two looks at instances of which
// nothing is wanted but when they began to run.
const runningPace = 2 * time.Second

// findAddresses asks the clouds for instances that had no address at their
// launch. The same call tells which run; those of which that alone is not known
// are asked for less often, and not at all once the node has spoken.
func (e *Engine) findAddresses(ctx context.Context, moving []Node) {
	without := map[string][]string{}
	youngest := map[string]time.Duration{}
	urgent := map[string]bool{}
	for _, n := range moving {
		i, ok := e.mem.instances[n.Instance]
		if !ok || i.Addr != "" && (i.State != cloud.Pending || !e.mem.boots[n.Name].Reachable.IsZero()) {
			continue
		}
		urgent[i.Provider] = urgent[i.Provider] || i.Addr == ""
		age := time.Since(n.Since)
		if least, ok := youngest[i.Provider]; !ok || age < least {
			youngest[i.Provider] = age
		}
		without[i.Provider] = append(without[i.Provider], i.ID)
	}
	for name, ids := range without {
		what := "addresses of " + name
		switch waited := youngest[name]; {
		case urgent[name]:
			e.look(ctx, what, name, ids, waited)
		case waited >= runningPace && time.Since(e.looked[what]) >= runningPace:
			e.look(ctx, what, name, ids, waited*2/3) // each at four thirds of the age of the last
		}
	}
}

// look lists instances beside Run and takes in what has changed of them,
// unless that was done not long ago, measured by how long something has been
// waited for. It returns when it is due again.
func (e *Engine) look(ctx context.Context, what, name string, ids []string, waited time.Duration) time.Duration {
	provider, ok := e.providers[name]
	if !ok || e.flying[what] {
		return 0 // its provider has left the configuration: said at the start
	}
	pace := min(30*time.Second, max(100*time.Millisecond, waited/2))
	if wait := max(e.until(what), pace-time.Since(e.looked[what])); wait > 0 {
		return wait
	}
	e.flying[what] = true
	e.beside(ctx, func(ctx context.Context) func(context.Context) {
		ctx, cancel := context.WithTimeout(ctx, callTimeout)
		defer cancel()
		list, err := provider.List(ctx, cloud.Filter{Cluster: e.cfg.Cluster, IDs: ids})
		return func(ctx context.Context) {
			delete(e.flying, what)
			e.looked[what] = time.Now()
			e.note(name, err)
			if err == nil {
				err = e.commit(ctx, e.learn(list))
			}
			if err != nil {
				wait := e.refused(what, err)
				e.log.Warn("will ask again", "what", what, "in", wait.Round(time.Millisecond), "error", err)
				return
			}
			delete(e.backoff, what)
		}
	})
	return 0
}

// learn plans what a list says of instances that the journal has.
func (e *Engine) learn(list []cloud.Instance) Change {
	var c Change
	for _, i := range list {
		rec, ok := e.mem.instances[i.ID]
		closing := rec.Doomed != "" && i.State == cloud.Terminated
		if !ok || !closing && rec.State == i.State && rec.Addr == i.Addr && rec.Hostname == i.Hostname {
			continue
		}
		rec.State, rec.Addr, rec.Hostname, rec.Ended = i.State, i.Addr, i.Hostname, i.Ended
		if closing {
			e.gone(&c, rec)
			continue
		}
		c.Instances = append(c.Instances, rec)
	}
	return c
}

// gone plans that an instance is closed: the cloud has confirmed its end.
func (e *Engine) gone(c *Change, rec Instance) {
	e.closeRecord(c, &rec)
	c.Instances = append(c.Instances, rec)
}

// closeRecord is gone for a record that the change has already.
func (e *Engine) closeRecord(c *Change, rec *Instance) {
	rec.Gone = time.Now()
	e.closed[rec.ID] = rec.Gone
	if rec.Ended.IsZero() {
		rec.Ended = rec.Gone
	}
	rec.State = cloud.Terminated
	c.Events = append(c.Events, Event{Time: rec.Gone, Kind: "gone", Node: rec.Assigned, Instance: rec.ID, Pool: rec.Pool,
		Text: fmt.Sprintf("%s ended after %s: %s", rec.Offering, rec.Ended.Sub(rec.Launched).Round(time.Second), rec.Doomed)})
}
