package spending

import (
	"context"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/cloud/price"
	"github.com/burst-hpc/burst/cmd/internal/ledger"
	"github.com/burst-hpc/burst/cmd/internal/store"
	"github.com/burst-hpc/burst/slurm"
	"github.com/burst-hpc/burst/slurm/overflow/budget"
	"github.com/burst-hpc/burst/slurm/power"
)

var small = cloud.Offering{Type: "small", Market: cloud.Spot}

type books store.Spending

func (b books) Spending(context.Context, store.SpendingQuery) (store.Spending, error) {
	return store.Spending(b), nil
}

// site is a keeper of a pool p whose nodes may boot for 10 minutes, are idle for 5 and end in 1; an
// hour costs a dollar, of what is dear two, of what is odd nobody knows.
func site(caps budget.Caps, jobs ...slurm.Job) *Keeper {
	snap := &slurm.Snapshot{Taken: time.Now(), Jobs: map[uint32]slurm.Job{}}
	for _, j := range jobs {
		snap.Jobs[j.ID] = j
	}
	return &Keeper{Caps: caps, Pools: map[string]Times{"p": {Boot: 10 * time.Minute, Suspend: 5 * time.Minute, End: time.Minute}, "files": {Stays: true}},
		Price: func(_ string, o cloud.Offering) (float64, bool) {
			return map[string]float64{"small": 1, "dear": 2}[o.Type], o.Type != "asked"
		},
		Increment: func(string, cloud.Offering) price.Increment { return price.PerSecond }, Latest: func() *slurm.Snapshot { return snap }, Ledger: books{}}
}

func launchFor(pool string, job uint32, or ...string) (power.Standing, power.Launch) {
	l := power.Launch{Token: "t", Provider: "east", Nodes: []string{"c1"}, State: power.Written, Created: time.Now(), Request: cloud.LaunchRequest{Pool: pool, Offering: small}}
	for _, t := range or {
		l.Request.Or = append(l.Request.Or, cloud.Offering{Type: t, Market: cloud.Spot})
	}
	return power.Standing{Nodes: map[string]power.Node{"c1": {Name: "c1", Pool: pool, Phase: power.Wanted, Job: job}}}, l
}

func job(limit time.Duration) slurm.Job {
	return slurm.Job{ID: 7, User: "ann", Account: "physics", State: "CONFIGURING", Nodes: "c1", Start: time.Now(), TimeLimit: limit, Batch: true}
}

// noon has it be twelve o'clock now, so that nothing is cut at midnight.
func noon() *time.Location {
	now := time.Now().UTC()
	at := time.Date(now.Year(), now.Month(), now.Day(), 12, 0, 0, 0, time.UTC)
	return time.FixedZone("noon", int(at.Sub(now).Seconds()))
}

func TestAfford(t *testing.T) {
	day := func(usd float64) budget.Caps { return budget.Caps{Cluster: budget.Limits{Day: usd}, Location: noon()} }
	for _, c := range []struct {
		name  string
		caps  budget.Caps
		jobs  []slurm.Job
		own   func(slurm.Job) (Own, bool)
		pool  string
		or    []string
		why   string
		brief bool
	}{
		// 10 minutes of boot, 60 of the limit, 5 idle, 1 to end: 76.
		{name: "to its limit and after", caps: day(76. / 60), jobs: []slurm.Job{job(time.Hour)}},
		{name: "a little more", caps: day(75. / 60), jobs: []slurm.Job{job(time.Hour)}, why: "by the time limit this could cost 1.27"},
		{name: "the user's is the same", caps: budget.Caps{Users: map[string]budget.Limits{"ann": {Day: 1.25}}, Location: noon()}, jobs: []slurm.Job{job(time.Hour)}, why: "user ann's budget of 1.25 USD a day"},
		{name: "the dearest that it may get", caps: day(2), jobs: []slurm.Job{job(time.Hour)}, or: []string{"dear"}, why: "could cost 2.53"},
		{name: "a price that nobody knows", caps: day(200), jobs: []slurm.Job{job(time.Hour)}, or: []string{"dear", "odd"}, why: "the price of odd/spot is not known"},
		{name: "a price that is asked for", caps: day(200), jobs: []slurm.Job{job(time.Hour)}, or: []string{"asked"}, why: "is asked for", brief: true},
		{name: "no limit", caps: day(11), jobs: []slurm.Job{job(0)}, why: "to the month's end, as there is no time limit, this could cost "},
		{name: "a job that Slurm does not know", caps: day(11), why: "as there is no time limit"},
		{name: "a server of files", caps: day(11), pool: "files", why: "could cost "},
		{name: "its own budget", caps: budget.Caps{Location: noon()}, jobs: []slurm.Job{job(time.Hour)}, own: func(slurm.Job) (Own, bool) { return Own{USD: 1}, true }, why: "job 7's budget of 1.00 USD"},
		{name: "its own budget is enough", jobs: []slurm.Job{job(time.Hour)}, own: func(slurm.Job) (Own, bool) { return Own{USD: 2}, true }},
		{name: "its own budget and no limit", jobs: []slurm.Job{job(0)}, own: func(slurm.Job) (Own, bool) { return Own{USD: 2}, true }, why: "job 7 has budget=2 and no time limit"},
		{name: "its own budget is no amount", jobs: []slurm.Job{job(time.Hour)}, own: func(slurm.Job) (Own, bool) { return Own{Wrong: "much"}, true }, why: "job 7: much"},
		{name: "its own budget is being read", jobs: []slurm.Job{job(time.Hour)}, own: func(slurm.Job) (Own, bool) { return Own{}, false }, why: "is asked for its budget", brief: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			k := site(c.caps, c.jobs...)
			k.Own = c.own
			pool, id := c.pool, uint32(7)
			if pool == "" {
				pool = "p"
			} else {
				id = 0
			}
			s, l := launchFor(pool, id, c.or...)
			afford, err := k.Open(t.Context(), s)
			if err != nil {
				t.Fatal(err)
			}
			if r := afford(l); (r.Why == "") != (c.why == "") || !strings.Contains(r.Why, c.why) || r.Brief != c.brief {
				t.Errorf("%+v, want %q", r, c.why)
			}
		})
	}
}

