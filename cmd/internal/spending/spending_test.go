package spending

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
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

// TestAheadOfAnInterruption: a node that is raised in place of another is judged for the jobs there, with all of their time
// limits anew beside what they have, and nobody is told to wait for it. It counts to them from then on.
func TestAheadOfAnInterruption(t *testing.T) {
	running := func(id uint32, user, node string) slurm.Job {
		return slurm.Job{ID: id, User: user, Account: "physics", State: "RUNNING", Nodes: node, Start: time.Now().Add(-30 * time.Minute), TimeLimit: time.Hour}
	}
	jobs := []slurm.Job{running(7, "ann", "c9"), running(8, "ann", "c8"), running(9, "bob", "c7"), {ID: 5, User: "bob", State: "COMPLETED", Nodes: "c1", End: time.Now()}}
	ann := func(usd float64) budget.Caps {
		return budget.Caps{Users: map[string]budget.Limits{"ann": {Day: usd}}, Location: noon()}
	}
	for _, c := range []struct {
		name string
		caps budget.Caps
		own  float64 // of job 7
		old  string  // in whose place c1 is raised
		two  bool    // and c2 in that of c8
		why  string
		more string // of c2
	}{
		{name: "in nobody's place", caps: ann(0.01)},
		{name: "in the place of another user's", caps: ann(0.01), old: "c7"},
		{name: "the user's cap has no room", caps: ann(0.01), old: "c9", why: "user ann's budget for "},
		// 10 minutes of boot, 60 of the limit, 5 idle, 1 to end: 76.
		{name: "it has", caps: ann(76. / 60), old: "c9"},
		{name: "a little less", caps: ann(75. / 60), old: "c9", why: "user ann's budget for "},
		{name: "the job's own has none", own: 1, caps: budget.Caps{Location: noon()}, old: "c9", why: "job 7's budget: "},
		{name: "it has room for one of two", caps: ann(2), old: "c9", two: true, more: "user ann's budget for "},
		{name: "for both", caps: ann(3), old: "c9", two: true},
		{name: "of an instance that is gone", caps: ann(0.01), old: "c6"},
	} {
		t.Run(c.name, func(t *testing.T) {
			k := site(c.caps, jobs...)
			k.Own = func(j slurm.Job) (Own, bool) {
				if j.ID == 7 {
					return Own{USD: c.own}, true
				}
				return Own{}, true
			}
			k.InPlaceOf = func(node string) string { return map[string]string{"c1": c.old, "c2": "c8"}[node] }
			s, l := launchFor("p", 0)
			for _, node := range []string{"c9", "c8", "c7"} {
				s.Nodes[node] = power.Node{Name: node, Pool: "p", Phase: power.Up}
			}
			s.Nodes["c2"] = power.Node{Name: "c2", Pool: "p", Phase: power.Wanted}
			second := l
			second.Token, second.Nodes = "u", []string{"c2"}
			afford, err := k.Open(t.Context(), s)
			if err != nil {
				t.Fatal(err)
			}
			want := []string{c.why}
			got := []power.Refusal{afford(l)}
			if c.two {
				want, got = append(want, c.more), append(got, afford(second))
				// One that is in the journal counts as much.
				s.Launches = map[string]power.Launch{"t": l}
				if afford, err = k.Open(t.Context(), s); err != nil {
					t.Fatal(err)
				}
				want, got = append(want, c.more), append(got, afford(second))
			}
			for i, r := range got {
				if (r.Why == "") != (want[i] == "") || !strings.HasPrefix(r.Why, want[i]) || len(r.Of) > 0 {
					t.Errorf("%d: %+v, want %q", i, r, want[i])
				}
			}
			if c.old != "" && !c.two {
				a, err := k.Ask(t.Context(), power.Standing{Nodes: s.Nodes}, nil)
				if err != nil {
					t.Fatal(err)
				}
				l.Request.Count = 1
				if r := a.WouldInPlaceOf(c.old, l); r.Why != got[0].Why {
					t.Errorf("asked ahead it is %+v", r)
				}
			}
		})
	}
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
	runs, done, waits, older := job(time.Hour), job(time.Hour), job(time.Hour), job(time.Hour)
	older.State, older.Start, older.End = "COMPLETED", ago(40*time.Minute), ago(25*time.Minute)
	waits.Start = ago(4 * time.Minute)
	requeued := waits
	requeued.State, requeued.Nodes = "PENDING", ""
	ahead := requeued
	ahead.Start = now.Add(72 * time.Hour) // --begin, or Slurm's estimate
	runs.State, runs.Start = "RUNNING", ago(15*time.Minute)
	done.State, done.End = "COMPLETED", ago(2*time.Minute)
	up := power.Node{Name: "c1", Pool: "p", Phase: power.Up, Instance: "i-1"}
	boots := power.Node{Name: "c1", Pool: "p", Phase: power.Booting, Instance: "i-1", Job: 7}
	made := func(at time.Time) power.Node {
		n := boots
		n.Made = at
		return n
	}
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
		{"it is idle", live, up, []slurm.Job{done}, open(time.Minute, 1), 1 + 6, 1 + 6},
		{"it is idle, and the job had the node before", live, up, []slurm.Job{older}, nil, 20 + 6, 0},
		{"it boots for a job", booting, boots, []slurm.Job{waits}, nil, 10 + 60 + 6, 10 + 60 + 6},
		{"it boots for a job that was requeued", booting, boots, []slurm.Job{requeued}, nil, 10 + 60 + 6, 10 + 60 + 6},
		{"it boots for a job that was requeued for later", booting, boots, []slurm.Job{ahead}, nil, 10 + 60 + 6, 10 + 60 + 6},
		{"it boots for a job that was cancelled, and Slurm has forgotten", booting, made(ago(4 * time.Minute)), nil, nil, 10 + 6, 0},
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

// TestBuildersCount: an instance of which an image is made counts to the cluster, once, for as long as it may live.
func TestBuildersCount(t *testing.T) {
	now := time.Now()
	i := power.Instance{Provider: "east", Instance: cloud.Instance{ID: "i-9", Token: cloud.BuilderToken(now.Add(time.Hour)), Pool: "p", Offering: small, Launched: now.Add(-20 * time.Minute)}}
	for name, c := range map[string]struct {
		known []power.Instance
		min   float64
	}{"it lives": {nil, 80}, "it is booked by now": {[]power.Instance{func() power.Instance {
		gone := i
		gone.Gone, gone.Ended = now, now
		return gone
	}()}, 20}} {
		k := site(budget.Caps{Cluster: budget.Limits{Day: 100}, Users: map[string]budget.Limits{"ann": {Day: 100}}, Location: noon()})
		k.Ledger = books{Instances: c.known}
		rows, err := k.Rows(t.Context(), power.Standing{Builders: []power.Instance{i}})
		if err != nil {
			t.Fatal(err)
		}
		if got := rows[0].Committed * 60; math.Abs(got-c.min) > 0.05 || rows[1].Committed > 0 {
			t.Errorf("%s: %.2f minutes are committed, want %g; and %g USD of ann's", name, got, c.min, rows[1].Committed)
		}
		k.Ledger = books{}
		i.Offering.Type = "other"
		for unknown, want := range map[float64]bool{0: false, 3: true} {
			k.Caps.Unknown = unknown
			if rows, err := k.Rows(t.Context(), power.Standing{Builders: []power.Instance{i}}); err != nil || rows[0].Committed > 0 != want || rows[0].Unpriced > 0 {
				t.Errorf("%s: without a price, with unknown_price %g: %+v, %v", name, unknown, rows[0], err)
			}
		}
		i.Offering, k.Caps.Unknown, k.Ledger = small, 0, books{Instances: c.known}
		if real, err := k.Real(t.Context(), power.Standing{Builders: []power.Instance{i}}); err != nil || c.known == nil && real[0].Committed > 0 {
			t.Errorf("%s: what is not booked is no reason to end jobs: %+v, %v", name, real, err)
		}
	}
}

// TestBuildersCloseNoNodes: what an image could come to cost takes no node from jobs; what it has cost is spent.
func TestBuildersCloseNoNodes(t *testing.T) {
	now := time.Now()
	i := power.Instance{Provider: "east", Instance: cloud.Instance{ID: "i-9", Token: cloud.BuilderToken(now.Add(time.Hour)), Pool: "p", Offering: small, Launched: now.Add(-20 * time.Minute)}}
	for _, c := range []struct {
		name  string
		spent float64
		live  []power.Instance
		want  bool
	}{
		{"there is room", 0.1, []power.Instance{i}, false},
		{"only the builder is too much", 0.9, []power.Instance{i}, false},
		{"what is spent is too much", 1.1, []power.Instance{i}, true},
		{"and there is no builder", 1.1, nil, true},
	} {
		k := site(budget.Caps{Cluster: budget.Limits{Day: 1}, Location: noon()})
		k.Ledger = books{Spent: []store.Spent{{Sums: store.Sums{USD: c.spent}}}}
		s := power.Standing{Builders: c.live}
		rows, err := k.Rows(t.Context(), s)
		if err != nil {
			t.Fatal(err)
		}
		r, is, err := k.Exceeded(t.Context(), s, rows)
		if err != nil || is != c.want || is && (r.Spent != c.spent || r.Committed > 0) {
			t.Errorf("%s: %t, %+v, %v", c.name, is, r, err)
		}
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

// TestAnAnswerBetweenTheLooks: a launch that is answered after the engine was looked at and before the ledger
// is read counts once.
func TestAnAnswerBetweenTheLooks(t *testing.T) {
	k := site(budget.Caps{Cluster: budget.Limits{Day: 100}, Location: noon()}, job(time.Hour))
	s, l := launchFor("p", 7)
	s.Launches = map[string]power.Launch{l.Token: l}
	committed := func() float64 {
		rows, err := k.Rows(t.Context(), s)
		if err != nil {
			t.Fatal(err)
		}
		return rows[0].Committed * 60
	}
	if got := committed(); math.Abs(got-76) > 0.05 {
		t.Errorf("the launch counts %.2f minutes", got)
	}
	i := power.Instance{Provider: "east", Assigned: "c1", Instance: cloud.Instance{ID: "i-1", Pool: "p", Offering: small, Token: l.Token, Launched: time.Now()}}
	k.Ledger = books{Instances: []power.Instance{i}}
	if got := committed(); math.Abs(got-76) > 0.05 {
		t.Errorf("with its instance it counts %.2f minutes", got)
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

// TestNoLimitLateInAMonth: a job without a time limit is judged by the next month too.
func TestNoLimitLateInAMonth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(27 * 24 * time.Hour)           // the 28th of January, of 2000
		for usd, why := range map[float64]string{ // an hour costs a dollar, to the 31st 96 are left, February has 696
			600: "the cluster's budget for 2000-02: as there is no time limit, this could cost more than all of it",
			700: "",
		} {
			k := site(budget.Caps{Cluster: budget.Limits{Month: usd}}, job(0))
			s, l := launchFor("p", 7)
			afford, err := k.Open(t.Context(), s)
			if err != nil {
				t.Fatal(err)
			}
			if r := afford(l); r.Why != why {
				t.Errorf("%g: %+v", usd, r)
			}
		}
	})
}

// TestWhoseBudgetItIs: of jobs that share a node those are refused of whom the budget is, each for its own reason, and
// of the cluster's those without whom the others would fit.
func TestWhoseBudgetItIs(t *testing.T) {
	of := func(id uint32, user, account string, limit time.Duration) slurm.Job {
		j := job(limit)
		j.ID, j.User, j.Account = id, user, account
		return j
	}
	ann, bob := of(7, "ann", "physics", time.Hour), of(8, "bob", "maths", time.Hour)
	user := func(usd ...float64) budget.Caps {
		caps := budget.Caps{Users: map[string]budget.Limits{}, Location: noon()}
		for n, usd := range usd {
			caps.Users[[]string{"ann", "bob"}[n]] = budget.Limits{Day: usd}
		}
		return caps
	}
	for _, c := range []struct {
		name string
		caps budget.Caps
		jobs []slurm.Job
		own  map[uint32]Own
		want string
	}{
		{"room for both", user(2, 2), []slurm.Job{ann, bob}, nil, ""},
		{"the second user's", user(2, 1), []slurm.Job{ann, bob}, nil, "8 never user bob's"},
		{"the second account's", budget.Caps{Accounts: map[string]budget.Limits{"maths": {Day: 1}}, Location: noon()}, []slurm.Job{ann, bob}, nil, "8 never account maths's"},
		{"an account's, in whatever letters", budget.Caps{Accounts: map[string]budget.Limits{"maths": {Day: 1}}, Location: noon()}, []slurm.Job{ann, of(8, "bob", "Maths", time.Hour)}, nil, "8 never account maths's"},
		{"both users'", user(1, 1), []slurm.Job{ann, bob}, nil, "7 never user ann's, 8 never user bob's"},
		{"two jobs of a user", user(1), []slurm.Job{ann, of(9, "ann", "physics", time.Hour), bob}, nil, "7 never user ann's, 9 never user ann's"},
		{"a job's own", user(2), []slurm.Job{ann, bob}, map[uint32]Own{8: {USD: 1}}, "8 never job 8's"},
		{"a wrong line", user(2), []slurm.Job{ann, bob}, map[uint32]Own{8: {Wrong: "much"}}, "8 never job 8: much"},
		{"a wrong line, and a user's", user(1), []slurm.Job{ann, bob, of(9, "cat", "", time.Hour)}, map[uint32]Own{8: {Wrong: "much"}}, "8 never job 8: much, 7 never user ann's"},
		{"a job's own, and no limit, that the cluster's has no room for either", budget.Caps{Cluster: budget.Limits{Day: 5}, Location: noon()},
			[]slurm.Job{ann, of(8, "bob", "maths", 0)}, map[uint32]Own{8: {USD: 1}}, "8 never job 8 has a"},
		{"the cluster's, for what one needs", budget.Caps{Cluster: budget.Limits{Day: 2}, Location: noon()}, []slurm.Job{ann, of(8, "bob", "maths", 3*time.Hour), of(9, "cat", "", 4*time.Hour)}, nil,
			"8 never the cluster's, 9 never the cluster's"},
		{"the cluster's, for all", budget.Caps{Cluster: budget.Limits{Day: 1}, Location: noon()}, []slurm.Job{ann, bob}, nil, "7 never the cluster's, 8 never the cluster's"},
	} {
		t.Run(c.name, func(t *testing.T) {
			k := site(c.caps, c.jobs...)
			k.Own = func(j slurm.Job) (Own, bool) { return c.own[j.ID], true }
			s, l := launchFor("p", 7)
			afford, err := k.Open(t.Context(), s)
			if err != nil {
				t.Fatal(err)
			}
			r := afford(l)
			var got []string
			for _, of := range r.Of {
				whose, _, _ := strings.Cut(of.Why, " budget")
				got = append(got, fmt.Sprint(of.Job, map[bool]string{true: " never "}[of.Never], whose))
			}
			if got := strings.Join(got, ", "); got != c.want || (r.Why == "") != (c.want == "") {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// TestAccountsInWhateverLetters: what is booked and what is committed counts to the account.
func TestAccountsInWhateverLetters(t *testing.T) {
	j := job(time.Hour)
	j.Account = "Physics"
	k := site(budget.Caps{Accounts: map[string]budget.Limits{"physics": {Day: 20}}, Location: noon()}, j)
	k.Ledger = books{Spent: []store.Spent{{User: "ann", Account: "PHYSICS", Sums: store.Sums{USD: 2}}}}
	s, l := launchFor("p", 7)
	s.Launches = map[string]power.Launch{l.Token: l}
	rows, err := k.Rows(t.Context(), s)
	if err != nil || len(rows) != 1 || rows[0].Spent != 2 || rows[0].Committed == 0 {
		t.Errorf("%+v, %v", rows, err)
	}
	j.State = "RUNNING"
	if got := Counting(rows, map[uint32]slurm.Job{7: j}, func(string) bool { return true }); len(got) != 1 {
		t.Errorf("%+v", got)
	}
}

// TestAfterTheLimit: what Slurm lets jobs take after their time limits counts.
func TestAfterTheLimit(t *testing.T) {
	for _, c := range []struct {
		name           string
		over           time.Duration
		endless, known bool
		usd            float64 // of the cap
		why            string
	}{
		{"it fits", 10 * time.Minute, false, true, 86.1 / 60, ""},
		{"it does not", 10 * time.Minute, false, true, 85.9 / 60, "by the time limit"},
		{"without an end", 0, true, true, 11, "as there is no time limit"},
		{"not known yet", 0, false, false, 11, "not known yet"},
	} {
		t.Run(c.name, func(t *testing.T) {
			k := site(budget.Caps{Cluster: budget.Limits{Day: c.usd}, Location: noon()}, job(time.Hour))
			k.Over = func(string) (time.Duration, bool, bool) { return c.over, c.endless, c.known }
			s, l := launchFor("p", 7)
			afford, err := k.Open(t.Context(), s)
			if !c.known {
				if err == nil || !strings.Contains(err.Error(), c.why) {
					t.Error(err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if r := afford(l); (r.Why == "") != (c.why == "") || !strings.Contains(r.Why, c.why) {
				t.Errorf("%+v", r)
			}
		})
	}
}

// TestAWholeCapIsNotAskedForAgain: what is booked does not get less; what is only committed may.
func TestAWholeCapIsNotAskedForAgain(t *testing.T) {
	for usd, sure := range map[float64]bool{2: true, 1.9: false} {
		k := site(budget.Caps{Users: map[string]budget.Limits{"ann": {Day: 2}}, Location: noon()}, job(time.Hour))
		k.Ledger = books{Spent: []store.Spent{{User: "ann", Sums: store.Sums{USD: usd}}}}
		s, l := launchFor("p", 7)
		afford, err := k.Open(t.Context(), s)
		if err != nil {
			t.Fatal(err)
		}
		if r := afford(l); len(r.Of) != 1 || r.Of[0].Sure != sure || r.Of[0].Never || !r.Of[0].Until.Equal(k.Caps.Day(time.Now()).To) {
			t.Errorf("%g are spent of 2: %+v", usd, r)
		}
	}
}

// TestAMixedPartitionIsTriedAgain: a job whose only partition has nodes of the site as well is tried again though the cap is booked
// full: by its start it would wait for those, too.
func TestAMixedPartitionIsTriedAgain(t *testing.T) {
	for partition, sure := range map[string]bool{"cloud": true, "any": false, "cloud,any": false, "site,any": true, "site,cloud": true} {
		j := job(time.Hour)
		j.Partition = partition
		k := site(budget.Caps{Users: map[string]budget.Limits{"ann": {Month: 2}}, Location: noon()}, j)
		k.Latest().Nodes = map[string]slurm.Node{"c1": {Partitions: []string{"cloud", "any"}}, "on1": {Partitions: []string{"any"}}, "on2": {Partitions: []string{"site"}}}
		k.Cloud = func(n string) bool { return n == "c1" }
		k.Ledger = books{Spent: []store.Spent{{Period: 2, User: "ann", Sums: store.Sums{USD: 2}}}}
		s, l := launchFor("p", 7)
		afford, err := k.Open(t.Context(), s)
		if err != nil {
			t.Fatal(err)
		}
		if r := afford(l); len(r.Of) != 1 || r.Of[0].Sure != sure {
			t.Errorf("%s: %+v", partition, r)
		}
	}
}
