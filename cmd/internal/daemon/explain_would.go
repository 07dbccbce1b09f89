package daemon

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/cmd/internal/api"
	"github.com/burst-hpc/burst/cmd/internal/spending"
	"github.com/burst-hpc/burst/slurm"
	"github.com/burst-hpc/burst/slurm/directive"
	"github.com/burst-hpc/burst/slurm/overflow"
	"github.com/burst-hpc/burst/slurm/power"
)

// forever is longer than any rule has a job wait.
const forever = 10 * 365 * 24 * time.Hour

// explainWould says what would become of a job. It is put behind all that wait now, as if it had waited
// for longer than any rule asks: what then is said of it is what the rules say of it in the end.
func (d *Daemon) explainWould(ctx context.Context, ask api.ExplainAsk) (api.Explained, error) {
	w := waitingOf(*ask.Would, ask.By, d.userName(ctx, ask.By))
	shown, err := d.shownPartitions(ctx)
	if err != nil {
		return api.Explained{}, err
	}
	for _, name := range slices.Sorted(maps.Keys(shown)) {
		if w.Partition == "" && shown[name].Default {
			w.Partition = name
		}
	}
	own := strings.Split(w.Partition, ",")
	if w.TimeLimit == 0 {
		w.TimeLimit = shown[own[0]].Time // as Slurm will have it
	}
	if ask.Would.Nodes == 0 {
		w.NumNodes = shown[own[0]].NodesFor(w.CPUs)
		w.MaxNodes, w.Total = w.NumNodes, w.Memory*w.NumNodes
	}
	if w.Memory == 0 && !ask.Would.AllMemory {
		if err := d.defaultMemory(ctx, &w, shown[own[0]]); err != nil {
			return api.Explained{}, err
		}
	}
	f := facts{now: time.Now(), job: w.Job, all: ask.UID < 0, would: true}
	for _, name := range own {
		if _, known := shown[name]; !known {
			f.unknown = append(f.unknown, name)
		}
	}
	s, err := d.overflowNow(ctx, time.Now().Add(-overflowEvery))
	if err != nil {
		return api.Explained{}, err
	}
	parts := own
	if len(s.Rules) > 0 {
		now := s.Now
		w.Reason, w.Eligible, w.Start = "Resources", now.Add(-forever), now.Add(forever)
		s.Scripts = maps.Clone(s.Scripts)
		if s.Scripts == nil {
			s.Scripts = map[overflow.ScriptID]overflow.Script{}
		}
		s.Scripts[overflow.ScriptOf(w.Job)] = s.OnPrem.Read(ask.Would.Script)
		s.Waiting, s.Would = append(slices.Clone(s.Waiting), w), w.ID
		for _, dec := range overflow.Decide(s) {
			if dec.Job == nil || dec.Job.ID != w.ID {
				continue
			}
			f.decision = &dec
			for i, r := range s.Rules {
				if r.Name == dec.Rule && !stays(dec) {
					f.rule, parts = &s.Rules[i], append(slices.Clone(parts), r.To...)
				}
			}
		}
	}
	f.qos = w.QOS == "" && (slices.ContainsFunc(s.Rules, func(r overflow.Rule) bool { return len(r.QOS) > 0 }) ||
		slices.ContainsFunc(parts, func(name string) bool { return shown[name].QOS != nil || shown[name].NotFor["qos"] != nil }))
	for _, p := range d.cfg.Pools {
		if slices.Contains(own, p.Slurm.Partition) {
			f.pools = append(f.pools, p.Slurm.Partition)
			f.unfit = shown[p.Slurm.Partition].Fits(&w)
			f.lacks = cmp.Or(f.lacks, overflow.Lacks(d.cfg.Overflow.Shared[p.Slurm.Partition], &w))
		}
	}
	x := explainer{Daemon: d, now: f.now, all: f.all, stand: d.engine.Standing()}
	x.books = d.booksFor(ctx, x.stand, ownBudgetOf(*ask.Would), f.job)
	if err := x.wouldBe(&f, parts); err != nil {
		return api.Explained{}, err
	}
	return f.explained(), nil
}

