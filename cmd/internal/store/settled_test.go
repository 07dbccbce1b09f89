package store

import (
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/burst-hpc/burst/cmd/internal/history"
)

func TestARunIsSettledOnceForEachEnd(t *testing.T) {
	path := filepath.Join(t.TempDir(), "burst.db")
	s := open(t, path)
	unsettled := func(after time.Time, most int, want ...uint32) []history.Run {
		t.Helper()
		all, err := s.Unsettled(t.Context(), after, most)
		if err != nil {
			t.Fatal(err)
		}
		var ids []uint32
		for _, r := range all {
			ids = append(ids, r.Job)
		}
		if !slices.Equal(ids, want) {
			t.Errorf("unsettled are %v, want %v", ids, want)
		}
		return all
	}
	ended := func(id uint32, at time.Duration) history.Run {
		r := over(run(id, 0))
		r.Ended = since.Add(at)
		return r
	}
	elsewhere, forgotten := ended(4, 40*time.Minute), ended(5, 40*time.Minute)
	elsewhere.Pool, forgotten.State = "", history.Unknown
	writeRuns(t, s, ended(1, 30*time.Minute), ended(2, 20*time.Minute), run(3, 0), elsewhere, forgotten)
	unsettled(since, 9, 2, 1)
	unsettled(since, 1, 2)
	unsettled(since.Add(20*time.Minute), 9, 1)
	if err := s.SettleRuns(t.Context(), unsettled(since, 9, 2, 1)); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = open(t, path)
	unsettled(since, 9)
	writeRuns(t, s, ended(1, 30*time.Minute)) // again, as the history may
	unsettled(since, 9)
	writeRuns(t, s, run(2, 1)) // it was requeued after all
	unsettled(since, 9)
	writeRuns(t, s, ended(2, 50*time.Minute))
	unsettled(since, 9, 2)
}
