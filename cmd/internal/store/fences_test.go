package store

import (
	"os"
	"path/filepath"
	"slices"
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

// TestAYoungJournalSaysWhetherItReplacesAnother: only that of a cluster which
// is as young knows that no cloud has anything of it.
func TestAYoungJournalSaysWhetherItReplacesAnother(t *testing.T) {
	path := filepath.Join(t.TempDir(), "burst.db")
	heard := func(after string, want ...string) *Store {
		t.Helper()
		s := open(t, path)
		if _, err := s.ClusterID(t.Context()); err != nil {
			t.Fatal(err)
		}
		if st, err := s.LoadPower(t.Context()); err != nil || !slices.Equal(st.Heard, want) {
			t.Errorf("%s: %q, want %q (%v)", after, st.Heard, want, err)
		}
		return s
	}
	heard("a new cluster", "").Close()
	heard("opened again", "").Close()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	s := heard("the journal was lost")
	for range 2 {
		if err := s.CommitPower(t.Context(), power.Change{Heard: []string{"east"}}); err != nil {
			t.Fatal(err)
		}
	}
	s.Close()
	heard("a first list has come", "east").Close()
}

func TestAnInstanceKeepsItsAccount(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "burst.db"))
	i := power.Instance{Instance: cloud.Instance{ID: "i-1"}, Provider: "east", Account: "123456789012 in us-east-1", Shown: true}
	if err := s.CommitPower(t.Context(), power.Change{Instances: []power.Instance{i}}); err != nil {
		t.Fatal(err)
	}
	if st, err := s.LoadPower(t.Context()); err != nil || len(st.Instances) != 1 || st.Instances[0] != i {
		t.Errorf("%+v, %v", st.Instances, err)
	}
}
