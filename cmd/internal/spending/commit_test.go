package spending

import (
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/cmd/internal/ledger"
	"github.com/burst-hpc/burst/slurm"
	"github.com/burst-hpc/burst/slurm/overflow/budget"
	"github.com/burst-hpc/burst/slurm/power"
)

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
