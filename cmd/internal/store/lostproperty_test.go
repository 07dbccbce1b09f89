package store

import (
	"context"
	"database/sql"
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/burst-hpc/burst/cmd/internal/history"
	"github.com/burst-hpc/burst/cmd/internal/ledger"
	"github.com/burst-hpc/burst/ft"
)

// lostWorld is what is written of some jobs, each thing in its order.
type lostWorld struct {
	strands [][]func(s *Store) error
	orderly bool // no id is used twice, and no row goes on beyond its run
	ends    []time.Time
}

// drawLostWorld draws runs of several attempts, the rows of their instances, which are booked late, longer, or priced
// later, what their steps and evictions tell, and runs that are opened again.
func drawLostWorld(t *rapid.T) *lostWorld {
	w := &lostWorld{orderly: rapid.Bool().Draw(t, "orderly")}
	begin := time.Date(2026, 3, 27, 0, 0, 0, 0, time.UTC)
	free := map[uint32]time.Time{}
	for n := range rapid.IntRange(1, 6).Draw(t, "runs") {
		job := uint32(n + 1)
		if !w.orderly {
			job = uint32(rapid.IntRange(1, 2).Draw(t, "job"))
		}
		at := begin
		if free[job].After(at) {
			at = free[job]
		}
		free[job] = w.run(t, n, job, at.Add(time.Duration(rapid.SampledFrom([]int{0, 1, 600, 7200, 86_400, 200_000}).Draw(t, "gap"))*time.Second))
	}
	return w
}

// run draws one run from at on, and returns its end.
func (w *lostWorld) run(t *rapid.T, n int, job uint32, at time.Time) time.Time {
	uid := rapid.IntRange(1000, 1002).Draw(t, "uid")
	r := history.Run{Job: job, Submitted: at, Started: at, UID: uid, User: fmt.Sprint("u", uid), Pool: rapid.SampledFrom([]string{"p", "q", ""}).Draw(t, "pool"),
		Account: rapid.SampledFrom([]string{"", "phys"}).Draw(t, "account"), Open: true, State: "RUNNING"}
	var book []func(s *Store) error
	runs := []func(s *Store) error{puts(r)}
	tell := func(f func(s *Store) error) { runs = append(runs, f) }
	attempts := rapid.IntRange(1, 3).Draw(t, "attempts")
	for i := range attempts {
		end := at.Add(time.Duration(rapid.SampledFrom([]int{60, 5000, 86_400, 300_000}).Draw(t, "seconds")) * time.Second)
		for k := range rapid.IntRange(0, 2).Draw(t, "instances") {
			book = append(book, w.instance(t, fmt.Sprintf("i-%d-%d-%d", n, i, k), r, at, end)...)
		}
		r.Begun, r.Restarts = at, i
		lost, wrote := w.seconds(t, "lost"), w.seconds(t, "writing")
		told := r
		if i+1 < attempts {
			r.Ran += end.Sub(at)
			at = end.Add(w.seconds(t, "wait"))
			if rapid.Bool().Draw(t, "closed in between") {
				told.Ended, told.Open = end, false
				tell(puts(told))
			}
			r.Submitted = told.Submitted
			tell(func(s *Store) error { // and nobody knows of some what they lost
				e := ft.Eviction{Instance: fmt.Sprint("i-", n), Kind: ft.Died, Job: job, Restarts: told.Restarts, Stage: ft.Done, Began: at, Ending: ft.Moved, Lost: lost - 1, LostIterations: -1}
				return s.CommitFT(context.Background(), ft.Change{Evictions: []ft.Eviction{e}})
			})
			r.Restarts = i + 1
			tell(puts(r))
		} else {
			r.Ended = end
		}
		if rapid.Bool().Draw(t, "a step tells") {
			tell(func(s *Store) error { stepEnds(t, s, told, lost, wrote); return nil })
		}
	}
	if rapid.IntRange(0, 4).Draw(t, "it waits") == 0 { // requeued, and forgotten by Slurm
		r.Ran, r.Begun, r.Ended, r.Restarts = r.Ran+r.Ended.Sub(r.Begun), time.Time{}, r.Ended.Add(w.seconds(t, "waiting")), r.Restarts+1
	}
	if rapid.IntRange(0, 5).Draw(t, "goes on") > 0 {
		r.Open, r.State = false, "COMPLETED"
		w.ends = append(w.ends, r.Ended)
	}
	for range rapid.IntRange(1, 2).Draw(t, "times") {
		tell(puts(r))
	}
	w.strands = append(w.strands, runs, book)
	return r.Ended
}

