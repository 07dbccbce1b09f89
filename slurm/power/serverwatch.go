package power

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/slurm"
	"github.com/burst-hpc/burst/slurm/hostlist"
)

// oddFor is how long something is wrong with a server before it is told: orders are on their way, and a
// tunnel flaps.
const oddFor = time.Minute

// watchServers takes in how a reading of Slurm shows the servers of files: whether they answer, what is
// wrong with them, and whose nodes have lost theirs.
func (e *Engine) watchServers(ctx context.Context, snap *slurm.Snapshot) error {
	names := slices.Collect(maps.Keys(e.servers.pools))
	for _, i := range e.mem.instances {
		if i.Serves && i.Assigned != "" && i.Doomed == "" && e.poolOf[i.Assigned] == "" {
			names = append(names, i.Assigned)
		}
	}
	if len(names)+len(e.troubles) == 0 {
		return nil
	}
	slices.Sort(names)
	names = slices.Compact(names)
	var c Change
	e.markServers(&c)
	now := time.Now()
	troubles := map[string]string{}
	for _, name := range names {
		n := e.mem.nodes[name]
		if !n.Since.Before(snap.Taken) {
			if had := e.troubles[name]; had != "" {
				troubles[name] = had // it is newer than what was read
			}
			continue
		}
		if e.servers.silent[name] = powerOf(snap, name) == down && snap.Nodes[name].State.Has(slurm.NotResponding); e.servers.silent[name] {
			e.servers.quiet[name] = snap.Taken
		}
		why, had := e.troubleOf(name, snap), e.troubles[name]
		s := e.servers.odd[name].seen(why, snap.Taken)
		e.servers.odd[name] = s
		settled := why != "" && s.times > 1 && snap.Taken.Sub(s.since) >= oddFor
		switch {
		case why != "" && !settled && had != "":
			troubles[name] = had
		case settled:
			troubles[name] = why
		}
		ev := Event{Time: now, Kind: "server-trouble", Node: name, Pool: e.poolOf[name], Instance: e.mem.nodes[name].Instance, Text: troubles[name]}
		switch {
		case troubles[name] != "" && troubles[name] != had:
			e.log.Warn("a server of files needs a look", "node", name, "why", why)
			c.Events = append(c.Events, ev)
		case troubles[name] == "" && had != "":
			ev.Kind, ev.Text = "server-well", "nothing is wrong with it any more"
			c.Events = append(c.Events, ev)
		}
	}
	lost := e.lostServers(&c, now)
	if err := e.commit(ctx, c); err != nil {
		return err
	}
	e.mu.Lock()
	e.troubles = troubles
	e.mu.Unlock()
	for id := range e.servers.lost {
		if _, ok := e.mem.instances[id]; !ok {
			delete(e.servers.lost, id)
		}
	}
	for _, ev := range c.Events {
		if ev.Kind == "server-lost" {
			for node := range lost {
				e.servers.lost[e.mem.nodes[node].Instance] = true
			}
		}
	}
	e.tellOfServers(ctx, snap, lost)
	return nil
}

