package store

import (
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/cmd/internal/history"
	"github.com/burst-hpc/burst/cmd/internal/ledger"
	"github.com/burst-hpc/burst/ft"
	"github.com/burst-hpc/burst/ft/session"
)

// since is when run's job was submitted; the journal's own times are the present.
var since = time.Now().Add(-time.Hour).Truncate(time.Second)

// run is one of job id, with all its fields.
func run(id uint32, restarts int) history.Run {
	return history.Run{Job: id, Submitted: since, Whole: restarts == 0, Open: true, ArrayID: 5, ArrayTask: "2", HetID: 6, Name: "n", User: "u", UID: 1000 + int(id), Account: "a", Partition: "cloud",
		Pool: "p", Types: "c5,m5", Nodes: 2, VCPUs: 8, Memory: 1500, Measured: history.Measured{NetworkGbit: 12.5, StorageIOPS: 3000}, Started: since.Add(time.Minute), Begun: since.Add(30 * time.Minute), Ran: 90 * time.Second,
		Seen: since.Add(50*time.Minute + time.Microsecond), State: "RUNNING", Restarts: restarts, Label: "l", Method: "dmtcp"}
}

func over(r history.Run) history.Run {
	r.Open, r.Ended, r.State, r.Exit, r.Signal = false, since.Add(45*time.Minute), "FAILED", 3, 9
	return r
}

func writeRuns(t *testing.T, s *Store, all ...history.Run) {
	t.Helper()
	if err := s.PutRuns(t.Context(), all); err != nil {
		t.Fatal(err)
	}
}

