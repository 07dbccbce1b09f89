package store

import (
	"cmp"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/cmd/internal/ledger"
	"github.com/burst-hpc/burst/slurm/power"
)

// drawInstance draws an instance's rows, over some days, and whether it is at its end.
func drawInstance(t *rapid.T, n int) []ledger.Row {
	at := time.Date(2026, 3, 27, 0, 0, 0, 0, time.UTC).Add(time.Duration(rapid.IntRange(0, 96).Draw(t, "launch")) * time.Hour)
	first := ledger.Row{Instance: fmt.Sprintf("i-%02d", n), Provider: rapid.SampledFrom([]string{"east", "lon"}).Draw(t, "provider"),
		Pool: rapid.SampledFrom([]string{"p", "q"}).Draw(t, "pool"), Node: "c1",
		Offering: cloud.Offering{Type: "m", Zone: rapid.SampledFrom([]string{"", "a"}).Draw(t, "zone"), Market: cloud.Spot}}
	var rows []ledger.Row
	for range rapid.IntRange(1, 5).Draw(t, "pieces") {
		end := at.Add(time.Duration(rapid.SampledFrom([]int{1, 60, 3600, 86400, 100_000, 250_000}).Draw(t, "seconds")) * time.Second)
		jobs := rapid.IntRange(1, 2).Draw(t, "jobs")
		var price ledger.Price
		if rapid.Bool().Draw(t, "priced") {
			price = ledger.Price{USDPerHour: 1.7, Source: "table"}
		}
		before := 0
		for range jobs {
			r := first
			r.From, r.To, r.Share, r.Price, r.UID = at, end, 1/float64(jobs), price, -1
			r.USDPerHourOnDemand = rapid.SampledFrom([]float64{0, 3}).Draw(t, "on demand")
			if job := rapid.IntRange(0, 6).Draw(t, "job"); job > 0 && job != before || jobs > 1 {
				job += 10 * before // another one than the other
				before = job + 1
				r.Job, r.UID = uint32(job+1), 1000+job%3
				r.User, r.Account = fmt.Sprint("u", job%3), rapid.SampledFrom([]string{"", "phys"}).Draw(t, "account")
			}
			rows = append(rows, r)
		}
		at = end
	}
	if rapid.IntRange(0, 3).Draw(t, "goes on") == 0 {
		last := rows[len(rows)-1].From
		for i := range rows {
			rows[i].Open = rows[i].From.Equal(last)
		}
	}
	return rows
}

// plainly sums up what the store sums up, row by row.
func plainly(days calendar, rows []ledger.Row, q UsageQuery) []Usage {
	all, met := map[string]*Usage{}, map[string]bool{}
	for _, r := range rows {
		from, to := r.From, r.To
		if from.Before(q.Since) {
			from = q.Since
		}
		if !q.Until.IsZero() && to.After(q.Until) {
			to = q.Until
		}
		for from.Before(to) && (q.UID < 0 || r.UID == q.UID) {
			end := to
			if q.By == "day" { // no zone's day begins within a quarter of an hour
				const quarter = 15 * time.Minute
				for end = from.Truncate(quarter).Add(quarter); end.Before(to) && end.In(days.zone).Day() == from.In(days.zone).Day(); {
					end = end.Add(quarter)
				}
				if end.After(to) {
					end = to
				}
			}
			key := map[string]string{"job": fmt.Sprint(r.Job), "user": r.User, "account": r.Account, "pool": r.Pool, "provider": r.Provider,
				"offering": "m/a/spot", "day": from.In(days.zone).Format(time.DateOnly)}[q.By]
			switch {
			case q.By == "offering" && r.Offering.Zone == "":
				key = "m/spot"
			case q.By == "account" && r.Job > 0 && key == "":
				key = "(none)"
			case q.By == "job" && r.Job == 0:
				key = ""
			}
			u := all[key]
			if u == nil {
				u = &Usage{Key: key}
				all[key] = u
			}
			s := r.Share * end.Sub(from).Seconds()
			u.Seconds += s
			u.USD += s * r.Price.USDPerHour / 3600
			u.OnDemand += s * r.USDPerHourOnDemand / 3600
			if !r.Price.Known() {
				u.Unpriced += s
			}
			if r.USDPerHourOnDemand == 0 {
				u.Unknown += s
			}
			if !met[key+r.Instance] {
				met[key+r.Instance] = true
				u.Instances++
			}
			from = end
		}
	}
	var sums []Usage
	for _, u := range all {
		sums = append(sums, *u)
	}
	return sums
}