// defaultMemory gives the job what memory it gets that does not say how much it needs: of its first partition, else of the cluster.
func (d *Daemon) defaultMemory(ctx context.Context, w *slurm.Waiting, p overflow.Partition) error {
	of := p.Memory
	if of == (overflow.DefaultMemory{}) {
		config, err := d.client.ShowConfig(ctx)
		if err != nil {
			return err
		}
		of = overflow.DefaultMemoryOf(config)
	}
	nodes := max(1, w.NumNodes)
	w.Memory = of.Node
	if of.CPU > 0 {
		w.Memory = of.CPU * max(w.MinCPUs, (w.CPUs+nodes-1)/nodes)
	}
	w.Total = w.Memory * nodes
	return nil
}

// stays says that no waiting changes the decision.
func stays(dec overflow.Decision) bool {
	return dec.Action == overflow.Leave && strings.HasPrefix(dec.Why, "stays: ")
}

// shownPartitions are Slurm's, as they were read within the last minute.
func (d *Daemon) shownPartitions(ctx context.Context) (map[string]overflow.Partition, error) {
	snap, err := d.watcher.Fresh(ctx, time.Now().Add(-overflowShown))
	if err != nil {
		return nil, err
	}
	return d.overflows.shownBy(ctx, d.client, snap)
}

// wouldBeJob is the id of a job that is not submitted: Slurm gives no job one as large.
const wouldBeJob = math.MaxUint32 - 2

// waitingOf is the job as squeue would show it.
func waitingOf(o api.Would, uid int, user string) slurm.Waiting {
	w := slurm.Waiting{Job: slurm.Job{ID: wouldBeJob, UID: uid, User: user, Account: o.Account, Partition: o.Partition, State: "PENDING", Batch: true, Requeue: !o.NoRequeue,
		NumNodes: max(1, o.Nodes), Features: o.Features, Required: o.Required, Comment: o.Comment, TimeLimit: o.Limit, Submitted: time.Now()},
		QOS: o.QOS, Priority: 1, Licenses: o.Licenses, MaxNodes: max(1, o.Nodes), Whole: o.Whole, WorkDir: o.WorkDir, Stdin: o.Stdin, Stdout: o.Stdout, Stderr: o.Stderr}
	w.Tasks = max(1, o.Tasks)
	w.MinCPUs = max(1, o.CPUs, o.MinCPUs)
	w.CPUs = max(max(1, o.Tasks)*max(1, o.CPUs), max(1, o.Nodes)*w.MinCPUs)
	w.Memory, w.Total = o.Memory, o.Memory*max(1, o.Nodes)
	w.PerNode, w.PerJob, w.PerTask, w.PerSocket, w.Reservation = o.PerNode, o.PerJob, o.PerTask, o.PerSocket, o.Reserved
	if o.Het {
		w.HetID = 1
	}
	if o.Held {
		w.Priority = 0
	}
	return w
}

// ownBudgetOf is budget= of the script or the comment.
func ownBudgetOf(o api.Would) *spending.Own {
	m, err := directive.Said{Script: o.Script, Comment: o.Comment}.Merge()
	if err != nil {
		return &spending.Own{} // it is said elsewhere
	}
	return &spending.Own{USD: m.Budget}
}

// booksFor opens the budget's books for the jobs, once, when they are asked.
func (d *Daemon) booksFor(ctx context.Context, s power.Standing, own *spending.Own, jobs ...slurm.Job) func() (*spending.Asked, error) {
	return sync.OnceValues(func() (*spending.Asked, error) { return d.keeper.Ask(ctx, s, own, jobs...) })
}