// troubleOf is what an admin has to know of a server of files; "": nothing is wrong with it.
func (e *Engine) troubleOf(name string, snap *slurm.Snapshot) string {
	pool, n := e.servers.pools[name], e.mem.nodes[name]
	i := e.mem.instances[n.Instance]
	runs := n.Phase == Up && i.Doomed == "" && i.State.Live()
	if e.poolOf[name] == "" {
		ids := e.othersOf(name)
		if runs {
			ids = append([]string{i.ID}, ids...)
		}
		if len(ids) == 0 {
			return ""
		}
		of := e.mem.instances[ids[0]].Pool
		return fmt.Sprintf("pool %s has left burst.toml: its instance %s and its files are kept until %s; put it back, or copy them", of, strings.Join(ids, ", "), endText(of))
	}
	s, known := snap.Nodes[name]
	if !known && !slices.ContainsFunc(slices.Collect(maps.Keys(snap.Nodes)), e.Owns) {
		return "" // an empty answer is no answer
	}
	kept := ""
	if runs {
		kept = fmt.Sprintf("; it goes on serving, and its files are kept until %s", endText(pool.Name))
	}
	reason := ""
	if s.Reason != "" {
		reason = " (" + s.Reason + ")"
	}
	if others := e.othersOf(name); len(others) > 0 {
		return fmt.Sprintf("%s beside its own instance says that it is this server: burstd leaves it alone, as there may be files on it; end in the cloud's console what is not needed", strings.Join(others, ", "))
	}
	switch p := powerOf(snap, name); {
	case runs && i.State == cloud.Terminating:
		return fmt.Sprintf("the cloud has its instance %s stopped, or ends it: if it is stopped, start it in the cloud's console", i.ID)
	case !known:
		return "Slurm does not know it: slurm.conf lacks what burst genconf prints of it" + kept
	case runs && p == poweringUp:
		return fmt.Sprintf("Slurm powers it up while its instance %s runs%s; reboot the instance to bring it back into Slurm", i.ID, kept)
	case runs && (p == off || p == poweringDown || p == failed):
		return fmt.Sprintf("Slurm has it %s%s while its instance %s runs: has slurmctld lost its state?%s; a restart of its slurmd brings it back into Slurm", p, reason, i.ID, kept)
	case e.servers.silent[name]:
		return "it does not answer Slurm" + reason + ": nodes that mount from it are not launched until it does" + kept
	case p == down, p == failed:
		return fmt.Sprintf("Slurm has it DOWN%s: `scontrol update nodename=%s state=resume` when that is mended%s", reason, name, kept)
	case s.State.Has(slurm.Drain):
		return fmt.Sprintf("Slurm has it drained%s: `scontrol update nodename=%s state=resume`%s", reason, name, kept)
	}
	parts := slices.DeleteFunc(slices.Clone(s.Partitions), func(p string) bool { return p == pool.Partition || pool.Partition == "" })
	if len(parts) > 0 {
		return fmt.Sprintf("partition %s of slurm.conf gives it to jobs: list the partition's nodes without it", strings.Join(parts, ", "))
	}
	return ""
}

// othersOf are the instances that live beside the server's own and say that they are it.
func (e *Engine) othersOf(name string) []string {
	var all []string
	for _, id := range slices.Sorted(maps.Keys(e.mem.instances)) {
		if i := e.mem.instances[id]; i.Assigned == name && i.Doomed == "" && i.State.Live() && e.mem.nodes[name].Instance != id {
			all = append(all, id)
		}
	}
	return all
}

// lostServers are the servers, by node, of nodes that are up and whose server is not there any more, or is
// another instance than that from which they mounted. Each node's is told once.
func (e *Engine) lostServers(c *Change, now time.Time) map[string]string {
	lost, fresh := map[string]string{}, map[string][]string{}
	for _, n := range e.mem.inPhase(Up) {
		i, ok := e.mem.instances[n.Instance]
		if !ok || i.Doomed != "" || i.State == cloud.Terminated {
			continue
		}
		for _, server := range e.pools[n.Pool].Needs {
			if !e.servedBefore(server, i) {
				lost[n.Name] = server
				if !e.servers.lost[n.Instance] {
					fresh[server] = append(fresh[server], n.Name)
				}
				break
			}
		}
	}
	for _, server := range slices.Sorted(maps.Keys(fresh)) {
		nodes := hostlist.Fold(fresh[server])
		c.Events = append(c.Events, Event{Time: now, Kind: "server-lost", Node: server, Pool: e.poolOf[server], Text: fmt.Sprintf("it is gone with its files, and %s mounted from it: "+
			"what uses them there hangs; `scontrol update nodename=%[1]s state=power_down_force` requeues the jobs", nodes)})
	}
	return lost
}

// servedBefore says that the server's instance is up and was launched before that one.
func (e *Engine) servedBefore(server string, i Instance) bool {
	n := e.mem.nodes[server]
	own, ok := e.mem.instances[n.Instance]
	return ok && n.Phase == Up && own.Doomed == "" && own.State != cloud.Terminated && (i.Launched.IsZero() || !own.Launched.After(i.Launched))
}

// bereft is the server that an instance mounts from and that has been away since it was launched, so that it may
// have failed for that; "": none.
func (e *Engine) bereft(i Instance) string {
	for _, server := range e.pools[e.poolOf[i.Assigned]].Needs {
		if !e.servedBefore(server, i) || e.servers.quiet[server].After(i.Launched) || e.servers.leaves[server].After(i.Launched) {
			return server
		}
	}
	return ""
}
