package store

import (
	"context"
	"math"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/burst-hpc/burst/cmd/internal/history"
	"github.com/burst-hpc/burst/cmd/internal/ledger"
	"github.com/burst-hpc/burst/ft"
	"github.com/burst-hpc/burst/ft/session"
)

// TestWhatEvictionsCost: a run's lost work and its checkpoints are parts of its time, at its price.
func TestWhatEvictionsCost(t *testing.T) {
	t.Run("at their end", func(t *testing.T) { whatEvictionsCost(t, false) })
	t.Run("one lives", func(t *testing.T) { whatEvictionsCost(t, true) })
}

func whatEvictionsCost(t *testing.T, lives bool) {
	s := open(t, filepath.Join(t.TempDir(), "burst.db"))
	sec := func(n int) time.Time { return at.Add(time.Duration(n) * time.Second) }
	half := usageRow("i-2", 7, 0, 1000) // of two instances, of one a half, at 3.6 USD an hour
	half.Share, half.Open = 0.5, lives
	whole := usageRow("i-1", 7, 0, 1000)
	whole.Open = false
	earlier := usageRow("i-0", 7, -3*86400, 1000-3*86400) // another job of the same id
	earlier.Open = false
	putRows(t, s, whole, half, earlier)
	r := history.Run{Job: 7, Submitted: at, Started: at, Begun: sec(400), Ran: 400 * time.Second, Ended: sec(1000), UID: 1007, User: "u7", Account: "a", Pool: "p", State: "COMPLETED"}
	before := r // a run then, of none of ours
	before.Job, before.Submitted, before.Started, before.Begun, before.Ended = 8, sec(-3*86400), sec(-3*86400), sec(-3*86400), sec(1000-3*86400)
	for _, r := range []history.Run{before, r} {
		stepEnds(t, s, r, 100*time.Second, 50*time.Second)
	}
	writeRuns(t, s, before, r)
	for _, tt := range []struct {
		name string
		q    UsageQuery
		part float64
	}{
		{"by job", UsageQuery{By: "job", UID: -1}, 1},
		{"of its user", UsageQuery{By: "day", UID: 1007}, 1},
		{"by offering", UsageQuery{By: "offering", UID: -1}, 0},
		{"before its end", UsageQuery{By: "user", UID: -1, Until: sec(900)}, 0},
		{"after its end", UsageQuery{By: "user", UID: -1, Since: sec(1001)}, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			all, err := s.Usage(t.Context(), tt.q)
			if err != nil {
				t.Fatal(err)
			}
			lost, ckpt := lostOf(all)
			near := func(a, b float64) bool { return math.Abs(a-b) < 1e-9 }
			if !near(lost.Seconds, 150*tt.part) || !near(lost.USD, 0.15*tt.part) || !near(ckpt.Seconds, 75*tt.part) || !near(ckpt.USD, 0.075*tt.part) {
				t.Errorf("%+v %+v", lost, ckpt)
			}
		})
	}
}

// stepEnds has a step of the run's last attempt tell what was lost, and what the writing of checkpoints took.
func stepEnds(t interface {
	Helper()
	Fatal(...any)
	Context() context.Context
}, s *Store, r history.Run, lost, wrote time.Duration) {
	t.Helper()
	k := session.Key{Job: r.Job, Attempt: r.Restarts, Step: "0"}
	c := session.Change{Opened: []session.Session{{UID: r.UID, Hello: session.Hello{Key: k, Token: "t"}}},
		Closed: []session.End{{Key: k, Token: "t", Summary: &session.Summary{Lost: lost, Writing: wrote}}}}
	if err := s.CommitSession(t.Context(), c); err != nil {
		t.Fatal(err)
	}
}

func lostOf(all []Usage) (lost, ckpt Unused) {
	for _, u := range all {
		lost = Unused{lost.Seconds + u.Lost.Seconds, lost.USD + u.Lost.USD}
		ckpt = Unused{ckpt.Seconds + u.Checkpoints.Seconds, ckpt.USD + u.Checkpoints.USD}
	}
	return lost, ckpt
}

