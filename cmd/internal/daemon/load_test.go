package daemon

import (
	"context"
	"log/slog"
	"reflect"
	"testing"
	"time"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/cmd/internal/api"
	"github.com/burst-hpc/burst/cmd/internal/config"
	"github.com/burst-hpc/burst/cmd/internal/ledger"
	"github.com/burst-hpc/burst/cmd/internal/store"
	"github.com/burst-hpc/burst/ft"
	"github.com/burst-hpc/burst/slurm/conf"
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
	if want := (api.Waiting{Job: 7, Until: noon, Why: "no capacity", Tries: 2}); !reflect.DeepEqual(s.Waiting[0], want) {
		t.Errorf("waiting %+v, want %+v", s.Waiting[0], want)
	}
	c.costs(ledger.Input{Instances: h.Instances, Price: func(string, cloud.Offering) ledger.Price { return ledger.Price{USDPerHour: 2} }})
	s = api.Status{}
	d.load(&s, h)
	want := []api.PoolLoad{{Pool: "q", Nodes: map[string]int{}},
		{Pool: "p", Nodes: map[string]int{"up": 1}, Instances: 2, Ending: 1, USDPerHour: 4}}
	if !reflect.DeepEqual(s.Pools, want) || s.USDPerHour == nil || *s.USDPerHour != 6 {
		t.Errorf("USD %v; pools %+v, want %+v", s.USDPerHour, s.Pools, want)
	}
}

// TestStatusListsEvictions: the nearest deadline first, those without one last,
// and none of which nothing becomes.
func TestStatusListsEvictions(t *testing.T) {
	ctx := t.Context()
	st, err := store.Open(ctx, newJournal(t))
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
	if want := []string{"c-i-2", "c-i-1", "c-i-3"}; !reflect.DeepEqual(got, want) {
		t.Errorf("evicting %q, want %q", got, want)
	} else if jobs, want := s.Evicting[0].Jobs, []api.EvictingJob{{Job: 7, Stage: "signalled"}}; !reflect.DeepEqual(jobs, want) {
		t.Errorf("jobs %+v, want %+v", jobs, want)
	}
}

// TestStatusShowsUnusedServers: a server of files runs, and nothing is there that mounts from it.
func TestStatusShowsUnusedServers(t *testing.T) {
	pools := []config.Pool{{Power: power.Pool{Name: "p", Nodes: []string{"c1"}, Needs: []string{"s1"}}},
		{Power: power.Pool{Name: "s", Nodes: []string{"s1"}}, Slurm: conf.Pool{Server: true}}}
	d := &Daemon{cfg: &config.Config{Pools: pools}, meters: newCounted(t).meters}
	server := power.Node{Name: "s1", Pool: "s", Phase: power.Up}
	for _, tt := range []struct {
		name string
		h    power.Health
		want bool
	}{
		{"alone", power.Health{Nodes: []power.Node{server}}, true},
		{"it is off", power.Health{}, false},
		{"it boots", power.Health{Nodes: []power.Node{{Name: "s1", Pool: "s", Phase: power.Booting}}}, false},
		{"a node is there", power.Health{Nodes: []power.Node{server, {Name: "c1", Pool: "p", Phase: power.Wanted}}}, false},
		{"an instance ends", power.Health{Nodes: []power.Node{server}, Instances: []power.Instance{{Instance: cloud.Instance{Pool: "p"}, Doomed: "suspended"}}}, false},
	} {
		var s api.Status
		d.load(&s, tt.h)
		if s.Pools[0].Unused || s.Pools[1].Unused != tt.want {
			t.Errorf("%s: %+v", tt.name, s.Pools)
		}
	}
}

// TestServersAreNoWards: a server of files is not drained, and ended, for being sick.
func TestServersAreNoWards(t *testing.T) {
	if got := addresses(map[string]string{"b": "10.0.0.2", "a": "10.0.0.1"}); got != "a=10.0.0.1 b=10.0.0.2" {
		t.Errorf("nodes read %q", got)
	}
	st := power.State{}
	for _, name := range []string{"c1", "s1", "s2"} {
		st.Nodes = append(st.Nodes, power.Node{Name: name, Pool: "pool-" + name, Phase: power.Up, Instance: "i-" + name})
		st.Instances = append(st.Instances, power.Instance{Instance: cloud.Instance{ID: "i-" + name}, Provider: "east", Assigned: name})
	}
	st.Instances[2].Serves = true // its pool has left burst.toml
	e := engineOf(t, power.Config{Pools: []power.Pool{{Name: "pool-s1", Nodes: []string{"s1"}, Serves: true}, {Name: "pool-c1", Nodes: []string{"c1"}}}}, st)
	if !e.ServesFiles("s1") || !e.ServesFiles("s2") || e.ServesFiles("c1") {
		t.Error("which nodes serve files")
	}
	if files := (&Daemon{engine: e}).files(e.Health()); len(files) != 1 || files[0] != (api.FilesOn{Instance: "i-s2", Node: "s2"}) {
		t.Errorf("files are on %+v", files) // the journal says so of i-s1 with the first reading of Slurm
	}
	up := wards{engine: e}.Up()
	if len(up) != 1 || up[0].Name != "c1" {
		t.Errorf("watched are %+v", up)
	}
}

// engineOf is an engine that has loaded a state.
func engineOf(t *testing.T, cfg power.Config, st power.State) *power.Engine {
	t.Helper()
	e := power.New(cfg, loaded{state: st}, nil, nil, slog.New(slog.DiscardHandler))
	if err := e.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	return e
}

// loaded is a journal that holds a state.
type loaded struct{ state power.State }

func (l loaded) LoadPower(context.Context) (power.State, error)    { return l.state, nil }
func (loaded) AddOrder(context.Context, power.Order) (bool, error) { return true, nil }
func (loaded) CommitPower(context.Context, power.Change) error     { return nil }
func (loaded) Known(context.Context, []string) (map[string]bool, error) {
	return nil, nil
}
