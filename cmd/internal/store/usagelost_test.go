package store

import (
	"math"
	"path/filepath"
	"testing"
	"time"

	"github.com/burst-hpc/burst/cmd/internal/history"
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
	if err := s.PutRuns(t.Context(), []history.Run{before, r}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.db.Exec(`UPDATE runs SET lost = 100000000, writing = 50000000`); err != nil {
		t.Fatal(err)
	}
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
			var lost, ckpt Unused
			for _, u := range all {
				lost, ckpt = Unused{lost.Seconds + u.Lost.Seconds, lost.USD + u.Lost.USD}, Unused{ckpt.Seconds + u.Checkpoints.Seconds, ckpt.USD + u.Checkpoints.USD}
			}
			near := func(a, b float64) bool { return math.Abs(a-b) < 1e-9 }
			if !near(lost.Seconds, 150*tt.part) || !near(lost.USD, 0.15*tt.part) || !near(ckpt.Seconds, 75*tt.part) || !near(ckpt.USD, 0.075*tt.part) {
				t.Errorf("%+v %+v", lost, ckpt)
			}
		})
	}
}
