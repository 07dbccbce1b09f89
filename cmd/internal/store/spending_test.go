package store

import (
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/burst-hpc/burst/cloud/price"
	"github.com/burst-hpc/burst/cmd/internal/ledger"
)

// TestSpending: rows are cut at the periods' ends, of each user and account, with the boots, and a job's
// are counted over all its attempts but not those of an older job of its id.
func TestSpending(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "burst.db"))
	unknown := usageRow("i-1", 7, 150, 200)
	unknown.Price = ledger.Price{}
	putInstances(t, s, machine("i-1", time.Time{}))
	putRows(t, s, usageRow("i-1", 0, 0, 50), usageRow("i-1", 7, 50, 150), unknown, usageRow("i-2", 8, 90, 120))
	if _, err := s.db.Exec(`INSERT INTO runs (job, submitted, whole, open, array, task, het, name, uid, user, account, partition, pool, types, nodes, vcpus, memory,
		network_gbit, storage_iops, started, begun, ran, seen, ended, state, exit, signal, restarts, method, label)
		VALUES (8, 1, 1, 0, 0, '', 0, '', 0, '', '', '', '', '', 1, 1, 1, 0, 0, 0, 0, 0, 0, ?, '', 0, 0, 0, '', '')`, fromTime(at.Add(100*time.Second))); err != nil {
		t.Fatal(err)
	}
	span := func(from, to int) price.Span {
		return price.Span{From: at.Add(time.Duration(from) * time.Second), To: at.Add(time.Duration(to) * time.Second)}
	}
	got, err := s.Spending(t.Context(), SpendingQuery{Periods: []price.Span{span(0, 100), span(100, 200), span(200, 300)}, Jobs: []uint32{7, 8, 9}})
	if err != nil {
		t.Fatal(err)
	}
	// A second costs 0.001 USD.
	want := map[string]Sums{"0/u7/a": {USD: 0.1}, "0/u8/a": {USD: 0.01}, "1/u7/a": {0.05, 50. / 3600}, "1/u8/a": {USD: 0.02}}
	if len(got.Spent) != len(want) || len(got.Instances) != 1 || len(got.Rows) != 4 {
		t.Errorf("%+v", got)
	}
	same := func(a, b Sums) bool { return math.Abs(a.USD-b.USD) < 1e-9 && math.Abs(a.Unpriced-b.Unpriced) < 1e-9 }
	for _, sp := range got.Spent {
		key := fmt.Sprintf("%d/%s/%s", sp.Period, sp.User, sp.Account)
		if !same(sp.Sums, want[key]) {
			t.Errorf("%s: %+v, want %+v", key, sp.Sums, want[key])
		}
	}
	if len(got.Jobs) != 2 || !same(got.Jobs[7], Sums{0.15, 50. / 3600}) || !same(got.Jobs[8], Sums{USD: 0.02}) {
		t.Errorf("jobs: %+v", got.Jobs)
	}
}

// spentPlainly sums up what the store does, row by row; rows are sorted. The second is of jobs.
func spentPlainly(rows []ledger.Row, q SpendingQuery) (map[string]Sums, map[uint32]Sums) {
	all, jobs := map[string]Sums{}, map[uint32]Sums{}
	for _, r := range rows {
		whose := r
		for _, o := range rows {
			earlier, better := !o.From.After(r.From), o.From.After(whose.From) || o.From.Equal(whose.From) && o.Job > whose.Job
			switch {
			case r.Job > 0 || o.Instance != r.Instance || o.Job == 0:
			case whose.Job == 0, earlier && whose.From.After(r.From), earlier && better:
				whose = o
			}
		}
		if o := q.Raised[r.Instance]; whose.Job == 0 {
			whose.Job, whose.User, whose.Account = o.Job, o.User, o.Account
		}
		sum := func(s Sums, from, to time.Time) Sums {
			hours := r.Share * to.Sub(from).Hours()
			if r.Price.Known() {
				return Sums{s.USD + hours*r.Price.USDPerHour, s.Unpriced}
			}
			return Sums{s.USD, s.Unpriced + hours}
		}
		for n, p := range q.Periods {
			from, to := r.From, r.To
			if from.Before(p.From) {
				from = p.From
			}
			if to.After(p.To) {
				to = p.To
			}
			if k := fmt.Sprintf("%d/%s/%s", n, whose.User, whose.Account); from.Before(to) {
				all[k] = sum(all[k], from, to)
			}
		}
		if slices.Contains(q.Jobs, whose.Job) {
			jobs[whose.Job] = sum(jobs[whose.Job], r.From, r.To)
		}
	}
	return all, jobs
}