func (w *lostWorld) seconds(t *rapid.T, what string) time.Duration {
	return time.Duration(rapid.SampledFrom([]int{0, 1, 50, 3000, 90_000}).Draw(t, what)) * time.Second
}

func puts(r history.Run) func(s *Store) error {
	return func(s *Store) error { return s.PutRuns(context.Background(), []history.Run{r}) }
}

// instance draws how the rows of an instance are written that an attempt has from from to to.
func (w *lostWorld) instance(t *rapid.T, id string, r history.Run, from, to time.Time) []func(s *Store) error {
	idle := ledger.Row{Instance: id, Provider: rapid.SampledFrom([]string{"east", "lon"}).Draw(t, "provider"), Pool: rapid.SampledFrom([]string{"p", "p", "q"}).Draw(t, "its pool"), Offering: spot, Node: "c1", UID: -1, Share: 1,
		From: from.Add(-90 * time.Second), To: from}
	of := idle
	of.Job, of.UID, of.User, of.Account = r.Job, r.UID, r.User, r.Account
	if !w.orderly && rapid.Bool().Draw(t, "late") { // Slurm had not told of its end
		to = to.Add(time.Minute)
	}
	rows := []ledger.Row{idle}
	for _, end := range []time.Time{from.Add(to.Sub(from) / 3), to} {
		of.From, of.To, of.Share = rows[len(rows)-1].To, end, 1
		if shared := rapid.IntRange(0, 3).Draw(t, "shared") == 0; shared {
			of.Share = 0.5
			other := of
			other.Job, other.UID, other.User = 99, 1099, "u99"
			rows = append(rows, other)
		}
		rows = append(rows, of)
	}
	idle.From, idle.To = to, to.Add(5*time.Minute)
	rows = append(rows, idle)
	for i := range rows {
		rows[i].Price = ledger.Price{USDPerHour: rapid.SampledFrom([]float64{0.3, 1.7, 40}).Draw(t, "price"), Source: "table"}
	}
	write := func(rows []ledger.Row) func(s *Store) error {
		return func(s *Store) error { return s.PutUsage(context.Background(), rows) }
	}
	var all []func(s *Store) error
	if rapid.Bool().Draw(t, "in two") { // it is open for a while, and the last row shorter
		early := slices.Clone(rows[:rapid.IntRange(1, len(rows)).Draw(t, "rows")])
		last := &early[len(early)-1]
		last.Open, last.To = true, last.From.Add(last.To.Sub(last.From)/2)
		all = append(all, write(early))
	}
	if rapid.Bool().Draw(t, "priced later") {
		unpriced := slices.Clone(rows)
		for i := range unpriced {
			unpriced[i].Price = ledger.Price{}
		}
		all = append(all, write(unpriced))
	}
	if rapid.IntRange(0, 3).Draw(t, "lives") == 0 {
		rows[len(rows)-1].Open = true
	}
	return append(all, write(rows))
}

// shareOf is which part of a time in seconds was taken.
func shareOf(took time.Duration, seconds float64) float64 {
	if seconds <= 0 {
		return 0
	}
	return min(1, max(0, took).Seconds()/seconds)
}

// secondsWith is for how long there is any of the rows.
func secondsWith(rows []ledger.Row) (seconds float64) {
	var cuts []time.Time
	for _, r := range rows {
		cuts = append(cuts, r.From, r.To)
	}
	slices.SortFunc(cuts, time.Time.Compare)
	for i := 1; i < len(cuts); i++ {
		if slices.ContainsFunc(rows, func(r ledger.Row) bool { return !r.From.After(cuts[i-1]) && !r.To.Before(cuts[i]) }) {
			seconds += cuts[i].Sub(cuts[i-1]).Seconds()
		}
	}
	return seconds
}