// zonesOf are zones of which some change their clocks in the days of the drawn instances: Berlin's go ahead at 2, the Azores' at
// midnight, so that a day has none, and Santiago's go back at midnight, which is then an hour later.
func zonesOf(t *testing.T) []*time.Location {
	return []*time.Location{time.UTC, mustZone(t, "Europe/Berlin"), mustZone(t, "Asia/Kathmandu"), mustZone(t, "Atlantic/Azores"), mustZone(t, "America/Santiago")}
}

// TestDaysBegin at their first moment, also where clocks go forward or back at midnight, or a day is left out.
func TestDaysBegin(t *testing.T) {
	for _, c := range []struct{ zone, day, begin string }{
		{"America/Santiago", "2026-09-06", "2026-09-06T04:00:00Z"}, // 24:00 is 01:00
		{"America/Santiago", "2026-04-05", "2026-04-05T04:00:00Z"}, // 24:00 was 23:00
		{"America/Havana", "2026-03-08", "2026-03-08T05:00:00Z"},
		{"America/Havana", "2026-11-01", "2026-11-01T04:00:00Z"}, // 01:00 is 00:00 once more
		{"Atlantic/Azores", "2026-03-29", "2026-03-29T01:00:00Z"},
		{"Atlantic/Azores", "2026-10-25", "2026-10-25T00:00:00Z"},
		{"Asia/Beirut", "2026-03-29", "2026-03-28T22:00:00Z"},
		{"Pacific/Apia", "2011-12-31", "2011-12-30T10:00:00Z"}, // the 30th was left out
		{"Pacific/Apia", "2011-12-30", "2011-12-30T10:00:00Z"},
	} {
		days := calendar{mustZone(t, c.zone)}
		date, err := time.Parse(time.DateOnly, c.day)
		if err != nil {
			t.Fatal(err)
		}
		if got := toTime(days.begin(int(date.Unix() / 86400))).UTC().Format(time.RFC3339); got != c.begin {
			t.Errorf("%s of %s begins at %s, want %s", c.day, c.zone, got, c.begin)
		}
	}
	for _, zone := range append(zonesOf(t), mustZone(t, "America/Havana"), mustZone(t, "America/Nuuk"), mustZone(t, "Africa/Cairo"), mustZone(t, "Asia/Beirut")) {
		days := calendar{zone}
		for day := 20000; day < 23000; day++ { // to 2032
			if at := days.begin(day); days.day(at) != day || days.day(at-1) != day-1 {
				t.Errorf("%s of %s begins at %v", days.date(day), zone, toTime(at).UTC())
			}
		}
	}
}