// TestSpendingIsTheRows: the sums by day, of whatever zone, and what is read beside them come to what the rows are, also
// after rows were written twice and their prices have become known.
func TestSpendingIsTheRows(t *testing.T) {
	zones := zonesOf(t)
	s := open(t, filepath.Join(t.TempDir(), "burst.db"))
	rapid.Check(t, func(t *rapid.T) {
		if _, err := s.db.Exec(`DELETE FROM usage; DELETE FROM bills; DELETE FROM meta WHERE key = 'usage_zone'`); err != nil {
			t.Fatal(err)
		}
		s.days.zone = rapid.SampledFrom(zones).Draw(t, "zone")
		if err := s.keepDays(t.Context()); err != nil {
			t.Fatal(err)
		}
		q := SpendingQuery{Jobs: []uint32{1, 2, 3}, Raised: map[string]Owner{}}
		var rows []ledger.Row
		for n := range rapid.IntRange(1, 5).Draw(t, "instances") {
			mine := drawInstance(t, n)
			put(t, s, mine)
			if rapid.Bool().Draw(t, "priced later") {
				late := ledger.Late(mine, ledger.Price{USDPerHour: 2, Source: "table"})
				put(t, s, late)
				for _, r := range late {
					mine[slices.IndexFunc(mine, func(o ledger.Row) bool { return o.From.Equal(r.From) && o.Job == r.Job })] = r
				}
			}
			if open := mine[len(mine)-1].Open; open && rapid.Bool().Draw(t, "raised for a job") {
				q.Raised[mine[0].Instance] = Owner{3, "u9", "chem"}
			}
			rows = append(rows, mine...)
		}
		zone := rapid.SampledFrom(zones).Draw(t, "the budget's zone")
		for range 4 {
			from := time.Date(2026, 3, 26+rapid.IntRange(0, 9).Draw(t, "day"), 0, 0, 0, 0, zone)
			q.Periods = append(q.Periods, price.Span{From: from, To: from.AddDate(0, 0, rapid.IntRange(1, 8).Draw(t, "days"))})
		}
		q.Beside = rapid.Bool().Draw(t, "beside")
		got, err := s.Spending(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		want, jobs := spentPlainly(rows, q)
		near := func(a, b Sums) bool {
			return math.Abs(a.USD-b.USD) < 1e-9 && math.Abs(a.Unpriced-b.Unpriced) < 1e-9 && (a.Unpriced > 0) == (b.Unpriced > 0)
		}
		for _, sp := range got.Spent {
			k := fmt.Sprintf("%d/%s/%s", sp.Period, sp.User, sp.Account)
			if !near(sp.Sums, want[k]) {
				t.Fatalf("%s: %+v, and the rows come to %+v", k, sp.Sums, want[k])
			}
			delete(want, k)
		}
		for k, w := range want {
			if !near(w, Sums{}) {
				t.Fatalf("%s is missing: %+v", k, w)
			}
		}
		if !maps.EqualFunc(got.Jobs, jobs, near) {
			t.Fatalf("jobs: %+v, and the rows come to %+v", got.Jobs, jobs)
		}
	})
}

// TestSpendingOfAnOlderJournal: what was booked before the sums had for whom boots were counts to them too.
func TestSpendingOfAnOlderJournal(t *testing.T) {
	path := filepath.Join(t.TempDir(), "burst.db")
	db, run := ofVersion(t, path, 15)
	for _, row := range []struct {
		job   int
		user  string
		began int
	}{{0, "", 0}, {7, "ann", 3600}} {
		from := at.Add(time.Duration(row.began) * time.Second)
		run(`INSERT INTO usage (`+rowColumns+`) VALUES ('i-1', 'east', 'p', 'm', '', 'spot', 'c1', ?, -1, ?, '', ?, ?, 1, 2, 0, 'table', NULL, 0)`,
			row.job, row.user, fromTime(from), fromTime(from.Add(time.Hour)))
	}
	run(`INSERT OR REPLACE INTO meta (key, value) VALUES ('usage_zone', ?)`, calendar{time.Local}.print())
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	day := calendar{time.Local}.begin(calendar{time.Local}.day(fromTime(at)))
	got, err := open(t, path).Spending(t.Context(), SpendingQuery{Periods: []price.Span{{From: toTime(day), To: toTime(day).Add(96 * time.Hour)}}})
	if err != nil {
		t.Fatal(err)
	}
	for _, sp := range got.Spent {
		if want := map[string]float64{"ann": 4}[sp.User]; math.Abs(sp.USD-want) > 1e-9 {
			t.Errorf("%q: %+v, want %g", sp.User, sp.Sums, want)
		}
	}
	if len(got.Spent) == 0 {
		t.Error("nothing is spent")
	}
}