// plainlyLost is what evictions and checkpoints took by key, run by run and row by row: a row is the run's in which it began.
func plainlyLost(t *rapid.T, s *Store, q UsageQuery) map[string][2]Unused {
	all, err := query(t.Context(), s.db, `SELECT `+runColumns+`, ranks, computing, checkpoints, writing, evictions, lost, lost_unknown, lost_iterations, iteration FROM runs`, scanTold)
	if err != nil {
		t.Fatal(err)
	}
	rows, err := query(t.Context(), s.db, `SELECT `+rowColumns+` FROM usage WHERE job > 0`, scanUsage)
	if err != nil {
		t.Fatal(err)
	}
	sums := map[string][2]Unused{}
	for _, r := range all {
		if r.Open || r.Ended.Before(q.Since) || !q.Until.IsZero() && !r.Ended.Before(q.Until) || q.UID >= 0 && r.UID != q.UID || r.Time() <= 0 {
			continue
		}
		var before time.Time
		for _, b := range all {
			if b.Job == r.Job && b.Submitted.Before(r.Submitted) && b.Ended.After(before) {
				before = b.Ended
			}
		}
		var its []ledger.Row
		for _, u := range rows {
			if u.Job == r.Job && u.From.After(before) && !u.From.After(r.Ended) && u.To.After(r.Started) {
				its = append(its, u)
			}
		}
		of := r.Time().Seconds()
		if r.Evictions > 0 {
			of = min(of, secondsWith(its))
		}
		parts := [2]float64{shareOf(r.Lost, of), shareOf(r.Writing, r.Time().Seconds())}
		for _, u := range its {
			key := map[string]string{"job": fmt.Sprint(r.Job), "user": r.User, "account": r.Account, "pool": u.Pool, "day": r.Ended.In(s.days.zone).Format(time.DateOnly)}[q.By]
			if q.By == "account" && key == "" {
				key = "(none)"
			}
			seconds := u.Share * u.To.Sub(u.From).Seconds()
			both := sums[key]
			for i, part := range parts {
				both[i] = Unused{both[i].Seconds + part*seconds, both[i].USD + part*seconds*u.Price.USDPerHour/3600}
			}
			sums[key] = both
		}
	}
	if q.By == "provider" || q.By == "offering" {
		clear(sums)
	}
	return sums
}

// lostByDays is the same as it was once summed up at each question: a run has what its job had on its days.
func lostByDays(t *rapid.T, s *Store, q UsageQuery) map[string][2]Unused {
	var u usageSums
	u.UsageQuery, u.days, u.rows = q, s.days, map[string]*Usage{}
	end := int64(math.MaxInt64)
	if !q.Until.IsZero() {
		end = fromTime(q.Until)
	}
	type lostRun struct {
		part
		from, to            int
		lost, writing, wall float64
		evicted             bool
	}
	runs, err := query(t.Context(), s.db, `SELECT job, user, account, pool, started, ended, max(lost, 0), max(writing, 0), ran + iif(begun > 0, ended - begun, 0), evictions > 0
		FROM runs WHERE NOT open AND ended >= ?1 AND ended < ?2 AND (lost > 0 OR writing > 0) AND (?3 < 0 OR uid = ?3)`, func(scan scanner) (r lostRun, err error) {
		var started, ended int64
		err = scan(&r.job, &r.user, &r.account, &r.pool, &started, &ended, &r.lost, &r.writing, &r.wall, &r.evicted)
		r.from, r.to, r.day = s.days.day(started), s.days.day(ended), s.days.day(ended)
		return r, err
	}, max(0, fromTime(q.Since)), end, q.UID)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range runs {
		rows, err := query(t.Context(), s.db, `SELECT `+rowColumns+` FROM usage WHERE job = ?`, scanUsage, r.job)
		if err != nil {
			t.Fatal(err)
		}
		of := r.wall / 1e6
		if r.evicted {
			of = min(of, secondsWith(rows))
		}
		lost, writing := shareOf(us(int64(r.lost)), of), shareOf(us(int64(r.writing)), r.wall/1e6)
		its := func(text string, args ...any) {
			if _, err := query(t.Context(), s.db, text, func(scan scanner) (none struct{}, err error) {
				var sum Unused
				err = scan(&r.pool, &sum.Seconds, &sum.USD)
				row := u.row(r.part)
				row.Lost = Unused{row.Lost.Seconds + lost*sum.Seconds, row.Lost.USD + lost*sum.USD}
				row.Checkpoints = Unused{row.Checkpoints.Seconds + writing*sum.Seconds, row.Checkpoints.USD + writing*sum.USD}
				return none, err
			}, args...); err != nil {
				t.Fatal(err)
			}
		}
		its(`SELECT pool, sum(seconds), sum(usd) FROM usage_jobs j JOIN usage_dims d ON d.id = j.dim WHERE job = ? AND day >= ? AND day <= ? GROUP BY pool`, r.job, r.from, r.to)
		its(`SELECT pool, sum(share * (until - began) / 1e6), sum(share * (until - began) * coalesce(usd_per_hour, 0) / 3.6e9)
			FROM usage WHERE instance IN (SELECT instance FROM usage WHERE open) AND job = ? AND until >= ? AND began < ? GROUP BY pool`, r.job, s.days.begin(r.from), s.days.begin(r.to+1))
	}
	sums := map[string][2]Unused{}
	for _, r := range u.rows {
		sums[r.Key] = plusLost(sums[r.Key], *r)
	}
	if q.By == "provider" || q.By == "offering" {
		clear(sums)
	}
	return sums
}