// TestSumsAreTheRows: whatever is asked, the sums by day and what is read beside them come to
// what the rows are, also after rows were written twice, and the zone has changed.
func TestSumsAreTheRows(t *testing.T) {
	zones := zonesOf(t)
	path := filepath.Join(t.TempDir(), "burst.db")
	s := open(t, path)
	rapid.Check(t, func(t *rapid.T) {
		if _, err := s.db.Exec(`DELETE FROM usage; DELETE FROM bills; DELETE FROM meta WHERE key = 'usage_zone'`); err != nil {
			t.Fatal(err)
		}
		s.days.zone = rapid.SampledFrom(zones).Draw(t, "zone")
		if err := s.keepDays(t.Context()); err != nil {
			t.Fatal(err)
		}
		var rows []ledger.Row
		for n := range rapid.IntRange(1, 5).Draw(t, "instances") {
			mine := drawInstance(t, n)
			rows = append(rows, mine...)
			if rapid.Bool().Draw(t, "in two") { // it was open for a while
				early := slices.Clone(mine[:rapid.IntRange(1, len(mine)).Draw(t, "rows")])
				early[len(early)-1].Open = true
				put(t, s, early)
			}
			for range rapid.IntRange(1, 2).Draw(t, "times") {
				put(t, s, mine)
			}
		}
		if rapid.IntRange(0, 3).Draw(t, "anew") == 0 {
			s.days.zone = rapid.SampledFrom(zones).Draw(t, "new zone")
			if err := s.keepDays(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		for range 3 {
			q := UsageQuery{By: rapid.SampledFrom([]string{"job", "user", "account", "pool", "provider", "offering", "day"}).Draw(t, "by"),
				UID: rapid.SampledFrom([]int{-1, -1, 1000, 1001}).Draw(t, "uid")}
			point := func(name string) time.Time {
				day := time.Date(2026, 3, 26+rapid.IntRange(0, 9).Draw(t, name), 0, 0, 0, 0, s.days.zone)
				return day.Add(time.Duration(rapid.SampledFrom([]int{0, 0, 1, 7200, 50_000}).Draw(t, "after midnight")) * time.Second)
			}
			q.Since = point("since")
			if rapid.Bool().Draw(t, "bounded") {
				q.Until = point("until")
			}
			got, err := s.Usage(t.Context(), q)
			if err != nil {
				t.Fatal(err)
			}
			checkSums(t, got, plainly(s.days, rows, q))
		}
	})
}

func put(t *rapid.T, s *Store, rows []ledger.Row) {
	if err := s.PutUsage(t.Context(), rows); err != nil {
		t.Fatal(err)
	}
}

func mustZone(t *testing.T, name string) *time.Location {
	t.Helper()
	zone, err := time.LoadLocation(name)
	if err != nil {
		t.Fatal(err)
	}
	return zone
}

func checkSums(t *rapid.T, got, want []Usage) {
	byKey := func(a, b Usage) int { return cmp.Compare(a.Key, b.Key) }
	slices.SortFunc(got, byKey)
	slices.SortFunc(want, byKey)
	near := func(a, b float64) bool { return math.Abs(a-b) < 1e-6 }
	if !slices.EqualFunc(got, want, func(a, b Usage) bool {
		return a.Key == b.Key && a.Instances == b.Instances && near(a.Seconds, b.Seconds) && near(a.USD, b.USD) && near(a.Unpriced, b.Unpriced) &&
			near(a.OnDemand, b.OnDemand) && near(a.Unknown, b.Unknown)
	}) {
		t.Fatalf("it is\n%+v\nand the rows come to\n%+v", got, want)
	}
}

// TestIdleTimeIsToldApart by when Slurm had the node, and when the cloud says that it ended.
func TestIdleTimeIsToldApart(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "burst.db"))
	hour := func(n float64) time.Time { return at.Add(time.Duration(n * float64(time.Hour))) }
	gone, never, live := machine("i-1", hour(2.5)), machine("i-2", hour(0.5)), machine("i-3", time.Time{})
	never.Assigned, live.Assigned = "c2", "c3"
	files := machine("i-5", hour(4)) // a server of files
	files.Assigned, files.Serves = "c5", true
	boots := []power.Boot{{Node: "c1", Order: "o1", Instance: "i-1", Ordered: at, Registered: hour(0.25)}, {Node: "c2", Order: "o1", Instance: "i-2", Ordered: at},
		{Node: "c3", Order: "o1", Instance: "i-3", Ordered: at, Registered: hour(0.5)},
		{Node: "c5", Order: "o1", Instance: "i-5", Ordered: at, Registered: hour(1)}}
	if err := s.CommitPower(t.Context(), power.Change{Instances: []power.Instance{gone, never, live, files}, Boots: boots}); err != nil {
		t.Fatal(err)
	}
	row := func(id, node string, job uint32, from, to float64, open bool) ledger.Row {
		r := usageRow(id, job, 0, 0)
		r.Node, r.From, r.To, r.Open = node, hour(from), hour(to), open
		return r
	}
	rows := []ledger.Row{row("i-1", "c1", 0, 0, 0.5, false), row("i-1", "c1", 7, 0.5, 1.5, false), row("i-1", "c1", 0, 1.5, 3, false),
		row("i-2", "c2", 0, 0, 1, false), row("i-3", "c3", 0, 0, 2, true), row("i-4", "c4", 0, 0, 5, false)}
	putRows(t, s, append(rows, row("i-5", "c5", 0, 0, 3, true))...)
	check := func(when string, served float64) {
		t.Helper()
		got, err := s.Usage(t.Context(), UsageQuery{By: "provider", UID: -1})
		if err != nil || len(got) != 1 {
			t.Fatal(got, err)
		}
		u := func(hours float64) Unused { return Unused{hours * 3600, hours * 3.6} }
		near := func(a, b Unused) bool { return math.Abs(a.Seconds-b.Seconds) < 1e-6 && math.Abs(a.USD-b.USD) < 1e-9 }
		// i-1: booted for 0.25 h, i-2, which Slurm never had, for its 0.5 h, i-3 for 0.5 h. Of i-4 nobody knows.
		// i-5 booted for 1 h, and served after that.
		if g := got[0]; !near(g.Boot, u(1.25+1)) || !near(g.Idle, u(0.25+1+1.5)) || !near(g.Rest, u(1)) || !near(g.Serve, u(served)) {
			t.Errorf("%s: %+v", when, g)
		}
	}
	check("at first", 2)
	putRows(t, s, row("i-5", "c5", 0, 0, 4, false))
	check("when the server has ended", 3)
	if _, err := s.db.Exec(`DELETE FROM instances WHERE gone > 0; DELETE FROM boots WHERE node <> 'c3'; DELETE FROM meta WHERE key = 'usage_zone'`); err != nil {
		t.Fatal(err)
	}
	if err := s.keepDays(t.Context()); err != nil {
		t.Fatal(err)
	}
	check("when the journal has forgotten the instances, and the sums are made anew", 3)
}