// wouldBe finds out where in these partitions the job's nodes would be launched now, at what price, and
// what forbids it.
func (x explainer) wouldBe(f *facts, partitions []string) error {
	nodes := max(1, f.job.NumNodes)
	for _, p := range x.cfg.Pools {
		if !slices.Contains(partitions, p.Slurm.Partition) || p.Slurm.Server {
			continue
		}
		closed, full := x.engine.Closed(p.Power.Name), x.full(p.Power.Nodes, nodes)
		for _, s := range p.Power.Sources() {
			now := x.engine.Now(s, nodes, f.now)
			first, noPrice := now.First, ""
			if len(now.Unpriced) > 0 {
				noPrice = fmt.Sprintf("no price is known of %s, and there is a budget", written(now.Unpriced))
			}
			place := api.Place{Partition: p.Slurm.Partition, Pool: p.Power.Name, Provider: s.Provider, Nodes: nodes, Forbidden: closed}
			switch {
			case closed != "":
			case nodes > len(p.Power.Nodes):
				place.Forbidden = fmt.Sprintf("the pool has %d nodes", len(p.Power.Nodes))
			case full != "":
				place.Forbidden = full
			case first == (cloud.Offering{}) && noPrice != "":
				place.Forbidden = "nothing that it may buy is to be had now: " + noPrice
			case first == (cloud.Offering{}):
				place.Forbidden = "nothing that it may buy is to be had now"
			case noPrice != "":
				f.cold = append(f.cold, fmt.Sprintf("pool %s, %s: %s", s.Name, s.Provider, noPrice))
			}
			for _, c := range now.Cold {
				f.cold = append(f.cold, fmt.Sprintf("pool %s, %s: %s: %s, not asked for before %s", s.Name, s.Provider, c.Offering, c.Why, clock(c.Until, f.now)))
			}
			if first != (cloud.Offering{}) {
				place.Offering, place.When = first.String(), whenAsked(now, f.now)
				if usd, when := x.priceOf(s.Provider, first); usd > 0 {
					usd *= float64(nodes)
					place.USDPerHour, place.Priced = &usd, when
				}
			}
			if x.keeper != nil && place.Forbidden == "" {
				books, err := x.books()
				if err != nil {
					return err
				}
				place.Forbidden = f.refused(books.Would(f.job, launchOf(s, first, nodes, f.now)))
			}
			f.places = append(f.places, place)
		}
	}
	// What may be launched comes first.
	slices.SortStableFunc(f.places, func(a, b api.Place) int {
		return cmp.Compare(boolFloat(a.Forbidden != ""), boolFloat(b.Forbidden != ""))
	})
	return nil
}

// whenAsked says when the first offering is asked for; "": at once.
func whenAsked(o power.Outlook, now time.Time) string {
	switch {
	case o.After == 0:
		return ""
	case o.First.Market == cloud.OnDemand:
		return fmt.Sprintf("when spot_timeout (%s) is over", short(o.After))
	}
	return "not before " + clock(now.Add(o.After), now)
}

func written(all []cloud.Offering) string {
	names := make([]string, len(all))
	for i, o := range all {
		names[i] = o.String()
	}
	return strings.Join(names, ", ")
}

// full says why Slurm has not as many nodes of the pool for a job now; "": it has, as far as is known. A node
// that has room beside its jobs counts as free.
func (x explainer) full(pool []string, nodes int) string {
	snap := x.watcher.Latest()
	if snap == nil {
		return ""
	}
	used, down := 0, 0
	for _, name := range pool {
		n, known := snap.Nodes[name]
		switch {
		case !known:
		case n.State.Base == "DOWN" || n.State.Has(slurm.Drain) || n.State.Has("FAIL"):
			down++
		case n.State.Base == "ALLOCATED" || n.State.Has("COMPLETING"):
			used++
		}
	}
	switch free := len(pool) - used - down; {
	case free >= nodes:
		return ""
	case used == 1 && len(pool) == 1:
		return "the pool's only node is in use"
	case used == len(pool):
		return fmt.Sprintf("all %d nodes of the pool are in use", len(pool))
	case free == 0:
		return fmt.Sprintf("all %d nodes of the pool are in use, down or drained", len(pool))
	default:
		return fmt.Sprintf("%d of the %d nodes of the pool are free", free, len(pool))
	}
}

func launchOf(s power.Pool, o cloud.Offering, nodes int, now time.Time) power.Launch {
	return power.Launch{Provider: s.Provider, State: power.Written, Created: now, Request: cloud.LaunchRequest{Pool: s.Name, Offering: o, Count: nodes, AllOrNothing: nodes > 1}}
}
