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
	for provider, ids := range names {
		if a, ok := e.providers[provider].(cloud.Assigner); ok {
			if err := a.Assign(ctx, ids); err != nil {
				e.note(provider, err)
				return 0, fmt.Errorf("naming %d instances: %w", len(ids), err)
			}
		}
	}
	var c Change
	for _, n := range ready {
		if partial != nil && partial.Failed[n.Name] != "" {
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
	return look, e.commit(ctx, e.booted(snap, moving))
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

// booted plans what a reading of Slurm says of nodes on their way.
func (e *Engine) booted(snap *slurm.Snapshot, moving []Node) Change {
	var c Change
	now := time.Now()
	for _, n := range moving {
		if n.Since.Before(snap.Taken) && powerOf(snap, n.Name) == on && n.Phase == Booting && n.AddrSet {
			e.registered(&c, n, now)
		}
	}
	if idle := forNobody(snap, moving); len(idle) > 0 {
		give(&c, e.mem, idle, "its job was cancelled while it booted", now)
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
	if _, held := e.mem.holds[n.Job]; held && !slices.Contains(c.DropHolds, n.Job) {
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

// findAddresses asks the clouds for instances that had no address at their launch.
func (e *Engine) findAddresses(ctx context.Context, moving []Node) {
	without := map[string][]string{}
	for _, n := range moving {
		if i, ok := e.mem.instances[n.Instance]; ok && i.Addr == "" {
			without[i.Provider] = append(without[i.Provider], i.ID)
		}
	}
	for name, ids := range without {
		what := "addresses of " + name
		if e.flying[what] || e.until(what) > 0 {
			continue
		}
		e.look(ctx, what, name, ids)
	}
}

// look lists instances beside Run and takes in what has changed of them.
func (e *Engine) look(ctx context.Context, what, name string, ids []string) {
	e.flying[what] = true
	provider := e.providers[name]
	e.beside(ctx, func(ctx context.Context) func(context.Context) {
		list, err := provider.List(ctx, cloud.Filter{Cluster: e.cfg.Cluster, IDs: ids})
		return func(ctx context.Context) {
			delete(e.flying, what)
			e.note(name, err)
			if err == nil {
				err = e.commit(ctx, e.learn(list))
			}
			if err != nil {
				e.log.Warn("will ask again", "what", what, "error", err)
			}
			e.failed(what) // also without an error: the next look comes later
		}
	})
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
	rec.Gone = time.Now()
	if rec.Ended.IsZero() {
		rec.Ended = rec.Gone
	}
	rec.State = cloud.Terminated
	c.Instances = append(c.Instances, rec)
	c.Events = append(c.Events, Event{Time: rec.Gone, Kind: "gone", Node: rec.Assigned, Instance: rec.ID, Pool: rec.Pool,
		Text: fmt.Sprintf("%s ended after %s: %s", rec.Offering, rec.Ended.Sub(rec.Launched).Round(time.Second), rec.Doomed)})
}

// endInstances asks for the end of doomed instances, again every 30 s, and
// looks until the cloud says that they are gone.
func (e *Engine) endInstances(ctx context.Context) (time.Duration, error) {
	ending := map[string][]string{}
	for _, id := range slices.Sorted(maps.Keys(e.mem.instances)) {
		if i := e.mem.instances[id]; i.Doomed != "" {
			ending[i.Provider] = append(ending[i.Provider], id)
		}
	}
	var due time.Duration
	for name, ids := range ending {
		provider, ok := e.providers[name]
		if !ok {
			continue
		}
		what := "end of " + name
		var ask []string
		for _, id := range ids {
			if time.Since(e.asked[id]) >= 30*time.Second {
				ask = append(ask, id)
			}
		}
		switch {
		case e.flying[what]:
		case len(ask) > 0:
			for _, id := range ask {
				e.asked[id] = time.Now()
			}
			delete(e.backoff, what)
			e.flying[what] = true
			e.beside(ctx, func(ctx context.Context) func(context.Context) {
				err := provider.Terminate(ctx, ask)
				return func(ctx context.Context) {
					delete(e.flying, what)
					e.note(name, err)
					if err != nil {
						for _, id := range ask {
							e.asked[id] = time.Now().Add(e.failed(what) - 30*time.Second)
						}
						e.log.Warn("terminating instances failed; it will be repeated", "provider", name, "instances", ask, "error", err)
					}
				}
			})
		case e.until(what) > 0:
			due = sooner(due, e.until(what))
		default:
			e.look(ctx, what, name, ids)
		}
	}
	for id := range e.asked {
		if _, ok := e.mem.instances[id]; !ok {
			delete(e.asked, id)
		}
	}
	return due, nil
}