// TestAnIdTwiceOnADay: each of two jobs that Slurm has given one id, on one day, is charged its own time.
func TestAnIdTwiceOnADay(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "burst.db"))
	sec := func(n int) time.Time { return at.Add(time.Duration(n) * time.Second) }
	first := history.Run{Job: 7, Submitted: at, Started: at, Begun: at, Ended: sec(1000), UID: 1007, User: "u7", Account: "a", Pool: "p", State: "COMPLETED"}
	second := first
	second.Submitted, second.Started, second.Begun, second.Ended = sec(2000), sec(2000), sec(2000), sec(3000)
	second.UID, second.User = 1008, "u8"
	row := func(id string, from, to int) ledger.Row {
		r := usageRow(id, 7, from, to)
		r.Open = false
		return r
	}
	// What was booked of the first goes on after its end, as far as Slurm had told of that.
	putRows(t, s, row("i-0", -500, -100), row("i-1", 0, 1020), row("i-2", 2000, 3000), row("i-3", 2000, 3000))
	stepEnds(t, s, first, 100*time.Second, 0)
	writeRuns(t, s, first)
	stepEnds(t, s, second, 0, 10*time.Second)
	writeRuns(t, s, second)
	all, err := s.Usage(t.Context(), UsageQuery{By: "user", UID: -1})
	if err != nil {
		t.Fatal(err)
	}
	got := map[string][2]Unused{}
	for _, u := range all {
		if u.Lost != (Unused{}) || u.Checkpoints != (Unused{}) {
			got[u.Key] = [2]Unused{u.Lost, u.Checkpoints}
		}
	}
	if cost, err := s.RunCost(t.Context(), second); err != nil || cost.Seconds != 2000 {
		t.Errorf("the second has had %g s of instances, %v", cost.Seconds, err)
	}
	if runs := told(t, s, RunsQuery{UID: 1008}); len(runs) != 1 || runs[0].Seconds != 2000 {
		t.Errorf("the runs are %+v", runs)
	}
	want := map[string][2]Unused{"u7": {{Seconds: 102, USD: 0.102}}, "u8": {{}, {Seconds: 20, USD: 0.02}}}
	if diff := cmp.Diff(want, got, cmpopts.EquateApprox(0, 1e-9)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestLostOfAJobThatNeverCameBack: it was requeued, waited, and Slurm forgot it: its time is that of its attempts.
func TestLostOfAJobThatNeverCameBack(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "burst.db"))
	r := usageRow("i-1", 7, 0, 1000)
	r.Open = false
	putRows(t, s, r)
	waits := history.Run{Job: 7, Submitted: at, Started: at, Ran: 1000 * time.Second, Ended: at.Add(9000 * time.Second), UID: 1007, User: "u7", Account: "a", Pool: "p",
		State: history.Unknown, Restarts: 1}
	stepEnds(t, s, waits, 100*time.Second, 0)
	writeRuns(t, s, waits)
	all, err := s.Usage(t.Context(), UsageQuery{By: "job", UID: -1})
	if lost, _ := lostOf(all); err != nil || math.Abs(lost.Seconds-100) > 1e-9 || math.Abs(lost.USD-0.1) > 1e-9 {
		t.Errorf("%+v, %v", lost, err)
	}
}

