package store

import (
	"database/sql"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/cmd/internal/history"
	"github.com/burst-hpc/burst/ft"
	"github.com/burst-hpc/burst/ft/session"
)

// stepTables are those that have what was said of jobs.
var stepTables = []string{"sessions", "requests", "answers", "blessed", "steps_done", "evictions"}

func rowsOf(t *testing.T, s *Store, table string) (n int) {
	t.Helper()
	if err := s.db.QueryRow("SELECT count(*) FROM " + table).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// life writes all that a job leaves behind that was evicted once: a request to its
// step, the answer, and the summary.
func (w *writer) life(job uint32, now time.Time) {
	k := session.Key{Job: job, Step: "0"}
	hello := session.Hello{Key: k, Token: "t", Began: now, Method: "signal", Dir: "/d"}
	made := session.Answer{ID: "r", Generation: "/d/gen-1", N: 1, Stopped: true}
	for _, c := range []session.Change{
		{Opened: []session.Session{{UID: 1, Hello: hello}}, Orders: []session.Order{{Job: job, Request: session.Request{ID: "r", Kind: session.Stop, By: now}}}},
		{Answers: []session.Given{{Key: k, Token: "t", Answer: made}}},
		{Closed: []session.End{{Key: k, Token: "t", Summary: &session.Summary{Checkpoints: 1}}}},
	} {
		w.putSession(c, now)
	}
	w.putFT(ft.Change{Evictions: []ft.Eviction{{Instance: fmt.Sprint("i-", job), Kind: cloud.SpotInterruption, Job: job, Stage: ft.Done,
		Outcome: "requeued", Ending: ft.Moved, Began: now, Ended: now, Started: now}}})
}

// TestTheJournalDoesNotGrow: over 10,000 jobs that have ended, what was said of them is
// that of the last day's and no more.
func TestTheJournalDoesNotGrow(t *testing.T) {
	const days = 20
	aDay := 500
	if testing.Short() {
		aDay = 20
	}
	s := open(t, filepath.Join(t.TempDir(), "burst.db"))
	now, job := time.Now().Add(-days*24*time.Hour), uint32(0)
	for range days {
		now = now.Add(24 * time.Hour)
		err := s.tx(t.Context(), func(tx *sql.Tx) error {
			w := writer{ctx: t.Context(), tx: tx}
			for range aDay {
				job++
				w.life(job, now)
				r := over(run(job, 1))
				r.Submitted, r.Ended = now, now
				if err := s.putRuns(t.Context(), tx, []history.Run{r}); err != nil {
					return err
				}
			}
			return w.err
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Prune(t.Context(), now.Add(time.Minute-90*24*time.Hour)); err != nil {
			t.Fatal(err)
		}
		for _, table := range stepTables {
			if n := rowsOf(t, s, table); n > aDay {
				t.Fatalf("after %d jobs, %d each day, %s has %d rows", job, aDay, table, n)
			}
		}
	}
	if n := rowsOf(t, s, "runs"); n != days*aDay {
		t.Errorf("the history has %d runs of %d", n, days*aDay)
	}
	if r := told(t, s, RunsQuery{UID: -1, Job: 1}); len(r) != 1 || r[0].Checkpoints != 1 || r[0].Evictions != 1 {
		t.Errorf("the first is known as %+v", r)
	}
}

// TestWhatARestartNeedsIsKept: of jobs that go on, that have ended a moment ago, or of
// which no run is known, nothing is forgotten.
func TestWhatARestartNeedsIsKept(t *testing.T) {
	now := time.Now()
	for _, tt := range []struct {
		name  string
		age   time.Duration // of what is known of the job
		run   func(s *Store, at time.Time)
		keeps bool
	}{
		{"it runs on", 80 * 24 * time.Hour, func(s *Store, _ time.Time) { writeRuns(t, s, run(7, 1)) }, true},
		{"it runs on, or waits, for long", 91 * 24 * time.Hour, func(s *Store, _ time.Time) { writeRuns(t, s, run(7, 1)) }, true},
		{"it has ended within the day", 20 * time.Hour, func(s *Store, at time.Time) { r := over(run(7, 1)); r.Ended = at; writeRuns(t, s, r) }, true},
		{"it has ended before", 25 * time.Hour, func(s *Store, at time.Time) { r := over(run(7, 1)); r.Ended = at; writeRuns(t, s, r) }, false},
		{"its id was another's before", 25 * time.Hour, func(s *Store, at time.Time) {
			r := over(run(7, 1))
			r.Ended = at.Add(-time.Hour)
			next := run(7, 0)
			next.Submitted = at
			writeRuns(t, s, r, next)
		}, true},
		{"no run is known", 80 * 24 * time.Hour, func(*Store, time.Time) {}, true},
		{"no run is known, for long", 91 * 24 * time.Hour, func(*Store, time.Time) {}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := open(t, filepath.Join(t.TempDir(), "burst.db"))
			at := now.Add(-tt.age)
			if err := s.tx(t.Context(), func(tx *sql.Tx) error {
				w := writer{ctx: t.Context(), tx: tx}
				w.life(7, at)
				return w.err
			}); err != nil {
				t.Fatal(err)
			}
			tt.run(s, at)
			if err := s.Prune(t.Context(), now.Add(-90*24*time.Hour)); err != nil {
				t.Fatal(err)
			}
			for _, table := range stepTables[1:] { // the session is closed
				if kept := rowsOf(t, s, table) == 1; kept != tt.keeps {
					t.Errorf("%s: kept is %v", table, kept)
				}
			}
		})
	}
}

// TestAJobOfManySteps, one after the other, keeps the last of them, those that run, and
// the sum of the others.
func TestAJobOfManySteps(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "burst.db"))
	const steps = jobRows + 100
	now := time.Now().Add(-time.Hour)
	err := s.tx(t.Context(), func(tx *sql.Tx) error {
		w := writer{ctx: t.Context(), tx: tx}
		for i := range steps {
			now = now.Add(time.Second)
			k := session.Key{Job: 7, Step: fmt.Sprint(i)}
			c := session.Change{Opened: []session.Session{{UID: 1, Hello: session.Hello{Key: k, Token: "t", Began: now, Dir: "/d"}}}}
			if i == 0 {
				c.Orders = []session.Order{{Job: 7, Request: session.Request{ID: "r", Kind: session.Checkpoint, By: now}}}
			}
			w.putSession(c, now)
			made := session.Answer{ID: "r", Generation: fmt.Sprintf("/d/%d/gen-1", i), N: 1}
			w.putSession(session.Change{Answers: []session.Given{{Key: k, Token: "t", Answer: made}}}, now)
			if i > 0 { // the first one runs on
				w.putSession(session.Change{Closed: []session.End{{Key: k, Token: "t", Summary: &session.Summary{Ran: time.Minute, Ranks: i, Checkpoints: 1, Iteration: -1}}}}, now)
			}
		}
		return w.err
	})
	if err != nil {
		t.Fatal(err)
	}
	for table, most := range map[string]int{"blessed": jobRows, "answers": jobRows, "steps_done": jobRows + 1, "sessions": 1, "requests": 1} {
		if n := rowsOf(t, s, table); n != most {
			t.Errorf("%s has %d rows, not %d", table, n, most)
		}
	}
	for step, kept := range map[string]bool{"0": true, "1": false, fmt.Sprint(steps - 1): true} {
		if b, err := s.Blessed(t.Context(), 7, step); err != nil || (b.Answer.N == 1) != kept {
			t.Errorf("step %s: %+v, %v", step, b, err)
		}
	}
	r := run(7, 0)
	r.Submitted = now.Add(-2 * time.Hour)
	writeRuns(t, s, r)
	if got := told(t, s, RunsQuery{UID: -1})[0]; got.Computing != (steps-1)*time.Minute || got.Ranks != steps-1 || got.Checkpoints != steps-1 {
		t.Errorf("of all steps is known %+v", got.Deeds)
	}
}

