package daemon

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/burst-hpc/burst/cmd/internal/api"
	"github.com/burst-hpc/burst/cmd/internal/spool"
	"github.com/burst-hpc/burst/slurm"
	"github.com/burst-hpc/burst/slurm/hostlist"
	"github.com/burst-hpc/burst/slurm/power"
)

var _ api.Backend = (*Daemon)(nil)

// AddOrder makes an order durable and has it carried out.
func (d *Daemon) AddOrder(ctx context.Context, o api.Order) error {
	return d.engine.AddOrder(ctx, power.Order{ID: o.ID, Kind: power.OrderKind(o.Kind), Nodes: o.Nodes, ResumeFile: o.ResumeFile, Made: o.Made})
}

// Status sums up the daemon's state.
func (d *Daemon) Status(ctx context.Context) (api.Status, error) {
	h := d.engine.Health()
	s := api.Status{Cluster: d.cluster, Version: d.version, Started: d.started, Nodes: map[string]int{}, Orders: h.Orders,
		Instances: len(h.Instances), Providers: map[string]string{}, Places: map[string]string{}, Paused: d.paused()}
	for _, n := range h.Nodes {
		s.Nodes[string(n.Phase)]++
	}
	for name, bad := range h.Providers {
		s.Providers[name] = cmp.Or(bad, "ok")
	}
	for _, p := range d.cfg.Providers {
		s.Places[p.Name] = p.Place()
	}
	for name, account := range h.Accounts {
		if s.Accounts == nil {
			s.Accounts = map[string]string{}
		}
		s.Accounts[name] = api.AccountMark(account)
	}
	for name, b := range h.Breakers {
		if !b.Stopped.IsZero() {
			if s.Stopped == nil {
				s.Stopped = map[string]string{}
			}
			s.Stopped[name] = b.Why
			if b.ByHand {
				s.ByHand = append(s.ByHand, name)
			}
		}
	}
	s.Servers = h.Servers
	for name, left := range h.Left {
		if s.Left == nil {
			s.Left = map[string]string{}
		}
		s.Left[name] = left.Say(name)
	}
	s.Files = d.files(h)
	s.Evictions, _ = d.guard.Active()
	if err := d.slurmError(); err != nil {
		s.SlurmError = err.Error()
	} else {
		s.SlurmOK = d.watcher.Latest() != nil
	}
	d.load(&s, h)
	d.running(&s)
	if err := d.evicting(ctx, &s); err != nil {
		return s, err
	}
	var err error
	s.Spooled, err = spool.Count(d.cfg.Endpoint.Spool)
	return s, err
}

// files are the instances that end with files which they serve.
func (d *Daemon) files(h power.Health) (all []api.FilesOn) {
	for _, i := range h.Instances {
		if i.Serves && i.Doomed == "" && d.engine.ServesFiles(i.Assigned) {
			all = append(all, api.FilesOn{Instance: i.ID, Node: i.Assigned, Pool: i.Pool})
		}
	}
	return all
}

func (d *Daemon) slurmError() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.slurmErr
}

// Nodes tells of each of our nodes: as Slurm, the journal and the cloud have it.
func (d *Daemon) Nodes(ctx context.Context) ([]api.NodeStatus, error) {
	snap, err := d.watcher.Fresh(ctx, time.Now().Add(-2*time.Second))
	if err != nil {
		snap = &slurm.Snapshot{} // the journal is worth showing without it
	}
	h := d.engine.Health()
	all := map[string]api.NodeStatus{}
	for _, p := range d.cfg.Pools {
		for _, n := range p.Power.Nodes {
			s := api.NodeStatus{Node: n, Pool: p.Power.Name}
			if sn, ok := snap.Nodes[n]; ok {
				s.Slurm = sn.State.String()
			}
			all[n] = s
		}
	}
	for _, n := range h.Nodes {
		s := all[n.Name]
		s.Node, s.Pool, s.Journal, s.Instance, s.Since, s.Reason = n.Name, n.Pool, string(n.Phase), n.Instance, n.Since, n.Reason
		all[n.Name] = s
	}
	for _, i := range h.Instances {
		s, ok := all[i.Assigned]
		if !ok || s.Instance != "" && s.Instance != i.ID {
			continue
		}
		s.Instance, s.Offering, s.Provider, s.Addr = i.ID, i.Offering.String(), i.Provider, i.Addr
		if i.Doomed != "" {
			s.Journal, s.Reason = "ending", i.Doomed
		}
		all[i.Assigned] = s
	}
	names, err := hostlist.Expand(hostlist.FoldSorted(slices.Collect(maps.Keys(all))))
	if err != nil {
		return nil, err
	}
	list := make([]api.NodeStatus, len(names))
	for i, n := range names {
		list[i] = all[n]
	}
	return list, nil
}

// Events returns the history after an event, or waits for more of it.
func (d *Daemon) Events(ctx context.Context, after int64, wait time.Duration) ([]api.Event, error) {
	stored, err := d.store.Events(ctx, after, wait)
	if err != nil {
		return nil, err
	}
	events := make([]api.Event, len(stored))
	for i, e := range stored {
		events[i] = api.Event{Seq: e.Seq, Time: e.Time, Kind: e.Kind, Node: e.Node, Instance: e.Instance, Pool: e.Pool, Job: e.Job, Text: e.Text}
	}
	return events, nil
}

// Gate answers when the job may start, or after wait.
func (d *Daemon) Gate(ctx context.Context, job uint32, nodes string, wait time.Duration) (api.GateAnswer, error) {
	names, err := hostlist.Expand(nodes)
	if err != nil {
		return api.GateAnswer{}, fmt.Errorf("the job's nodes: %w", err)
	}
	for end := time.Now().Add(wait); ; {
		snap, err := d.watcher.Fresh(ctx, time.Now())
		if err != nil {
			return api.GateAnswer{}, err
		}
		j, ok := snap.Jobs[job]
		if !ok {
			return api.GateAnswer{Go: true, Why: "Slurm does not know the job"}, nil
		}
		var states []slurm.Node
		for _, n := range names {
			if s, ok := snap.Nodes[n]; ok {
				states = append(states, s)
			}
		}
		open, why := power.GateOpen(j, states)
		if open && power.AsksFences(j) {
			fence, err := d.engine.Fenced(ctx, snap, job)
			if err != nil {
				return api.GateAnswer{}, fmt.Errorf("whether an earlier attempt of job %d still runs: %w", job, err)
			}
			if fence != "" {
				open, why = false, fence
			}
		}
		if open || !time.Now().Before(end) {
			return api.GateAnswer{Go: open, Why: why}, nil
		}
		select {
		case <-ctx.Done():
			return api.GateAnswer{}, ctx.Err()
		case <-time.After(gatePause(time.Since(j.Start))):
		}
	}
}

// gatePause is the wait between two looks at the nodes of a job that was
// given them so long ago: a fiftieth of it, at least minGap, at most 1 s. A boot
// of minutes is not worth a reading of Slurm each 100 ms.
func gatePause(age time.Duration) time.Duration { return min(time.Second, max(minGap, age/50)) }
