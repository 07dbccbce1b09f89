package store

import (
	"path/filepath"
	"testing"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/ft"
)

// TestBudgetIsNoEviction: what the site's budget ends does not count to a job's retries.
func TestBudgetIsNoEviction(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "burst.db"))
	for n, kind := range []cloud.NoticeKind{cloud.SpotInterruption, ft.Spent, ft.Spent, cloud.Rebalance} {
		e := ft.Eviction{Instance: "i-1", Kind: kind, Job: 7, Restarts: n, Node: "c1", Stage: ft.Done, Ending: ft.Moved, Began: at, Ended: at}
		e.Instance += string(rune('a' + n))
		if err := s.CommitFT(t.Context(), ft.Change{Evictions: []ft.Eviction{e}}); err != nil {
			t.Fatal(err)
		}
	}
	if n, err := s.Attempts(t.Context(), 7, -1); n != 2 || err != nil {
		t.Errorf("%d attempts were evicted (%v), want 2", n, err)
	}
}
