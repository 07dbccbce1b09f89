package daemon

import (
	"cmp"
	"context"
	"slices"

	"github.com/burst-hpc/burst/cmd/internal/api"
	"github.com/burst-hpc/burst/cmd/internal/config"
	"github.com/burst-hpc/burst/ft"
	"github.com/burst-hpc/burst/slurm/power"
)

// load tells what each pool has and costs, and which jobs wait for nodes.
func (d *Daemon) load(s *api.Status, h power.Health) {
	of := map[string]*api.PoolLoad{}
	for _, p := range d.cfg.Pools {
		s.Pools = append(s.Pools, api.PoolLoad{Pool: p.Power.Name, Nodes: map[string]int{}})
	}
	for i := range s.Pools {
		of[s.Pools[i].Pool] = &s.Pools[i]
	}
	for _, n := range h.Nodes {
		if p := of[n.Pool]; p != nil {
			p.Nodes[string(n.Phase)]++
		}
	}
	for _, i := range h.Instances {
		p := of[i.Pool]
		if p == nil {
			continue
		}
		p.Instances++
		if i.Doomed != "" {
			p.Ending++
		}
	}
	for name := range unusedServers(d.cfg.Pools, of) {
		of[name].Unused = true
	}
	if c := d.meters.now(); !c.at.IsZero() {
		s.USDPerHour, s.Unpriced = &c.usdPerHour, c.unpriced
		for name, p := range of {
			p.USDPerHour, p.Unpriced = c.pools[name].usdPerHour, c.pools[name].unpriced
		}
	}
	s.Wait = len(h.Holds)
	for _, hold := range h.Holds[:min(len(h.Holds), api.MaxListed)] {
		s.Waiting = append(s.Waiting, api.Waiting{Job: hold.Job, Until: hold.Start, Why: hold.Why, Tries: hold.Tries})
	}
}

// unusedServers are the pools with a server of files that runs, for which no pool has a node or an instance.
func unusedServers(pools []config.Pool, loads map[string]*api.PoolLoad) map[string]bool {
	unused := map[string]bool{}
	poolOf := map[string]string{}
	for _, p := range pools {
		if l := loads[p.Power.Name]; p.Slurm.Server && l.Nodes[string(power.Up)] > 0 {
			unused[p.Power.Name] = true
		}
		for _, n := range p.Power.Nodes {
			poolOf[n] = p.Power.Name
		}
	}
	for _, p := range pools {
		if l := loads[p.Power.Name]; l.Instances > 0 || len(l.Nodes) > 0 {
			for _, n := range p.Power.Needs {
				delete(unused, poolOf[n])
			}
		}
	}
	return unused
}

// evicting lists the notices under way, and their jobs.
func (d *Daemon) evicting(ctx context.Context, s *api.Status) error {
	st, err := d.store.LoadFT(ctx)
	if err != nil {
		return err
	}
	jobs := map[noticeKey][]api.EvictingJob{}
	for _, e := range st.Evictions {
		key := noticeKey{e.Instance, e.Kind}
		jobs[key] = append(jobs[key], api.EvictingJob{Job: e.Job, Stage: string(e.Stage)})
	}
	st.Notices = slices.DeleteFunc(st.Notices, func(n ft.Notice) bool { return n.Stage == ft.Foreign })
	slices.SortStableFunc(st.Notices, func(a, b ft.Notice) int {
		if a.Deadline.IsZero() != b.Deadline.IsZero() {
			return cmp.Compare(boolFloat(a.Deadline.IsZero()), boolFloat(b.Deadline.IsZero())) // those without one last
		}
		return a.Deadline.Compare(b.Deadline)
	})
	for _, n := range st.Notices[:min(len(st.Notices), api.MaxListed)] {
		s.Evicting = append(s.Evicting, api.Evicting{Node: n.Node, Instance: n.Instance, Kind: string(n.Kind), Deadline: n.Deadline,
			Stage: string(n.Stage), Jobs: jobs[noticeKey{n.Instance, n.Kind}]})
	}
	return nil
}