// TestAttempts that were evicted are counted once each, as far as they count.
func TestAttempts(t *testing.T) {
	done := func(restarts int, ending ft.Ending) ft.Eviction {
		return ft.Eviction{Restarts: restarts, Stage: ft.Done, Ending: ending}
	}
	of := func(instance string, e ft.Eviction) ft.Eviction { e.Instance = instance; return e }
	held := done(1, ft.Moved)
	held.Hold = true
	for _, tt := range []struct {
		name  string
		all   []ft.Eviction
		after int
		want  int
	}{
		{"none", nil, -1, 0},
		{"one, of two nodes", []ft.Eviction{done(0, ft.Moved), of("i-2", done(0, ft.Moved))}, -1, 1},
		{"two", []ft.Eviction{done(0, ft.Moved), done(1, ft.Moved)}, -1, 2},
		{"after one that made a checkpoint", []ft.Eviction{done(0, ft.Moved), done(1, ft.Moved)}, 0, 1},
		{"under way", []ft.Eviction{done(0, ft.Moved), {Restarts: 1, Stage: ft.Signalled}}, -1, 2},
		{"left where it was, and ended", []ft.Eviction{done(0, ""), done(1, ft.Finished), {Restarts: 2, Stage: ft.Planned}}, -1, 0},
		{"since it was held", []ft.Eviction{done(0, ft.Moved), held, done(2, ft.Moved)}, -1, 1},
		{"that attempt itself", []ft.Eviction{done(0, ft.Moved), held}, -1, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := open(t, filepath.Join(t.TempDir(), "burst.db"))
			for i, e := range tt.all {
				e.Job, e.Kind, e.Began = 7, cloud.SpotInterruption, at
				if e.Instance == "" {
					e.Instance = fmt.Sprint("i-1-", i)
				}
				other := e
				other.Job, other.Hold = 8, true // another's
				if err := s.CommitFT(t.Context(), ft.Change{Evictions: []ft.Eviction{e, other}}); err != nil {
					t.Fatal(err)
				}
			}
			if n, err := s.Attempts(t.Context(), 7, tt.after); err != nil || n != tt.want {
				t.Errorf("%d, %v, want %d", n, err, tt.want)
			}
		})
	}
}