// TestCommitted: what an instance can still cost, by how far it and its job are.
func TestCommitted(t *testing.T) {
	now := time.Now()
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	at := func(i power.Instance, more func(*power.Instance)) power.Instance {
		i.ID, i.Pool, i.Offering, i.Provider, i.Assigned = "i-1", "p", small, "east", "c1"
		if more != nil {
			more(&i)
		}
		return i
	}
	live := at(power.Instance{Instance: cloud.Instance{Launched: ago(20 * time.Minute)}}, nil)
	booting := at(power.Instance{Instance: cloud.Instance{Launched: ago(4 * time.Minute)}}, nil)
	gone := at(power.Instance{Instance: cloud.Instance{Launched: ago(20 * time.Minute), Ended: ago(5 * time.Minute)}, Gone: ago(4 * time.Minute)}, nil)
	open := func(to time.Duration, usd float64) []ledger.Row {
		return []ledger.Row{{Instance: "i-1", Job: 7, User: "ann", From: ago(20 * time.Minute), To: ago(to), Share: 1, Open: true, Price: ledger.Price{USDPerHour: usd}}}
	}
	runs, done, waits := job(time.Hour), job(time.Hour), job(time.Hour)
	waits.Start = ago(4 * time.Minute)
	requeued := waits
	requeued.State, requeued.Nodes = "PENDING", ""
	runs.State, runs.Start = "RUNNING", ago(15*time.Minute)
	done.State, done.End = "COMPLETED", ago(2*time.Minute)
	up := power.Node{Name: "c1", Pool: "p", Phase: power.Up, Instance: "i-1"}
	boots := power.Node{Name: "c1", Pool: "p", Phase: power.Booting, Instance: "i-1", Job: 7}
	for _, c := range []struct {
		name       string
		i          power.Instance
		node       power.Node
		jobs       []slurm.Job
		rows       []ledger.Row
		min        float64 // committed
		annMinutes float64
	}{
		{"it runs a job, nothing is booked", live, up, []slurm.Job{runs}, nil, 20 + 45 + 6, 20 + 45 + 6},
		{"it runs a job, most is booked", live, up, []slurm.Job{runs}, open(time.Minute, 1), 1 + 45 + 6, 1 + 45 + 6},
		{"it was dearer at its launch", live, up, []slurm.Job{runs}, open(time.Minute, 3), 3 * (1 + 45 + 6), 3 * (1 + 45 + 6)},
		{"it is idle", live, up, []slurm.Job{done}, open(time.Minute, 1), 1 + 6, 1},
		{"it boots for a job", booting, boots, []slurm.Job{waits}, nil, 10 + 60 + 6, 10 + 60 + 6},
		{"it boots for a job that was requeued", booting, boots, []slurm.Job{requeued}, nil, 10 + 60 + 6, 10 + 60 + 6},
		{"it ends", live, power.Node{}, nil, open(time.Minute, 1), 1 + 1, 1},
		{"it has ended, and is not booked", gone, power.Node{}, nil, nil, 15, 0},
		{"it has ended, and is booked in part", gone, power.Node{}, nil, open(10*time.Minute, 1), 5, 5},
	} {
		t.Run(c.name, func(t *testing.T) {
			k := site(budget.Caps{Cluster: budget.Limits{Day: 100}, Users: map[string]budget.Limits{"ann": {Day: 100}}, Location: noon()}, c.jobs...)
			k.Ledger = books{Instances: []power.Instance{c.i}, Rows: c.rows}
			s := power.Standing{Nodes: map[string]power.Node{"c1": c.node}, Instances: map[string]power.Instance{"i-1": c.i}}
			rows, err := k.Rows(t.Context(), s)
			if err != nil {
				t.Fatal(err)
			}
			if got := rows[0].Committed * 60; math.Abs(got-c.min) > 0.05 {
				t.Errorf("%.2f minutes are committed, want %g", got, c.min)
			}
			if got := rows[1].Committed * 60; math.Abs(got-c.annMinutes) > 0.05 {
				t.Errorf("%.2f minutes of the user's, want %g", got, c.annMinutes)
			}
		})
	}
}