func plusLost(a [2]Unused, u Usage) [2]Unused {
	return [2]Unused{{a[0].Seconds + u.Lost.Seconds, a[0].USD + u.Lost.USD}, {a[1].Seconds + u.Checkpoints.Seconds, a[1].USD + u.Checkpoints.USD}}
}

// sameLost says whether two such sums are the same, but for keys that have nothing.
func sameLost(a, b map[string][2]Unused) bool {
	for k := range maps.Keys(a) {
		for i := range 2 {
			if math.Abs(a[k][i].Seconds-b[k][i].Seconds) > 1e-6 || math.Abs(a[k][i].USD-b[k][i].USD) > 1e-6 {
				return false
			}
		}
	}
	return len(a) >= len(b) || sameLost(b, a)
}

// checkLost compares what the store says of evictions and checkpoints, of drawn spans, with the rows.
func checkLost(t *rapid.T, s *Store, w *lostWorld) {
	if n := rowsWhere(t, s, `lost_days WHERE runs <= 0`); n > 0 {
		t.Fatalf("%d sums are of no run", n)
	}
	// Of a run that is closed, and goes on as the ledger has it, the days have too much until it is opened again.
	byDays := w.orderly && rowsWhere(t, s, `usage u JOIN runs r ON r.job = u.job WHERE NOT r.open AND u.began > r.ended`) == 0
	for _, by := range []string{"job", "user", "account", "pool", "day", "provider", "offering"} {
		q := UsageQuery{By: by, UID: rapid.SampledFrom([]int{-1, -1, 1000, 1001, 5}).Draw(t, "asked uid")}
		point := func(name string) time.Time {
			if len(w.ends) > 0 && rapid.IntRange(0, 2).Draw(t, "at an end") == 0 {
				return rapid.SampledFrom(w.ends).Draw(t, name).Add(time.Duration(rapid.IntRange(-1, 1).Draw(t, "off")) * time.Microsecond)
			}
			day := time.Date(2026, 3, 26+rapid.IntRange(0, 20).Draw(t, name), 0, 0, 0, 0, s.days.zone)
			return day.Add(time.Duration(rapid.SampledFrom([]int{0, 0, 1, 7200, 50_000}).Draw(t, "after midnight")) * time.Second)
		}
		if rapid.IntRange(0, 3).Draw(t, "since") > 0 {
			q.Since = point("since when")
		}
		if rapid.Bool().Draw(t, "bounded") {
			q.Until = point("until when")
		}
		all, err := s.Usage(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		got := map[string][2]Unused{}
		for _, u := range all {
			got[u.Key] = plusLost(got[u.Key], u) // two users may have had one id
		}
		if !q.Until.IsZero() && !q.Until.After(q.Since) {
			continue
		}
		if want := plainlyLost(t, s, q); !sameLost(got, want) {
			t.Fatalf("%+v:\n%+v, and the rows come to\n%+v", q, got, want)
		}
		if want := lostByDays(t, s, q); byDays && !sameLost(got, want) {
			t.Fatalf("%+v:\n%+v, and the days come to\n%+v", q, got, want)
		}
	}
}

// checkForgotten prunes the ledger up to a drawn time, has days of another zone, and counts again what was lost of each job: of
// the days that are kept it is as before, also of runs that the ledger has forgotten a part of, or wholly.
func checkForgotten(t *rapid.T, s *Store, w *lostWorld, move func()) {
	at := rapid.SampledFrom(w.ends).Draw(t, "forgotten up to").Add(time.Duration(rapid.SampledFrom([]int{-90_000, -5000, -1, 0, 1, 4000}).Draw(t, "beside it")) * time.Second)
	keys, want := []string{"job", "user", "account", "pool"}, map[string]map[string][2]Unused{}
	for _, by := range keys {
		want[by] = plainlyLost(t, s, UsageQuery{By: by, UID: -1, Since: toTime(s.days.begin(s.days.day(fromTime(at))))})
	}
	if err := s.Prune(t.Context(), at.Add(usageKeep)); err != nil {
		t.Fatal(err)
	}
	move()
	if err := s.tx(t.Context(), func(tx *sql.Tx) error {
		return s.countLost(&writer{ctx: t.Context(), tx: tx}, []uint32{1, 2, 3, 4, 5, 6, 99})
	}); err != nil {
		t.Fatal(err)
	}
	for _, by := range keys {
		all, err := s.Usage(t.Context(), UsageQuery{By: by, UID: -1})
		if err != nil {
			t.Fatal(err)
		}
		got := map[string][2]Unused{}
		for _, u := range all {
			got[u.Key] = plusLost(got[u.Key], u) // two users may have had one id
		}
		if !sameLost(got, want[by]) {
			t.Fatalf("forgotten up to %s, by %s:\n%+v, and before\n%+v", at, by, got, want[by])
		}
	}
}

func rowsWhere(t *rapid.T, s *Store, from string) (n int) {
	if err := s.db.QueryRow(`SELECT count(*) FROM ` + from).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// breaks are writes at which a transaction is broken off, as by a kill.
var breaks = []string{"INSERT ON lost_days", "DELETE ON lost_days", "INSERT ON lost_runs", "DELETE ON lost_runs", "UPDATE ON runs", "INSERT ON runs", "INSERT ON usage", "INSERT ON usage_jobs"}

// TestLostIsWhatTheRowsComeTo: after each thing that is written, in whatever order, or broken off and written again, after a
// restart and in another time zone, what evictions and checkpoints took is what the runs and rows come to that are there.
func TestLostIsWhatTheRowsComeTo(t *testing.T) {
	zones := zonesOf(t)
	path := filepath.Join(t.TempDir(), "burst.db")
	s := open(t, path)
	told := 0
	rapid.Check(t, func(t *rapid.T) {
		exec := func(text string) {
			t.Helper()
			if _, err := s.db.Exec(text); err != nil {
				t.Fatal(err)
			}
		}
		move := func(zone *time.Location) {
			s.days.zone = zone
			for _, keep := range []func(context.Context) error{s.keepDays, s.keepLost} {
				if err := keep(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
		}
		exec(`DROP TRIGGER IF EXISTS broken; DELETE FROM usage; DELETE FROM bills; DELETE FROM runs; DELETE FROM steps_done; DELETE FROM evictions; DELETE FROM meta WHERE key IN ('usage_zone', 'lost_runs', 'lost_zone', 'ledger_since')`)
		move(rapid.SampledFrom(zones).Draw(t, "zone"))
		w := drawLostWorld(t)
		for {
			left := slices.DeleteFunc(w.strands, func(todo []func(s *Store) error) bool { return len(todo) == 0 })
			if w.strands = left; len(left) == 0 {
				break
			}
			n := rapid.IntRange(0, len(left)-1).Draw(t, "next")
			do := left[n][0]
			left[n] = left[n][1:]
			if rapid.IntRange(0, 4).Draw(t, "killed") == 0 {
				exec(`CREATE TEMP TRIGGER broken BEFORE ` + rapid.SampledFrom(breaks).Draw(t, "at") + ` BEGIN SELECT RAISE(ABORT, 'killed'); END`)
				broken := do(s)
				exec(`DROP TRIGGER broken`)
				if broken != nil {
					checkLost(t, s, w)
				}
			}
			if err := do(s); err != nil {
				t.Fatal(err)
			}
			switch rapid.IntRange(0, 20).Draw(t, "then") {
			case 0:
				move(rapid.SampledFrom(zones).Draw(t, "new zone"))
			case 1:
				zone := s.days.zone
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
				var err error
				if s, err = Open(t.Context(), path); err != nil { // in the zone of this host
					t.Fatal(err)
				}
				if rapid.Bool().Draw(t, "and back") {
					move(zone)
				}
			case 2, 3:
				checkLost(t, s, w)
			}
		}
		checkLost(t, s, w)
		told += rowsWhere(t, s, "lost_runs")
		if w.orderly && len(w.ends) > 0 {
			checkForgotten(t, s, w, func() { move(rapid.SampledFrom(zones).Draw(t, "zone then")) })
		}
	})
	if told == 0 {
		t.Error("nothing was lost in any of the worlds")
	}
}
