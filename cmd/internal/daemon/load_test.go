package daemon

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/cmd/internal/api"
	"github.com/burst-hpc/burst/cmd/internal/config"
	"github.com/burst-hpc/burst/cmd/internal/ledger"
	"github.com/burst-hpc/burst/cmd/internal/store"
	"github.com/burst-hpc/burst/ft"
	"github.com/burst-hpc/burst/slurm/power"
)

// TestStatusSaysWhatRunsAndWaits: by pool, with what it costs as soon as that
// has been summed up.
func TestStatusSaysWhatRunsAndWaits(t *testing.T) {
	c := newCounted(t)
	pools := []config.Pool{{Power: power.Pool{Name: "q"}}, {Power: power.Pool{Name: "p"}}}
	d := &Daemon{cfg: &config.Config{Pools: pools}, meters: c.meters}
	live := power.Instance{Instance: cloud.Instance{ID: "i-1", Pool: "p", Offering: small}}
	ending := live
	ending.Doomed = "suspended"
	stranger := live
	stranger.Pool = "gone"
	h := power.Health{Nodes: []power.Node{{Name: "c1", Pool: "p", Phase: power.Up}, {Name: "c2", Pool: "gone", Phase: power.Up}},
		Instances: []power.Instance{live, ending, stranger}, Holds: make([]power.Hold, api.MaxListed+1)}
	h.Holds[0] = power.Hold{Job: 7, Start: noon, Why: "no capacity", Tries: 2}
	var s api.Status
	d.load(&s, h)
	if s.USDPerHour != nil || s.Wait != api.MaxListed+1 || len(s.Waiting) != api.MaxListed {
		t.Errorf("USD %v before they are summed up; %d jobs wait, %d are listed", s.USDPerHour, s.Wait, len(s.Waiting))
	}
	if d := cmp.Diff(api.Waiting{Job: 7, Until: noon, Why: "no capacity", Tries: 2}, s.Waiting[0]); d != "" {
		t.Error(d)
	}
	c.costs(ledger.Input{Instances: h.Instances, Price: func(string, cloud.Offering) ledger.Price { return ledger.Price{USDPerHour: 2} }})
	s = api.Status{}
	d.load(&s, h)
	want := []api.PoolLoad{{Pool: "q", Nodes: map[string]int{}},
		{Pool: "p", Nodes: map[string]int{"up": 1}, Instances: 2, Ending: 1, USDPerHour: 4}}
	if d := cmp.Diff(want, s.Pools); d != "" || s.USDPerHour == nil || *s.USDPerHour != 6 {
		t.Errorf("USD %v %s", s.USDPerHour, d)
	}
}

// TestStatusListsEvictions: the nearest deadline first, those without one last,
// and none of which nothing becomes.
func TestStatusListsEvictions(t *testing.T) {
	ctx := t.Context()
	st, err := store.Open(ctx, filepath.Join(t.TempDir(), "burst.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	d := &Daemon{store: st}
	add := func(instance string, deadline time.Time, stage ft.Stage) {
		n := cloud.Notice{Instance: instance, Kind: cloud.SpotInterruption, Deadline: deadline, Received: noon, Source: "sqs"}
		if _, err := st.AddNotice(ctx, "east", n); err != nil {
			t.Fatal(err)
		}
		c := ft.Change{Notices: []ft.Notice{{Notice: n, Provider: "east", Node: "c-" + instance, Stage: stage}}}
		if instance == "i-2" {
			c.Evictions = []ft.Eviction{{Instance: instance, Kind: n.Kind, Job: 7, Stage: ft.Signalled, Began: noon}}
		}
		if err := st.CommitFT(ctx, c); err != nil {
			t.Fatal(err)
		}
	}
	add("i-1", noon.Add(2*time.Minute), ft.Draining)
	add("i-2", noon.Add(time.Minute), ft.Draining)
	add("i-3", time.Time{}, ft.Draining)
	add("i-4", noon, ft.Foreign)
	var s api.Status
	if err := d.evicting(ctx, &s); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range s.Evicting {
		got = append(got, e.Node)
	}
	if diff := cmp.Diff([]string{"c-i-2", "c-i-1", "c-i-3"}, got); diff != "" {
		t.Error(diff)
	} else if diff := cmp.Diff([]api.EvictingJob{{Job: 7, Stage: "signalled"}}, s.Evicting[0].Jobs); diff != "" {
		t.Error(diff)
	}
}