func told(t *testing.T, s *Store, q RunsQuery) []Told {
	t.Helper()
	if q.Last == 0 {
		q.Last = 100
	}
	all, err := s.Runs(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestRunsGoOnAfterReopening(t *testing.T) {
	path := filepath.Join(t.TempDir(), "burst.db")
	s := open(t, path)
	one, two, again := run(7, 0), run(8, 1), run(8, 0)
	again.Submitted = since.Add(50 * time.Minute)
	writeRuns(t, s, one, over(two), again)
	two = over(two)
	again = over(again)
	again.Ended = since.Add(55 * time.Minute)
	writeRuns(t, s, again, again, one)
	gone := machine("i-old", since.Add(time.Minute))
	live := machine("i-live", time.Time{})
	putInstances(t, s, gone, live)
	k := session.Key{Job: 9, Step: "0"}
	hello := session.Hello{Key: k, Token: "t", Began: since, Method: "signal", Label: "heat"}
	for _, c := range []session.Change{{Opened: []session.Session{{UID: 1, Hello: hello}}},
		{Opened: []session.Session{{UID: 1, Hello: session.Hello{Key: session.Key{Job: 10, Step: "0"}, Token: "t"}}}},
		{Closed: []session.End{{Key: session.Key{Job: 10, Step: "0"}, Token: "t", Summary: &session.Summary{Label: "x", Method: "scr"}}}}} {
		if err := s.CommitSession(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = open(t, path)
	opened, err := s.OpenRuns(t.Context())
	if diff := cmp.Diff([]history.Run{one}, opened); err != nil || diff != "" {
		t.Errorf("%v: open runs are (-want +got):\n%s", err, diff)
	}
	want := history.Input{Types: map[string]string{"c1": spot.Type}, Spoken: map[uint32]history.Spoken{9: {Label: "heat", Method: "signal"}, 10: {Label: "x", Method: "scr"}}}
	in, err := s.AboutRuns(t.Context(), since)
	if diff := cmp.Diff(want, in); err != nil || diff != "" {
		t.Errorf("%v: what else is known (-want +got):\n%s", err, diff)
	}
	want.Spoken = map[uint32]history.Spoken{9: {Label: "heat", Method: "signal"}}
	in, err = s.AboutRuns(t.Context(), time.Now())
	if diff := cmp.Diff(want, in); err != nil || diff != "" {
		t.Errorf("%v: and since now (-want +got):\n%s", err, diff)
	}
	last, err := s.LastRuns(t.Context(), []uint32{7, 8, 99})
	if diff := cmp.Diff([]history.Run{again}, last); err != nil || diff != "" {
		t.Errorf("%v: closed runs are (-want +got):\n%s", err, diff)
	}
	all := told(t, s, RunsQuery{UID: -1, Job: 8})
	if len(all) != 2 || all[0].Run != two || all[1].Run != again {
		t.Errorf("of job 8 there is %+v", all)
	}
}

func TestWhatBecameOfARun(t *testing.T) {
	summary := func(checkpoints int, lost time.Duration, unknown int) *session.Summary {
		return &session.Summary{Label: "l", Method: "dmtcp", Ranks: 4, Ran: time.Hour, Checkpoints: checkpoints, Writing: 2 * time.Second, Lost: lost, LostUnknown: unknown, Iteration: 77}
	}
	eviction := func(restarts int, instance string, ending ft.Ending, lost time.Duration) ft.Eviction {
		return ft.Eviction{Instance: instance, Kind: cloud.SpotInterruption, Job: 7, Restarts: restarts, Stage: ft.Done, Began: since.Add(time.Minute), Ending: ending,
			Lost: lost, LostIterations: -1}
	}
	saves := func(attempt, n int) session.Change {
		k := session.Key{Job: 7, Attempt: attempt, Step: "0"}
		return session.Change{Opened: []session.Session{{UID: 1, Hello: session.Hello{Key: k, Token: "t", Dir: "/d"}}},
			Answers: []session.Given{{Key: k, Token: "t", Answer: session.Answer{Generation: fmt.Sprint("/d/gen-", n), N: n, Iteration: 50}}}}
	}
	ends := func(attempt int, s *session.Summary) session.Change {
		return session.Change{Closed: []session.End{{Key: session.Key{Job: 7, Attempt: attempt, Step: "0"}, Token: "t", Summary: s}}}
	}
	none := Deeds{Computing: -1, Writing: -1, Lost: -1, LostIterations: -1, Iteration: -1}
	with := func(change func(*Deeds)) Deeds { d := none; change(&d); return d }
	for _, tt := range []struct {
		name      string
		run       history.Run
		sessions  []session.Change
		evictions []ft.Eviction
		want      Deeds
	}{
		{"nothing", over(run(7, 0)), nil, nil, with(func(d *Deeds) { d.Lost = 0 })},
		{"its node died", over(run(7, 1)), nil, nil, with(func(d *Deeds) { d.LostUnknown = 1 })},
		{"evicted without a word of what was lost", over(run(7, 1)), nil, []ft.Eviction{eviction(0, "i-1", ft.Moved, -1)}, with(func(d *Deeds) { d.Evictions, d.LostUnknown = 1, 1 })},
		{"evicted twice, once of two nodes", over(run(7, 2)), nil, []ft.Eviction{eviction(0, "i-1", ft.Moved, time.Minute), eviction(0, "i-2", ft.Moved, -1),
			eviction(1, "i-3", ft.Moved, 2*time.Second)}, with(func(d *Deeds) { d.Evictions, d.Lost = 2, 62*time.Second })},
		{"it was left where it was", over(run(7, 1)), nil, []ft.Eviction{eviction(0, "i-1", "left where it is: x", -1)}, with(func(d *Deeds) { d.LostUnknown = 1 })},
		{"it finished in time", over(run(7, 0)), nil, []ft.Eviction{eviction(0, "i-1", "it finished in the grace time", -1)}, with(func(d *Deeds) { d.Lost = 0 })},
		{"first seen after a requeue", changed(over(run(7, 1)), func(r *history.Run) { r.Submitted = since.Add(3 * time.Hour) }), []session.Change{saves(0, 1)},
			[]ft.Eviction{eviction(0, "i-1", ft.Moved, time.Second)}, with(func(d *Deeds) { d.Checkpoints, d.Evictions, d.Lost, d.Iteration = 1, 1, time.Second, 50 })},
		{"it runs, and has saved", run(7, 1), []session.Change{saves(0, 1), saves(0, 2), saves(1, 1), saves(1, 1)}, []ft.Eviction{eviction(0, "i-1", ft.Moved, 0)},
			with(func(d *Deeds) { d.Checkpoints, d.Evictions, d.Lost, d.Iteration = 3, 1, 0, 50 })},
		{"the last attempt's step has not told its end", over(run(7, 2)), []session.Change{saves(0, 1), ends(0, summary(1, time.Second, 0))}, []ft.Eviction{eviction(0, "i-1", ft.Moved, time.Minute)},
			Deeds{Ranks: 4, Computing: time.Hour, Checkpoints: 1, Writing: 2 * time.Second, Evictions: 1, Lost: time.Minute, LostUnknown: 1, LostIterations: -1, Iteration: 77}},
		{"its steps have told all", over(run(7, 2)), []session.Change{saves(0, 1), saves(2, 2), ends(2, summary(5, 3*time.Second, 1))},
			[]ft.Eviction{eviction(0, "i-1", ft.Moved, time.Minute)},
			Deeds{Ranks: 4, Computing: time.Hour, Checkpoints: 5, Writing: 2 * time.Second, Evictions: 1, Lost: 3 * time.Second, LostUnknown: 1, LostIterations: -1, Iteration: 77}},
		{"its steps do not know when it died, and burstd does", over(run(7, 1)), []session.Change{saves(0, 1), saves(1, 2), ends(1, summary(5, 3*time.Second, 1))},
			[]ft.Eviction{{Instance: "i-1", Kind: ft.Died, Job: 7, Stage: ft.Done, Began: since.Add(time.Minute), Ending: ft.Moved, Lost: 2 * time.Minute, LostIterations: 40}},
			Deeds{Ranks: 4, Computing: time.Hour, Checkpoints: 5, Writing: 2 * time.Second, Evictions: 1, Lost: 2 * time.Minute, LostIterations: 40, Iteration: 77}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "burst.db")
			s := open(t, path)
			for _, c := range tt.sessions {
				if err := s.CommitSession(t.Context(), c); err != nil {
					t.Fatal(err)
				}
			}
			if err := s.CommitFT(t.Context(), ft.Change{Evictions: tt.evictions}); err != nil {
				t.Fatal(err)
			}
			for range 2 { // the same again
				writeRuns(t, s, tt.run)
			}
			if !tt.run.Open { // what the rest of the journal has is forgotten sooner
				if _, err := s.db.ExecContext(t.Context(), `DELETE FROM steps_done; DELETE FROM blessed; DELETE FROM evictions`); err != nil {
					t.Fatal(err)
				}
			}
			all := told(t, s, RunsQuery{UID: -1})
			if len(all) != 1 || all[0].Run != tt.run {
				t.Fatalf("there is %+v, want %+v", all, tt.run)
			}
			if all[0].Saved.IsZero() == (tt.run.Open && tt.want.Checkpoints > 0) {
				t.Errorf("saved at %s", all[0].Saved)
			}
			if diff := cmp.Diff(tt.want, all[0].Deeds, cmpopts.IgnoreFields(Deeds{}, "Saved")); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func changed(r history.Run, change func(*history.Run)) history.Run { change(&r); return r }

func TestWhoseRunsAndWhich(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "burst.db"))
	var all []history.Run
	for i := range uint32(6) {
		r := run(i+1, 0)
		r.UID, r.User, r.Started = 1000+int(i%2), fmt.Sprint("u", i%2), since.Add(time.Duration(i)*time.Minute)
		r.ArrayID, r.ArrayTask, r.HetID = 0, "", 0
		if i == 3 {
			r.Label = ""
		}
		if i >= 4 {
			r.ArrayID, r.ArrayTask = 50, fmt.Sprint(i)
		}
		if i < 2 {
			r = over(r)
		}
		all = append(all, r)
	}
	writeRuns(t, s, all...)
	for _, tt := range []struct {
		name string
		q    RunsQuery
		want string
	}{
		{"all", RunsQuery{UID: -1}, "1 2 3 4 5 6"},
		{"one user's", RunsQuery{UID: 1001}, "2 4 6"},
		{"another's, who asks for them", RunsQuery{UID: 1001, User: "u0"}, ""},
		{"of a user", RunsQuery{UID: -1, User: "u0"}, "1 3 5"},
		{"root's own number", RunsQuery{UID: 0}, ""},
		{"a job", RunsQuery{UID: -1, Job: 3}, "3"},
		{"an array", RunsQuery{UID: -1, Job: 50}, "5 6"},
		{"a label", RunsQuery{UID: -1, Label: "l"}, "1 2 3 5 6"},
		{"a name", RunsQuery{UID: -1, Label: "n"}, "4"},
		{"hostile", RunsQuery{UID: -1, Label: "' OR 1=1 --", User: "%"}, ""},
		{"lately", RunsQuery{UID: -1, Since: since.Add(46 * time.Minute)}, "3 4 5 6"},
		{"the last two", RunsQuery{UID: -1, Last: 2}, "5 6"},
	} {
		var got []string
		for _, r := range told(t, s, tt.q) {
			got = append(got, fmt.Sprint(r.Job))
		}
		if strings.Join(got, " ") != tt.want {
			t.Errorf("%s: %v, want %s", tt.name, got, tt.want)
		}
	}
	if err := s.Prune(t.Context(), time.Now().Add(usageKeep+time.Hour)); err != nil {
		t.Fatal(err)
	}
	if left := told(t, s, RunsQuery{UID: -1}); len(left) != 4 || left[0].Job != 3 {
		t.Errorf("after a year %+v are left", left)
	}
}

func TestWhatARunCosts(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "burst.db"))
	row := func(id string, from, to time.Duration, change func(*ledger.Row)) ledger.Row {
		r := usageRow(id, 7, 0, 0)
		r.From, r.To = since.Add(from), since.Add(to)
		change(&r)
		return r
	}
	same := func(*ledger.Row) {}
	putRows(t, s, row("i-1", -2*time.Hour, -time.Hour, same), row("i-2", time.Minute, 11*time.Minute, same), row("i-3", time.Minute, 11*time.Minute, func(r *ledger.Row) { r.Share = .5 }),
		row("i-4", time.Minute, 2*time.Minute, func(r *ledger.Row) { r.Price = ledger.Price{} }), row("i-5", 50*time.Minute, time.Hour, same),
		row("i-6", time.Minute, 2*time.Minute, func(r *ledger.Row) { r.Job = 8 }))
	earlier := over(run(7, 0))
	earlier.Submitted, earlier.Ended = since.Add(-3*time.Hour), since.Add(-time.Hour)
	writeRuns(t, s, earlier, over(run(7, 0)))
	if r := told(t, s, RunsQuery{UID: -1})[1]; math.Abs(r.USD-.9) > 1e-9 || r.Seconds != 960 || r.Unpriced != 60 {
		t.Errorf("it cost %g $ for %g s, %g of them without a price", r.USD, r.Seconds, r.Unpriced)
	}
	writeRuns(t, s, run(7, 0)) // it runs on
	if r := told(t, s, RunsQuery{UID: -1})[1]; math.Abs(r.USD-1.5) > 1e-9 {
		t.Errorf("it has cost %g $", r.USD)
	}
}

// TestAnIdIsGivenAgain: what is told of the job that had it before is not the new one's.
func TestAnIdIsGivenAgain(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "burst.db"))
	k := session.Key{Job: 7, Step: "0"}
	for _, c := range []session.Change{{Opened: []session.Session{{UID: 1, Hello: session.Hello{Key: k, Token: "t", Dir: "/d"}}},
		Answers: []session.Given{{Key: k, Token: "t", Answer: session.Answer{Generation: "/d/gen-1", N: 1}}}},
		{Closed: []session.End{{Key: k, Token: "t", Summary: &session.Summary{Ranks: 4, Checkpoints: 1}}}}} {
		if err := s.CommitSession(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	first, next := over(run(7, 0)), run(7, 0)
	first.Ended, next.Submitted = since.Add(2*time.Hour), since.Add(3*time.Hour)
	writeRuns(t, s, first, next, over(next))
	all := told(t, s, RunsQuery{UID: -1})
	if len(all) != 2 || all[0].Ranks != 4 || all[0].Checkpoints != 1 || all[1].Ranks != 0 || all[1].Checkpoints != 0 {
		t.Errorf("%+v", all)
	}
}

// When a job was first submitted is known of one that was seen in its attempt 0, and
// has not ended: Slurm gives its id again.
func TestFirstSubmitted(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "burst.db"))
	again := run(7, 0)
	again.Submitted = since.Add(50 * time.Minute)
	requeued := again
	requeued.Restarts = 2
	writeRuns(t, s, over(run(7, 0)), again, over(run(8, 0)), run(9, 1))
	writeRuns(t, s, requeued)
	for job, want := range map[uint32]time.Time{7: again.Submitted, 8: {}, 9: {}, 10: {}} {
		if got, err := s.FirstSubmitted(t.Context(), job); err != nil || !got.Equal(want) {
			t.Errorf("job %d: %v, %v, want %v", job, got, err, want)
		}
	}
}