// TestAnAttemptsEvictionsAreReadTogether: with one that is open those of the same
// attempt that are closed, and no other job's that had the id before.
func TestAnAttemptsEvictionsAreReadTogether(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "burst.db"))
	for i, stage := range []ft.Stage{ft.Draining, ft.Acked, ft.Acked} {
		n := cloud.Notice{Instance: fmt.Sprint("i-", i), Kind: cloud.SpotInterruption, Received: at}
		if _, err := s.AddNotice(t.Context(), "east", n); err != nil {
			t.Fatal(err)
		}
		e := ft.Eviction{Instance: n.Instance, Kind: n.Kind, Job: 7, Stage: ft.Signalled, Started: at, Held: i == 1, Hold: i == 1}
		if stage == ft.Acked {
			e.Stage, e.Ending = ft.Done, ft.Moved
		}
		if i == 2 {
			e.Started = at.Add(-time.Hour)
		}
		if err := s.CommitFT(t.Context(), ft.Change{Notices: []ft.Notice{{Notice: n, Node: "c1", Stage: stage}}, Evictions: []ft.Eviction{e}}); err != nil {
			t.Fatal(err)
		}
	}
	st, err := s.LoadFT(t.Context())
	if err != nil || len(st.Notices) != 1 || len(st.Evictions) != 2 {
		t.Fatalf("%+v, %v", st, err)
	}
	for _, e := range st.Evictions {
		if e.Instance == "i-2" || e.Held != (e.Instance == "i-1") || e.Hold != e.Held {
			t.Errorf("%+v", e)
		}
	}
}
