package store

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/slurm/power"
)

func TestThePauseIsKept(t *testing.T) {
	path := filepath.Join(t.TempDir(), "burst.db")
	s := open(t, path)
	for _, want := range []power.Pause{{Since: at, By: "uid 0", Why: "w"}, {Since: at, By: "uid 5", Why: "w2"}, {}, {}} {
		if err := s.CommitPower(t.Context(), power.Change{Pause: &want}); err != nil {
			t.Fatal(err)
		}
		if err := s.CommitPower(t.Context(), power.Change{Events: []power.Event{{Time: at, Kind: "k"}}}); err != nil { // changes nothing
			t.Fatal(err)
		}
		s.Close()
		s = open(t, path)
		got, err := s.LoadPower(t.Context())
		if diff := cmp.Diff(want, got.Pause); err != nil || diff != "" {
			t.Errorf("%v (-want +got):\n%s", err, diff)
		}
	}
}

// TestDrills: only instances that live, and only the notices of drills.
func TestDrills(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "burst.db"))
	for _, tt := range []struct {
		id, source string
		kind       cloud.NoticeKind
		after      time.Duration // the deadline; below 0: none
		gone       bool
	}{
		{"i-late", "drill", cloud.SpotInterruption, 2 * time.Minute, false},
		{"i-soon", "drill", cloud.SpotInterruption, time.Minute, false},
		{"i-gone", "drill", cloud.SpotInterruption, time.Minute, true},
		{"i-cloud", "sqs", cloud.SpotInterruption, time.Minute, false},
		{"i-other", "drill", cloud.Rebalance, time.Minute, false},
		{"i-none", "drill", cloud.SpotInterruption, -1, false},
	} {
		i := power.Instance{Instance: cloud.Instance{ID: tt.id, Launched: at}, Provider: "east", Assigned: "n-" + tt.id}
		n := cloud.Notice{Instance: tt.id, Kind: tt.kind, Received: at, Source: tt.source}
		if tt.gone {
			i.Gone = at
		}
		if tt.after >= 0 {
			n.Deadline = at.Add(tt.after)
		}
		if _, err := s.AddNotice(t.Context(), "east", n); err != nil {
			t.Fatal(err)
		}
		if err := s.CommitPower(t.Context(), power.Change{Instances: []power.Instance{i}}); err != nil {
			t.Fatal(err)
		}
	}
	got, err := s.Drills(t.Context())
	want := []Drill{{"east", "i-soon", "n-i-soon", at.Add(time.Minute)}, {"east", "i-late", "n-i-late", at.Add(2 * time.Minute)}}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}
