package spending

import (
	"context"
	"log/slog"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/cloud/price"
	"github.com/burst-hpc/burst/cmd/internal/store"
	"github.com/burst-hpc/burst/slurm"
	"github.com/burst-hpc/burst/slurm/overflow/budget"
	"github.com/burst-hpc/burst/slurm/power"
)

var small = cloud.Offering{Type: "small", Market: cloud.Spot}

type books store.Spending

// asked is a ledger that keeps what it was asked.
type asked struct{ q *store.SpendingQuery }

func (a asked) Spending(_ context.Context, q store.SpendingQuery) (store.Spending, error) {
	*a.q = q
	return store.Spending{}, nil
}

// TestRaisedFor: the ledger is told for whom an instance boots, of which it has no job yet.
func TestRaisedFor(t *testing.T) {
	var q store.SpendingQuery
	k := site(budget.Caps{Location: noon()}, job(time.Hour))
	k.Ledger = asked{&q}
	if _, err := k.Rows(t.Context(), power.Standing{Nodes: map[string]power.Node{"c1": {Name: "c1", Pool: "p", Phase: power.Booting, Instance: "i-1", Job: 7}, "c2": {Name: "c2", Instance: "i-2"}}}); err != nil {
		t.Fatal(err)
	}
	if want := (store.Owner{Job: 7, User: "ann", Account: "physics"}); len(q.Raised) != 1 || q.Raised["i-1"] != want {
		t.Errorf("%+v", q.Raised)
	}
}

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
		Increment: func(string, cloud.Offering) price.Increment { return price.PerSecond }, Latest: func() *slurm.Snapshot { return snap }, Ledger: books{}, Log: slog.New(slog.DiscardHandler)}
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
		{name: "a little more", caps: day(75. / 60), jobs: []slurm.Job{job(time.Hour)}, why: "by the time limit this could cost more than all of it"},
		{name: "the user's is the same", caps: budget.Caps{Users: map[string]budget.Limits{"ann": {Day: 1.25}}, Location: noon()}, jobs: []slurm.Job{job(time.Hour)}, why: "user ann's budget for "},
		{name: "the dearest that it may get", caps: day(2), jobs: []slurm.Job{job(time.Hour)}, or: []string{"dear"}, why: "could cost more than all of it"},
		{name: "a price that nobody knows", caps: day(200), jobs: []slurm.Job{job(time.Hour)}, or: []string{"dear", "odd"}, why: "the price of odd/spot is not known"},
		{name: "a price that is asked for", caps: day(200), jobs: []slurm.Job{job(time.Hour)}, or: []string{"asked"}, why: "is asked for", brief: true},
		{name: "no limit", caps: day(11), jobs: []slurm.Job{job(0)}, why: "as there is no time limit, this could cost more than all of it"},
		{name: "a job that Slurm does not know", caps: day(11), why: "as there is no time limit"},
		{name: "a server of files", caps: day(11), pool: "files", why: "could cost more"},
		{name: "its own budget", caps: budget.Caps{Location: noon()}, jobs: []slurm.Job{job(time.Hour)}, own: func(slurm.Job) (Own, bool) { return Own{USD: 1}, true }, why: "job 7's budget: by the time limit"},
		{name: "its own budget is enough", jobs: []slurm.Job{job(time.Hour)}, own: func(slurm.Job) (Own, bool) { return Own{USD: 2}, true }},
		{name: "its own budget and no limit", jobs: []slurm.Job{job(0)}, own: func(slurm.Job) (Own, bool) { return Own{USD: 2}, true }, why: "job 7 has a budget= and no time limit"},
		{name: "its own budget is no amount", jobs: []slurm.Job{job(time.Hour)}, own: func(slurm.Job) (Own, bool) { return Own{Wrong: "much"}, true }, why: "job 7: much"},
		{name: "its own budget is being read", jobs: []slurm.Job{job(time.Hour)}, own: func(slurm.Job) (Own, bool) { return Own{}, false }, why: "is being read, which may name a budget of its own", brief: true},
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

// TestSlurmHasNotAnswered: before Slurm has told of jobs nothing is judged, and what boots does not count as endless.
func TestSlurmHasNotAnswered(t *testing.T) {
	k := site(budget.Caps{Cluster: budget.Limits{Day: 5}, Location: noon()})
	k.Latest = func() *slurm.Snapshot { return nil }
	s, l := launchFor("p", 7)
	s.Launches = map[string]power.Launch{l.Token: l}
	if _, err := k.Open(t.Context(), s); err == nil {
		t.Error("a launch may be judged")
	}
	rows, err := k.Rows(t.Context(), s)
	if err != nil || math.Abs(rows[0].Committed*60-16) > 0.05 { // the boot, idle, the end
		t.Errorf("%+v, %v", rows, err)
	}
}

// TestWould: a job without nodes is judged as if its launch were written, by each cap that it would count to, and
// nothing of it is left.
func TestWould(t *testing.T) {
	j := job(time.Hour)
	j.ID, j.State, j.Nodes, j.Start = 99, "PENDING", "", time.Now().Add(72*time.Hour) // Slurm's estimate
	for _, c := range []struct {
		name string
		caps budget.Caps
		own  *Own
		why  string
	}{
		{name: "room", caps: budget.Caps{Cluster: budget.Limits{Day: 2 * 76. / 60}, Location: noon()}},
		{name: "none of the cluster's", caps: budget.Caps{Cluster: budget.Limits{Day: 2*76./60 - 0.05}, Location: noon()}, why: "the cluster's budget"},
		{name: "none of the user's", caps: budget.Caps{Users: map[string]budget.Limits{"ann": {Day: 2}}, Location: noon()}, why: "user ann's budget"},
		{name: "none of its own", caps: budget.Caps{Location: noon()}, own: &Own{USD: 2}, why: "job 99's budget"},
		{name: "no caps", own: &Own{USD: 3}},
	} {
		t.Run(c.name, func(t *testing.T) {
			k := site(c.caps)
			_, l := launchFor("p", 7)
			l.Request.Count, l.Nodes = 2, nil
			var q store.SpendingQuery
			k.Ledger = asked{&q}
			a, err := k.Ask(t.Context(), power.Standing{}, c.own, j)
			if err != nil || !q.Beside || (c.own != nil) != slices.Contains(q.Jobs, j.ID) {
				t.Fatalf("%+v, %v", q, err)
			}
			for range 2 {
				if r := a.Would(j, l); (r.Why == "") != (c.why == "") || !strings.HasPrefix(r.Why, c.why) {
					t.Errorf("%+v, want %q", r, c.why)
				}
			}
			if snap := k.Latest(); snap != nil && len(snap.Jobs) > 0 {
				t.Error("it is among Slurm's jobs")
			}
		})
	}
}

// TestPriced: what is not sold is known by its price.
func TestPriced(t *testing.T) {
	k := site(budget.Caps{})
	for name, want := range map[string]bool{"small": true, "odd": false, "asked": true} {
		if k.Priced("east", cloud.Offering{Type: name}) != want {
			t.Errorf("%s: %v", name, !want)
		}
	}
	if k.Caps.Unknown = 3; !k.Priced("east", cloud.Offering{Type: "odd"}) {
		t.Error("unknown_price is no price")
	}
}
