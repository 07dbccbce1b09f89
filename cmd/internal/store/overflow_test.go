package store

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/burst-hpc/burst/slurm/overflow"
)

func TestOverflows(t *testing.T) {
	path := filepath.Join(t.TempDir(), "burst.db")
	s := open(t, path)
	first := Overflowed{Record: overflow.Record{Key: overflow.Key{Job: 7, Task: -1}, UID: 1000, Submitted: at.Add(-time.Hour), Rule: "small", Was: []string{"main"}, To: []string{"cloud", "more"},
		State: overflow.Adding, At: at}, User: "ada", Why: "waits"}
	task := first
	task.Key, task.UID, task.At = overflow.Key{Job: 9, Task: 3}, 1001, at.Add(time.Second)
	if err := s.PutOverflows(t.Context(), []Overflowed{first, task}); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil { // what is written is there after a death
		t.Fatal(err)
	}
	s = open(t, path)
	got, err := s.OpenOverflows(t.Context())
	if d := cmp.Diff([]Overflowed{first, task}, got); d != "" || err != nil {
		t.Fatal(d, err)
	}
	again := first // the same job at the same time twice is one
	again.At = at.Add(time.Minute)
	if err := s.PutOverflows(t.Context(), []Overflowed{again}); err == nil {
		t.Error("a job has two open rows")
	}
	first.State, first.Ended, first.EndedWhy = overflow.InPlace, at.Add(time.Minute), "ran in cloud"
	if err := s.PutOverflows(t.Context(), []Overflowed{first}); err != nil {
		t.Fatal(err)
	}
	if err := s.PutOverflows(t.Context(), []Overflowed{again}); err != nil { // it goes once more
		t.Fatal(err)
	}
	for uid, want := range map[int][]Overflowed{-1: {first, task, again}, 1000: {first, again}, 1002: nil} {
		got, err := s.Overflows(t.Context(), uid, 10)
		if d := cmp.Diff(want, got); d != "" || err != nil {
			t.Error(uid, d, err)
		}
	}
	if got, err := s.Overflows(t.Context(), -1, 1); err != nil || len(got) != 1 || got[0].At != again.At {
		t.Error(got, err)
	}
	if err := s.Prune(t.Context(), at.Add(2*time.Minute)); err != nil {
		t.Fatal(err)
	}
	if got, err := s.Overflows(t.Context(), -1, 10); err != nil || len(got) != 2 {
		t.Error("open rows are not pruned, those that have ended are:", got, err)
	}
}
