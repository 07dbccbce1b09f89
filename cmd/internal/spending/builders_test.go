package spending

import (
	"math"
	"testing"
	"time"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/cmd/internal/store"
	"github.com/burst-hpc/burst/slurm/overflow/budget"
	"github.com/burst-hpc/burst/slurm/power"
)

// TestBuildersCount: an instance of which an image is made counts to the cluster, once, for as long as it may live.
func TestBuildersCount(t *testing.T) {
	now := time.Now()
	i := power.Instance{Provider: "east", Instance: cloud.Instance{ID: "i-9", Token: cloud.BuilderToken(now.Add(time.Hour)), Pool: "p", Offering: small, Launched: now.Add(-20 * time.Minute)}}
	for name, c := range map[string]struct {
		known []power.Instance
		min   float64
	}{"it lives": {nil, 80}, "it is booked by now": {[]power.Instance{func() power.Instance {
		gone := i
		gone.Gone, gone.Ended = now, now
		return gone
	}()}, 20}} {
		k := site(budget.Caps{Cluster: budget.Limits{Day: 100}, Users: map[string]budget.Limits{"ann": {Day: 100}}, Location: noon()})
		k.Ledger = books{Instances: c.known}
		rows, err := k.Rows(t.Context(), power.Standing{Builders: []power.Instance{i}})
		if err != nil {
			t.Fatal(err)
		}
		if got := rows[0].Committed * 60; math.Abs(got-c.min) > 0.05 || rows[1].Committed > 0 {
			t.Errorf("%s: %.2f minutes are committed, want %g; and %g USD of ann's", name, got, c.min, rows[1].Committed)
		}
		k.Ledger = books{}
		i.Offering.Type = "other"
		for unknown, want := range map[float64]bool{0: false, 3: true} {
			k.Caps.Unknown = unknown
			if rows, err := k.Rows(t.Context(), power.Standing{Builders: []power.Instance{i}}); err != nil || rows[0].Committed > 0 != want || rows[0].Unpriced > 0 {
				t.Errorf("%s: without a price, with unknown_price %g: %+v, %v", name, unknown, rows[0], err)
			}
		}
		i.Offering, k.Caps.Unknown, k.Ledger = small, 0, books{Instances: c.known}
		if real, err := k.Real(t.Context(), power.Standing{Builders: []power.Instance{i}}); err != nil || c.known == nil && real[0].Committed > 0 {
			t.Errorf("%s: what is not booked is no reason to end jobs: %+v, %v", name, real, err)
		}
	}
}

// TestBuildersCloseNoNodes: what an image could come to cost takes no node from jobs; what it has cost is spent.
func TestBuildersCloseNoNodes(t *testing.T) {
	now := time.Now()
	i := power.Instance{Provider: "east", Instance: cloud.Instance{ID: "i-9", Token: cloud.BuilderToken(now.Add(time.Hour)), Pool: "p", Offering: small, Launched: now.Add(-20 * time.Minute)}}
	for _, c := range []struct {
		name  string
		spent float64
		live  []power.Instance
		want  bool
	}{
		{"there is room", 0.1, []power.Instance{i}, false},
		{"only the builder is too much", 0.9, []power.Instance{i}, false},
		{"what is spent is too much", 1.1, []power.Instance{i}, true},
		{"and there is no builder", 1.1, nil, true},
	} {
		k := site(budget.Caps{Cluster: budget.Limits{Day: 1}, Location: noon()})
		k.Ledger = books{Spent: []store.Spent{{Sums: store.Sums{USD: c.spent}}}}
		s := power.Standing{Builders: c.live}
		rows, err := k.Rows(t.Context(), s)
		if err != nil {
			t.Fatal(err)
		}
		r, is, err := k.Exceeded(t.Context(), s, rows)
		if err != nil || is != c.want || is && (r.Spent != c.spent || r.Committed > 0) {
			t.Errorf("%s: %t, %+v, %v", c.name, is, r, err)
		}
	}
}
