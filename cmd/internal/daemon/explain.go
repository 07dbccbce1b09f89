package daemon

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/cmd/internal/api"
	"github.com/burst-hpc/burst/cmd/internal/config"
	"github.com/burst-hpc/burst/cmd/internal/history"
	"github.com/burst-hpc/burst/cmd/internal/spending"
	"github.com/burst-hpc/burst/slurm"
	"github.com/burst-hpc/burst/slurm/hostlist"
	"github.com/burst-hpc/burst/slurm/overflow"
	"github.com/burst-hpc/burst/slurm/power"
)

const (
	explainedRows = 20  // of one array, at most
	explainBoots  = 200 // that tell how long a boot takes
)

// Explain says what a job waits for, what has become of it, or what would become of one.
func (d *Daemon) Explain(ctx context.Context, ask api.ExplainAsk) ([]api.Explained, error) {
	done, err := d.explains.take(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	if ask.Would != nil {
		e, err := d.explainWould(ctx, ask)
		return []api.Explained{e}, err
	}
	id, task, err := jobNamed(ask.Job)
	if err != nil {
		return nil, &api.Error{Status: http.StatusBadRequest, Message: err.Error()}
	}
	now := time.Now()
	snap, rows, err := d.rowsOf(ctx, now.Add(-2*time.Second), ask.UID, id, task)
	if err == nil && len(rows) == 0 { // it may have been submitted since
		snap, rows, err = d.rowsOf(ctx, now, ask.UID, id, task)
	}
	if err != nil {
		return nil, err
	}
	if len(rows) == 0 {
		return d.explainGone(ctx, ask, id, task)
	}
	x, err := d.newExplainer(ctx, ask.UID < 0, snap.Taken, rows)
	if err != nil {
		return nil, err
	}
	x.books = d.booksFor(ctx, x.stand, nil, rows[:min(len(rows), explainedRows)]...)
	var all []api.Explained
	for _, j := range rows[:min(len(rows), explainedRows)] {
		e, err := x.explain(ctx, j)
		if err != nil {
			return nil, err
		}
		all = append(all, e)
	}
	if more := len(rows) - len(all); more > 0 {
		all[len(all)-1].Details = append(all[len(all)-1].Details, fmt.Sprintf("%d more of its tasks are not shown: name one, as in %d_7", more, id))
	}
	return all, nil
}

// rowsOf are the rows of a job, or of one task of it, that Slurm has shown at since or later; a UID below 0 may see all.
func (d *Daemon) rowsOf(ctx context.Context, since time.Time, uid int, id uint32, task int) (snap *slurm.Snapshot, rows []slurm.Job, err error) {
	if snap, err = d.watcher.Fresh(ctx, since); err != nil {
		return nil, nil, err
	}
	for _, rowID := range slices.Sorted(maps.Keys(snap.Jobs)) {
		j := snap.Jobs[rowID]
		if j.ID != id && j.ArrayID != id && j.HetID != id || uid >= 0 && j.UID != uid || task >= 0 && !slices.Contains(j.ArrayTasks(), task) {
			continue
		}
		rows = append(rows, j)
	}
	return snap, rows, nil
}

// jobNamed reads "7" or "7_3".
func jobNamed(name string) (id uint32, task int, err error) {
	of, rest, isTask := strings.Cut(name, "_")
	n, err := strconv.ParseUint(of, 10, 32)
	if task = -1; err == nil && isTask {
		task, err = strconv.Atoi(rest)
	}
	if err != nil || n == 0 || isTask && task < 0 {
		return 0, 0, fmt.Errorf("%.40q is no job's id, as 17 or 17_3", name)
	}
	return uint32(n), task, nil
}

// explainGone tells of a job that Slurm does not show any more.
func (d *Daemon) explainGone(ctx context.Context, ask api.ExplainAsk, id uint32, task int) ([]api.Explained, error) {
	runs, err := d.Jobs(ctx, api.JobsQuery{Job: id, Last: explainedRows, UID: ask.UID})
	if err != nil {
		return nil, err
	}
	var all []api.Explained
	for _, r := range runs {
		if task < 0 || r.ArrayTask == strconv.Itoa(task) {
			all = append(all, api.Explained{Job: nameOfRun(r), User: r.User, State: r.State, Line: lineOfRun(r), Where: []api.Place{}, Details: []string{}})
		}
	}
	if len(all) == 0 {
		return nil, &api.Error{Status: http.StatusNotFound, Message: fmt.Sprintf("neither Slurm nor the history of Burst has a job %s, or it is another user's", ask.Job)}
	}
	return all, nil
}

// explainer has what is read once for all rows of a job.
type explainer struct {
	*Daemon
	now   time.Time
	all   bool // who asks may see all
	stand power.Standing
	holds map[uint32]power.Hold
	plan  map[uint32]overflow.Decision // by row
	boots map[string]time.Duration     // by pool, how long they take
	books func() (*spending.Asked, error)
}

// newExplainer is for rows that were read at the time taken.
func (d *Daemon) newExplainer(ctx context.Context, all bool, taken time.Time, rows []slurm.Job) (x explainer, err error) {
	x = explainer{Daemon: d, now: time.Now(), all: all, stand: d.engine.Standing(), holds: map[uint32]power.Hold{}, plan: map[uint32]overflow.Decision{}}
	for _, h := range d.engine.Health().Holds {
		x.holds[h.Job] = h
	}
	if x.boots, err = d.bootTimes(ctx); err != nil {
		return x, err
	}
	of := map[uint32]bool{}
	for _, j := range rows {
		if j.State == "PENDING" {
			of[j.ID] = true
		}
	}
	if len(of) == 0 {
		return x, nil
	}
	s, err := d.overflowNow(ctx, taken)
	if err != nil || len(s.Rules)+len(s.Records) == 0 {
		return x, err
	}
	plan := overflow.Decide(s)
	for _, dec := range plan {
		if dec.Job == nil || !dec.Script || !of[dec.Job.ID] || d.overflows.has(overflow.ScriptOf(dec.Job.Job)) || d.overflows.waits(asked{overflow.ScriptOf(dec.Job.Job), readIt}) {
			continue
		}
		if err := d.overflows.readScript(ctx, d.client, s.OnPrem, dec.Job.Job); err != nil && ctx.Err() != nil {
			return x, err
		}
		s.Scripts, s.Refused = d.overflows.kept(s.Waiting), d.overflows.refusedNow(s.Now)
		plan = overflow.Decide(s)
		break // the rows of an array have one script
	}
	for _, dec := range plan {
		if dec.Job != nil && of[dec.Job.ID] {
			x.plan[dec.Job.ID] = dec
		}
	}
	return x, nil
}

// overflowNow is what burstd's rules decide about now, or have at since or later; without rules and records Slurm is not asked.
func (d *Daemon) overflowNow(ctx context.Context, since time.Time) (s overflow.Snapshot, err error) {
	open, err := d.store.OpenOverflows(ctx)
	if err != nil || len(open)+len(d.cfg.Overflow.Rules) == 0 {
		return s, err
	}
	if s, err = d.lately(ctx, since); err != nil {
		return s, err
	}
	s.Rules, s.OnPrem, s.Shared = d.cfg.Overflow.Rules, d.cfg.Overflow.OnPrem, d.cfg.Overflow.Shared
	for _, r := range open {
		s.Records = append(s.Records, r.Record)
	}
	return s, nil
}

// bootTimes are the medians of what boots have lately taken that came up.
func (d *Daemon) bootTimes(ctx context.Context) (map[string]time.Duration, error) {
	last, err := d.store.Boots(ctx, "", 0, explainBoots)
	if err != nil {
		return nil, err
	}
	took := map[string][]time.Duration{}
	for _, b := range last {
		if b.Outcome == power.BootUp {
			took[b.Pool] = append(took[b.Pool], b.Total())
		}
	}
	of := map[string]time.Duration{}
	for pool, all := range took {
		slices.Sort(all)
		of[pool] = all[len(all)/2]
	}
	return of, nil
}

// explain says what is so of one row.
func (x explainer) explain(ctx context.Context, j slurm.Job) (api.Explained, error) {
	f := facts{now: x.now, job: j, boots: x.boots, all: x.all}
	if h, held := x.holds[j.ID]; held {
		f.hold = &h
	}
	switch {
	case j.State == "PENDING":
		parts := strings.Split(j.Partition, ",")
		if dec, has := x.plan[j.ID]; has {
			f.decision = &dec
			for _, r := range x.cfg.Overflow.Rules {
				if r.Name == dec.Rule && !stays(dec) {
					parts = append(parts, r.To...)
				}
			}
			parts = append(parts, dec.To...)
		}
		for _, p := range x.cfg.Pools {
			if slices.Contains(strings.Split(j.Partition, ","), p.Slurm.Partition) {
				f.pools = append(f.pools, p.Slurm.Partition)
			}
		}
		if err := x.wouldBe(&f, parts); err != nil {
			return api.Explained{}, err
		}
	case ended(j):
		runs, err := x.Jobs(ctx, api.JobsQuery{Job: j.ID, Last: explainedRows, UID: -1})
		if err != nil {
			return api.Explained{}, err
		}
		for i, r := range runs {
			if r.Job == j.ID && r.Over && r.User == j.User && !r.Ended.Before(j.Submitted) { // else it had the id before
				f.run = &runs[i]
			}
		}
	case j.State == "CONFIGURING" || history.HasSteps(j): // Slurm may show others with the nodes that they had
		f.nodes, f.places = x.has(j)
	}
	return f.explained(), nil
}

// has are the nodes of ours that the job has, or that were ordered for it, and where they are.
func (x explainer) has(j slurm.Job) (nodes []power.Node, places []api.Place) {
	names, err := hostlist.Expand(j.Nodes)
	if err != nil {
		names = nil
	}
	at := map[api.Place]int{}
	for _, name := range names {
		n, ours := x.stand.Nodes[name]
		if !ours {
			continue
		}
		nodes = append(nodes, n)
		p := api.Place{Pool: n.Pool, Partition: partitionOf(x.cfg.Pools, n.Pool)}
		var o = x.stand.Instances[n.Instance]
		if n.Instance != "" {
			p.Provider, p.Offering = o.Provider, o.Offering.String()
		}
		i, have := at[p]
		if !have {
			i, at[p] = len(places), len(places)
			places = append(places, p)
		}
		places[i].Nodes++
		if usd, when := x.priceOf(o.Provider, o.Offering); usd > 0 {
			sum := usd * float64(places[i].Nodes)
			places[i].USDPerHour, places[i].Priced = &sum, when
		}
	}
	return nodes, places
}

func partitionOf(pools []config.Pool, name string) string {
	for _, p := range pools {
		if p.Power.Name == name {
			return p.Slurm.Partition
		}
	}
	return ""
}

// priceOf is what an hour costs as far as it is known, and when that was so.
func (d *Daemon) priceOf(provider string, o cloud.Offering) (float64, time.Time) {
	if p := d.prices.price(provider, o); p.USDPerHour > 0 {
		return p.USDPerHour, p.Date
	}
	if usd, at := d.market.dated(provider, o); usd > 0 || o.Zone == "" {
		return usd, at
	}
	o.Zone = ""
	return d.market.dated(provider, o)
}

func nameOfRun(r api.Job) string {
	if r.ArrayJob != 0 && r.ArrayTask != "" {
		return fmt.Sprintf("%d_%s", r.ArrayJob, r.ArrayTask)
	}
	return fmt.Sprint(cmp.Or(r.Job, r.ArrayJob))
}
