package power

import (
	"cmp"
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

// What a server of files serves is on its own disk: its instance is ended when somebody says so, and
// not when Slurm's books merely say that it has ended. They may be lost (slurmctld -c, another
// StateSaveLocation), or older than the server, and its NodeName line may be left out of slurm.conf.
//
//	a suspend order, when Slurm does not power the node down for being idle    ends it
//	a suspend order, when it may                                               kept, and told
//	a resume order, a resume that failed, Slurm has it off or not at all       kept, and told
//	an instance that says that it is the server, which the journal lacks       adopted, never ended

// holds is the instance that the server's files are on: that of its record, or one that lives, says
// that it is the server, and was never its record's.
func (t taking) holds(node string) (Node, Instance, bool) {
	rec := t.mem.nodes[node]
	i, ok := t.mem.instances[rec.Instance]
	switch {
	case rec.Phase == Up && ok && i.Doomed == "" && i.State != cloud.Terminated:
		return rec, i, true
	case rec.Phase == Launching, rec.Phase == Booting:
		return rec, i, false
	}
	for _, id := range slices.Sorted(maps.Keys(t.mem.instances)) {
		if i := t.mem.instances[id]; i.Assigned == node && i.Doomed == "" && i.State.Live() {
			return Node{Name: node, Pool: t.pools[node], Phase: Up, Since: t.now, Made: rec.Made, Instance: id}, i, true
		}
	}
	return rec, Instance{}, false
}

// keeps plans an order for a server of files that runs, unless it is somebody's word that the server
// is to end, or nothing to do with that.
func (t taking) keeps(c *Change, o Order, node string) bool {
	pool, serves := t.serve[node]
	if !serves {
		return false
	}
	rec, i, runs := t.holds(node)
	if !runs || rec.Made.After(o.Made) {
		return false
	}
	p := powerOf(t.snap, node)
	why := ""
	switch o.Kind {
	case Resume:
		if p != poweringUp {
			return false
		}
		why = "Slurm powers it up anew"
		rec.Order, rec.Made, rec.AddrSet = o.ID, o.Made, false // Slurm may have lost its address
		c.Nodes = append(c.Nodes, rec)
	case ResumeFail:
		why = "Slurm says that its power-up has failed"
	case Suspend:
		if p == on || !t.idles[node] && p != unknown {
			return false
		}
		why = "Slurm powers it down, which may be for being idle, as no partition of it has SuspendTime=INFINITE"
		if pool.Partition != "" {
			why += fmt.Sprintf(" (burst genconf writes that of partition %s)", pool.Partition)
		}
		if p == unknown {
			why = "an order powers it down, and Slurm does not know it any more"
		}
	}
	ev := t.event("server-kept", node, fmt.Sprintf("%s: its instance and its files are kept; %s", why, endText(pool.Name)))
	ev.Instance = i.ID
	c.Events = append(c.Events, ev)
	return true
}

// endText says what ends a server of files whatever Slurm has of it.
func endText(pool string) string { return fmt.Sprintf("`burst stop-all --pool %s` ends them", pool) }

// partitioned is a Slurm that shows its partitions.
type partitioned interface {
	ShowPartitions(ctx context.Context) ([]map[string]string, error)
}

// idlers are the servers among the nodes of suspend orders that Slurm powers down by itself when they
// are idle: then such an order is nobody's word.
func (e *Engine) idlers(ctx context.Context, orders []Order, snap *slurm.Snapshot) (map[string]bool, error) {
	asked := map[string]bool{}
	for _, o := range orders {
		names, err := hostlist.Expand(o.Nodes)
		if o.Kind != Suspend || err != nil {
			continue
		}
		for _, n := range names {
			if e.serves(n) {
				asked[n] = true
			}
		}
	}
	if len(asked) == 0 {
		return nil, nil
	}
	endless := map[string]bool{} // partitions whose nodes are not powered down for being idle
	if s, ok := e.slurm.(partitioned); ok {
		all, err := s.ShowPartitions(ctx)
		if err != nil {
			return nil, fmt.Errorf("whether Slurm powers down servers of files that are idle: %w", err)
		}
		for _, p := range all {
			endless[p["PartitionName"]] = strings.EqualFold(p["SuspendTime"], "INFINITE") || p["SuspendTime"] == "-1"
		}
	} else {
		for _, p := range e.servers.pools {
			endless[p.Partition] = true
		}
	}
	for n := range asked { // of several partitions the longest time is the node's
		asked[n] = !slices.ContainsFunc(snap.Nodes[n].Partitions, func(p string) bool { return endless[p] })
	}
	return asked, nil
}

// claimServer is claim for an instance that says that it is a server of files: whatever Slurm has of the
// server, it becomes its node if nothing else lives behind that.
func (e *Engine) claimServer(s stray, i cloud.Instance, p power, live map[string]bool) stray {
	n, have := e.mem.nodes[i.Node]
	switch n.Phase {
	case Launching, Booting: // another is on its way; this one is kept beside it
		s.adoptable = false
	default:
		s.adoptable = !have || !live[n.Instance]
	}
	s.unknown = p == unknown
	age := time.Since(i.Launched)
	s.up = p != poweringUp || i.Launched.IsZero() || age > e.bootTimeout(e.poolOf[i.Node])
	return s
}

// keepStray plans what becomes of a live instance which says that it is a server of files and is not
// that node: it is written down, shown (troubleOf), and left alone.
func (e *Engine) keepStray(c *Change, rec Instance) {
	e.plan(Planned{Kind: string(wait), Node: rec.Node, Instance: rec.ID, Why: "it says that it is a server of files, and there may be files on it: it is left alone"})
	rec.Assigned, rec.Serves = cmp.Or(rec.Assigned, rec.Node), true
	c.Instances = append(c.Instances, rec)
}