// TestLostOfAJobThatEndsAtTheSite: what an eviction in the cloud took is of its time there, and in the pool that it had there; of
// the writing of checkpoints that of the whole time counts, as they are written at the site too.
func TestLostOfAJobThatEndsAtTheSite(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "burst.db"))
	row := func(id, pool string, from, to int) ledger.Row {
		r := usageRow(id, 7, from, to)
		r.Open, r.Pool = false, pool
		return r
	}
	// Two instances at a time, in p 100 s and, with a gap, in q 50 s.
	putRows(t, s, row("i-1", "p", 0, 100), row("i-2", "p", 0, 60), row("i-2", "p", 60, 100), row("i-3", "q", 200, 250), row("i-4", "q", 200, 250))
	r := history.Run{Job: 7, Submitted: at, Started: at, Begun: at.Add(400 * time.Second), Ran: 150 * time.Second, Ended: at.Add(1250 * time.Second), UID: 1007, User: "u7", Account: "a",
		State: "COMPLETED", Restarts: 2}
	evicted := ft.Change{Evictions: []ft.Eviction{{Instance: "i-1", Kind: ft.Died, Job: 7, Stage: ft.Done, Began: at.Add(100 * time.Second), Ending: ft.Moved, Lost: -1, LostIterations: -1}}}
	if err := s.CommitFT(t.Context(), evicted); err != nil {
		t.Fatal(err)
	}
	stepEnds(t, s, r, 50*time.Second, 100*time.Second)
	writeRuns(t, s, r)
	all, err := s.Usage(t.Context(), UsageQuery{By: "pool", UID: -1})
	if err != nil {
		t.Fatal(err)
	}
	got := map[string][2]Unused{}
	for _, u := range all {
		got[u.Key] = [2]Unused{u.Lost, u.Checkpoints}
	}
	want := map[string][2]Unused{"p": {{Seconds: 200. / 3, USD: 0.2 / 3}, {Seconds: 20, USD: 0.02}}, "q": {{Seconds: 100. / 3, USD: 0.1 / 3}, {Seconds: 10, USD: 0.01}}} // 50 of 150 s, and 100 of 1000
	if diff := cmp.Diff(want, got, cmpopts.EquateApprox(0, 1e-9)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestLostAtTheSite: what a job lost that was never evicted may have been lost at the site: it is of all of its time.
func TestLostAtTheSite(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "burst.db"))
	row := usageRow("i-1", 7, 36000, 39600)
	row.Open = false
	putRows(t, s, row)
	r := history.Run{Job: 7, Submitted: at, Started: at, Begun: at.Add(10 * time.Hour), Ran: 10 * time.Hour, Ended: at.Add(11 * time.Hour), UID: 1007, User: "u7", Account: "a", Pool: "p",
		State: "COMPLETED", Restarts: 1}
	stepEnds(t, s, r, 5*time.Hour, 0)
	writeRuns(t, s, r)
	all, err := s.Usage(t.Context(), UsageQuery{By: "job", UID: -1})
	if lost, _ := lostOf(all); err != nil || math.Abs(lost.Seconds-3600*5./11) > 1e-6 || math.Abs(lost.USD-3.6*5./11) > 1e-6 {
		t.Errorf("%+v, %v", lost, err)
	}
}

// TestLostAfterAClockThatWasAhead: a prune by a wrong clock that finds nothing to forget keeps no run from being counted anew.
func TestLostAfterAClockThatWasAhead(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "burst.db"))
	if err := s.Prune(t.Context(), at.AddDate(20, 0, 0)); err != nil {
		t.Fatal(err)
	}
	row := usageRow("i-1", 7, 0, 500)
	putRows(t, s, row)
	r := history.Run{Job: 7, Submitted: at, Started: at, Begun: at, Ended: at.Add(1000 * time.Second), UID: 1007, User: "u7", Account: "a", Pool: "p", State: "COMPLETED"}
	stepEnds(t, s, r, 100*time.Second, 0)
	writeRuns(t, s, r)
	row.To, row.Open = at.Add(1000*time.Second), false
	putRows(t, s, row)
	all, err := s.Usage(t.Context(), UsageQuery{By: "job", UID: -1})
	if lost, _ := lostOf(all); err != nil || math.Abs(lost.Seconds-100) > 1e-9 || math.Abs(lost.USD-0.1) > 1e-9 {
		t.Errorf("%+v, %v", lost, err)
	}
}

