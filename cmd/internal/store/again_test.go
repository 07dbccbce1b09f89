package store

import (
	"database/sql"
	"path/filepath"
	"testing"
	"time"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/cmd/internal/history"
	"github.com/burst-hpc/burst/ft"
	"github.com/burst-hpc/burst/ft/session"
	"github.com/burst-hpc/burst/slurm"
)

// TestAnEarlierJobsWordIsNotThisOnes: Slurm has given the id again.
func TestAnEarlierJobsWordIsNotThisOnes(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "burst.db"))
	bless := func(attempt, n int) {
		t.Helper()
		g := session.Given{Key: session.Key{Job: 7, Attempt: attempt, Step: "0"}, Answer: session.Answer{Generation: "/d/gen", N: n}}
		if err := s.CommitSession(t.Context(), session.Change{Answers: []session.Given{g}}); err != nil {
			t.Fatal(err)
		}
	}
	evict := func(instance string, restarts int, hold bool) {
		t.Helper()
		e := ft.Eviction{Job: 7, Restarts: restarts, Stage: ft.Requeued, Began: time.Now(), Hold: hold}
		e.Instance, e.Kind = instance, cloud.SpotInterruption
		if err := s.CommitFT(t.Context(), ft.Change{Evictions: []ft.Eviction{e}}); err != nil {
			t.Fatal(err)
		}
	}
	want := func(when string, attempt, n, evicted int) {
		t.Helper()
		one, err := s.Blessed(t.Context(), 7, "0")
		all, aerr := s.BlessedOf(t.Context(), 7)
		got, eerr := s.Attempts(t.Context(), 7, -1)
		if err != nil || aerr != nil || eerr != nil || one.Attempt != attempt || one.Answer.N != n || len(all) != min(n, 1) || got != evicted {
			t.Errorf("%s: %+v, %+v, %d evictions, %v, %v, %v", when, one, all, got, err, aerr, eerr)
		}
	}
	bless(3, 9)
	evict("i-1", 3, true)
	evict("i-2", 4, false)
	earlier := run(7, 4)
	writeRuns(t, s, earlier)
	want("it runs", 3, 9, 1)
	earlier.Open, earlier.Ended = false, time.Now()
	writeRuns(t, s, earlier)
	want("it has ended, and may be requeued", 3, 9, 1) // see TestARequeueAfterTheEnd
	next := run(7, 0)
	next.Submitted = time.Now()
	writeRuns(t, s, next)
	want("another has its id", 0, 0, 0)
	bless(0, 1)
	evict("i-3", 0, false)
	want("that is checkpointed", 0, 1, 1)
	bless(0, 2)
	told := told(t, s, RunsQuery{UID: -1, Job: 7})
	if len(told) != 2 || told[1].Checkpoints != 2 {
		t.Errorf("runs %+v", told)
	}
}

// TestARequeueAfterTheEnd: what is known of a job that has failed, and is requeued when
// its run is closed, is still its own, also if it waits for long.
func TestARequeueAfterTheEnd(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "burst.db"))
	failed := over(run(7, 0))
	if err := s.tx(t.Context(), func(tx *sql.Tx) error {
		w := writer{ctx: t.Context(), tx: tx}
		w.life(7, since.Add(40*time.Minute))
		return w.err
	}); err != nil {
		t.Fatal(err)
	}
	writeRuns(t, s, failed)
	j := slurm.Job{ID: 7, UID: failed.UID, ArrayID: failed.ArrayID, ArrayTask: failed.ArrayTask, HetID: failed.HetID, State: "PENDING", Restarts: 1,
		Submitted: failed.Ended.Add(5 * time.Minute)}
	see := func(taken time.Time) {
		t.Helper()
		opened, err := s.OpenRuns(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		in := history.Input{Snapshot: &slurm.Snapshot{Taken: taken, Jobs: map[uint32]slurm.Job{7: j}}}
		last, err := s.LastRuns(t.Context(), history.Meant(opened, in))
		if err != nil {
			t.Fatal(err)
		}
		writeRuns(t, s, history.Book(append(opened, last...), in)...)
		one, err := s.Blessed(t.Context(), 7, "0")
		all, aerr := s.BlessedOf(t.Context(), 7)
		evicted, eerr := s.Attempts(t.Context(), 7, -1)
		first, ferr := s.FirstSubmitted(t.Context(), 7)
		if one.Answer.N != 1 || len(all) != 1 || evicted != 1 || !first.Equal(failed.Submitted) {
			t.Errorf("%s: %+v, %+v, %d evictions, first submitted %s; %v, %v, %v, %v", j.State, one, all, evicted, first, err, aerr, eerr, ferr)
		}
	}
	see(j.Submitted.Add(time.Second))
	later := j.Submitted.Add(100 * 24 * time.Hour)
	if err := s.Prune(t.Context(), later.Add(-90*24*time.Hour)); err != nil {
		t.Fatal(err)
	}
	see(later)
	j.State, j.Start = "RUNNING", later
	see(later.Add(time.Minute))
	if all := told(t, s, RunsQuery{UID: -1, Job: 7}); len(all) != 1 || !all[0].Open || all[0].Evictions != 1 {
		t.Errorf("runs %+v", all)
	}
}
