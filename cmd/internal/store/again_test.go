package store

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/ft"
	"github.com/burst-hpc/burst/ft/session"
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
	want("it has ended, and may be requeued", 3, 9, 1)
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
