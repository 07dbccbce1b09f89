package store

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/ft"
	"github.com/burst-hpc/burst/slurm/power"
)

func TestHowOftenInstancesAreEvicted(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "burst.db"))
	now := time.Now().Truncate(time.Microsecond)
	since := now.Add(-100 * time.Hour)
	one := func(id, pool string, market cloud.Market, from, to time.Duration, doomed string) power.Instance {
		i := power.Instance{Instance: cloud.Instance{ID: id, Pool: pool, Offering: cloud.Offering{Market: market}, Launched: now.Add(-from)}, Provider: "east", Doomed: doomed}
		if to > 0 {
			i.Gone = now.Add(-to)
		}
		return i
	}
	all := []power.Instance{
		one("told", "a", cloud.Spot, 20*time.Hour, 10*time.Hour, "suspended"),
		one("late", "a", cloud.Spot, 20*time.Hour, 15*time.Hour, power.CloudEnded), // its notice came with its end
		one("died", "a", cloud.Spot, 20*time.Hour, 18*time.Hour, power.CloudEnded),
		one("drilled", "a", cloud.Spot, 20*time.Hour, 19*time.Hour, "suspended"),
		one("called off", "a", cloud.Spot, 20*time.Hour, 19*time.Hour, "suspended"),
		one("since before", "a", cloud.Spot, 200*time.Hour, 98*time.Hour, "suspended"),
		one("before", "a", cloud.Spot, 200*time.Hour, 101*time.Hour, power.CloudEnded),
		one("on demand", "a", cloud.OnDemand, 50*time.Hour, 2*time.Hour, power.CloudEnded),
		one("lives", "b", cloud.Spot, 30*time.Hour, 0, ""),
	}
	if err := s.CommitPower(t.Context(), power.Change{Instances: all}); err != nil {
		t.Fatal(err)
	}
	for _, n := range []struct {
		id, source string
		lead       time.Duration
		off        bool
	}{{"told", "imds", 2 * time.Minute, false}, {"late", "sqs", -time.Minute, false}, {"drilled", "drill", 2 * time.Minute, false}, {"called off", "imds", time.Hour, true}} {
		notice := cloud.Notice{Instance: n.id, Kind: cloud.SpotInterruption, Source: n.source, Received: now, Deadline: now.Add(n.lead), Cancelled: n.off}
		if _, err := s.AddNotice(t.Context(), "east", notice); err != nil {
			t.Fatal(err)
		}
		if err := s.CommitFT(t.Context(), ft.Change{Notices: []ft.Notice{{Notice: notice, Node: "c1", Stage: ft.Draining}}}); err != nil {
			t.Fatal(err)
		}
	}
	got, err := s.Evicted(t.Context(), since)
	if err != nil {
		t.Fatal(err)
	}
	for i := range got {
		got[i].Watched = got[i].Watched.Round(time.Hour)
	}
	want := []Evicted{{Pool: "a", Watched: (10 + 5 + 2 + 1 + 1 + 2) * time.Hour, Evictions: 3, Told: 1}, {Pool: "b", Watched: 30 * time.Hour}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