// TestARowAtTheEndOfTheRunBefore is the earlier run's, of two to which Slurm has given one id: of that end something may be
// booked late. So `burst cost`, `burst jobs` and the line for sacct have it.
func TestARowAtTheEndOfTheRunBefore(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "burst.db"))
	sec := func(n int) time.Time { return at.Add(time.Duration(n) * time.Second) }
	first := history.Run{Job: 7, Submitted: at, Started: at, Begun: at, Ended: sec(1000), UID: 1007, User: "u7", Account: "a", Pool: "p", State: "COMPLETED"}
	second := first
	second.Submitted, second.Started, second.Begun, second.Ended, second.UID, second.User = sec(1000), sec(1000), sec(1000), sec(2000), 1008, "u8"
	row := func(id string, from, to int) ledger.Row {
		r := usageRow(id, 7, from, to)
		r.Open = false
		return r
	}
	// The first's; at its end; the second's.
	putRows(t, s, row("i-1", 0, 1000), row("i-2", 1000, 1500), row("i-3", 1001, 2000))
	for _, r := range []history.Run{first, second} {
		stepEnds(t, s, r, 100*time.Second, 0)
		writeRuns(t, s, r)
	}
	all, err := s.Usage(t.Context(), UsageQuery{By: "user", UID: -1})
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []struct {
		run           history.Run
		seconds, lost float64
	}{{first, 1500, 150}, {second, 999, 99.9}} { // 100 of 1000 s
		if cost, err := s.RunCost(t.Context(), want.run); err != nil || cost.Seconds != want.seconds {
			t.Errorf("run %d has had %g s of instances, %v", i, cost.Seconds, err)
		}
		if runs := told(t, s, RunsQuery{UID: want.run.UID}); len(runs) != 1 || runs[0].Seconds != want.seconds {
			t.Errorf("run %d is %+v", i, runs)
		}
		for _, u := range all {
			if u.Key == want.run.User && math.Abs(u.Lost.Seconds-want.lost) > 1e-9 {
				t.Errorf("run %d has lost %+v", i, u.Lost)
			}
		}
	}
}

// TestNothingIsLostButForRounding: what is taken away from the sums by day again leaves nothing, of neither sign.
func TestNothingIsLostButForRounding(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "burst.db"))
	free := lostRunOf(3, at)
	runs := []history.Run{free}
	for n, usd := range []float64{0.1, 0.2, 0.3, 0.7, 1.1} {
		r := lostRunOf(3*n+6, at)
		runs = append(runs, r)
		putRows(t, s, rowOf(r, usd))
	}
	putRows(t, s, rowOf(free, 0))
	for _, r := range runs {
		stepEnds(t, s, r, 100*time.Second, 0)
	}
	writeRuns(t, s, runs...)
	for _, order := range [][]int{{1, 2, 3, 4, 5}, {5, 4, 3, 2, 1}, {2, 5, 1, 4, 3}} {
		for _, i := range order {
			r := runs[i]
			r.Open = true
			writeRuns(t, s, r)
		}
		all, err := s.Usage(t.Context(), UsageQuery{By: "user", UID: -1})
		if lost, _ := lostOf(all); err != nil || math.Abs(lost.Seconds-100) > 1e-9 || lost.USD != 0 || math.Signbit(lost.USD) {
			t.Errorf("%+v, %v", lost, err)
		}
		for _, i := range order {
			writeRuns(t, s, runs[i])
		}
	}
	if _, err := s.db.Exec(`UPDATE lost_days SET usd = -1e-8`); err != nil { // as of sums of millions
		t.Fatal(err)
	}
	all, err := s.Usage(t.Context(), UsageQuery{By: "user", UID: -1})
	if lost, _ := lostOf(all); err != nil || lost.USD != 0 || math.Signbit(lost.USD) {
		t.Errorf("%+v, %v", lost, err)
	}
}
