package clouds

import (
	"context"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/cloud/fleet"
	"github.com/burst-hpc/burst/cloud/vultr"
	"github.com/burst-hpc/burst/cloud/vultr/vultrtest"
	"github.com/burst-hpc/burst/cmd/internal/store"
	"github.com/burst-hpc/burst/slurm"
	"github.com/burst-hpc/burst/slurm/power"
	"github.com/burst-hpc/burst/slurm/slurmtest"
)

// booting boots a slurmd on each instance that is told its node.
type booting struct {
	*vultr.Provider
	ctl *slurmtest.Controller
}

// Assign implements cloud.Assigner.
func (b booting) Assign(ctx context.Context, nodes map[string]string) error {
	if err := b.Provider.Assign(ctx, nodes); err != nil {
		return err
	}
	born := time.Now()
	for _, node := range nodes {
		time.AfterFunc(200*time.Millisecond, func() { b.ctl.RegisterBooted(node, born) })
	}
	return nil
}

// One of Vultr's requests takes effect twice, and its answer is lost: the engine
// has the job's two nodes all the same, and ends the third instance, which is no node's.
func TestDoubleIsEnded(t *testing.T) {
	if testing.Short() {
		t.Skip("waits until reconciliation is sure: slow, run by make test")
	}
	t.Setenv("VULTR_API_KEY", vultrtest.Key)
	fake := vultrtest.New(vultrtest.Options{})
	if err := fake.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := fake.Close(); err != nil {
			t.Error(err)
		}
	})
	fake.Fail("POST instances", vultrtest.Fault{Twice: true, Skip: 1})
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	orders := make(chan power.Order, 10)
	order := func(kind power.OrderKind, nodes, file string) {
		orders <- power.Order{ID: string(kind) + nodes, Kind: kind, Nodes: nodes, ResumeFile: file, Made: time.Now()}
	}
	ctl := slurmtest.New(slurmtest.Options{Nodes: []string{"v1", "v2"}, SuspendTime: time.Hour, ResumeTimeout: time.Minute, ReturnToService: 2,
		OnResume:  func(nodes, file string) { order(power.Resume, nodes, file) },
		OnSuspend: func(nodes string) { order(power.Suspend, nodes, "") },
	})
	journal, err := store.Open(ctx, filepath.Join(t.TempDir(), "burst.db"))
	if err != nil {
		t.Fatal(err)
	}
	cluster, err := journal.ClusterID(ctx)
	if err != nil {
		t.Fatal(err)
	}
	p, err := vultr.New(vultr.Config{Name: "lon", Region: vultrtest.Region, Dir: t.TempDir(), Endpoint: fake.URL(), Lag: time.Second,
		Pools: map[string]vultr.Pool{"v": {}}})
	if err != nil {
		t.Fatal(err)
	}
	client := slurm.New(ctl)
	engine := power.New(power.Config{Cluster: cluster, Reconcile: time.Second, Pools: []power.Pool{{Name: "v", Provider: "lon", Nodes: []string{"v1", "v2"},
		Partition: "cloud", Image: "os:2136", Fleet: fleet.Config{Types: []string{vultrtest.Plan}}}}}, journal, struct {
		*slurm.Client
		*slurm.Watcher
	}{client, slurm.NewWatcher(client.Snapshot, 100*time.Millisecond)},
		map[string]cloud.Provider{"lon": booting{p, ctl}}, slog.New(slog.DiscardHandler))
	if err := engine.Load(ctx); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() { ctl.Serve(ctx) })
	wg.Go(func() { engine.Run(ctx) })
	t.Cleanup(func() {
		cancel()
		wg.Wait()
		if err := journal.Close(); err != nil {
			t.Error(err)
		}
	})
	ctl.Submit(slurmtest.Job{Nodes: 2})
	nodes := func() []string {
		var all []string
		for _, m := range fake.Machines() {
			for _, tag := range m.Tags {
				if node, ok := strings.CutPrefix(tag, "burst:node="); ok {
					all = append(all, node)
				}
			}
		}
		return slices.Sorted(slices.Values(all))
	}
	most := 0
	for ended := false; !ended; {
		select {
		case <-ctx.Done():
			t.Fatalf("there are %d machines, of nodes %v", len(fake.Machines()), nodes())
		case o := <-orders:
			if err := engine.AddOrder(ctx, o); err != nil {
				t.Fatal(err)
			}
		case <-time.After(20 * time.Millisecond):
		}
		n := len(fake.Machines())
		most = max(most, n)
		ended = most == 3 && n == 2 && slices.Equal(nodes(), []string{"v1", "v2"})
	}
	// And the two stay.
	listed, err := p.List(ctx, cloud.Filter{Cluster: cluster})
	stay := slices.DeleteFunc(slices.Clone(listed), func(i cloud.Instance) bool {
		return i.State == cloud.Terminating || i.State == cloud.Terminated // the third, which Vultr has destroyed
	})
	if err != nil || len(stay) != 2 {
		t.Errorf("listed are %v, %v", listed, err)
	}
}
