package store

import (
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/slurm/power"
)

// TestFences: they outlive burstd, and not their instances.
func TestFences(t *testing.T) {
	path := filepath.Join(t.TempDir(), "burst.db")
	s := open(t, path)
	f := func(instance string, job uint32, restarts int) power.Fence {
		return power.Fence{Instance: instance, Job: job, Restarts: restarts, Node: "c1", Since: at}
	}
	gone := power.Instance{Instance: cloud.Instance{ID: "i-2"}, Gone: at}
	for _, c := range []power.Change{
		{Fences: []power.Fence{f("i-1", 7, 0), f("i-1", 0, 0), f("i-2", 7, 0), f("i-3", 7, 0)}},
		{Fences: []power.Fence{f("i-1", 7, 3)}, DropFences: []string{"i-3"}},
		{Instances: []power.Instance{gone}},
	} {
		if err := s.CommitPower(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	s.Close()
	got, err := open(t, path).LoadPower(t.Context())
	if diff := cmp.Diff([]power.Fence{f("i-1", 0, 0), f("i-1", 7, 3)}, got.Fences); err != nil || diff != "" {
		t.Errorf("loaded: %v (-want +got):\n%s", err, diff)
	}
}
