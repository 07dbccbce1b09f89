package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/cloud/cloudtest"
	"github.com/burst-hpc/burst/cloud/fleet"
	"github.com/burst-hpc/burst/cmd/internal/store"
	"github.com/burst-hpc/burst/slurm"
	"github.com/burst-hpc/burst/slurm/power"
	"github.com/burst-hpc/burst/slurm/slurmtest"
)

// The cloud of Scale, after what clouds were seen to do.
const (
	scaleNodes     = 1000
	scaleMaxLaunch = 500
	scaleLaunch    = 2 * time.Second        // one Launch
	scaleAddr      = time.Second            // from launch to a known address
	scaleList      = 300 * time.Millisecond // one List
	scaleBootMin   = 25 * time.Second       // from launch to the slurmd's registration
	scaleBootMax   = 35 * time.Second
)

// ScaleFigures are what one resume of 1,000 nodes took.
type ScaleFigures struct {
	Started float64 `json:"started"` // s from the order to the start of the job's script
	Closed  float64 `json:"closed"`  // s from the order until all nodes are up in the journal
	Reads   int     `json:"reads"`   // calls of scontrol show until then
	Updates int     `json:"updates"` // calls of scontrol update until then
	Queues  int     `json:"queues"`  // calls of squeue until then
	RSS     float64 `json:"rss"`     // MB, the most that this process ever had
}

// Scale resumes 1,000 nodes at once, for one job, and measures it. It is for
// a process of its own: dir takes the journal.
func Scale(ctx context.Context, dir string) (ScaleFigures, error) {
	w, err := newScaleWorld(ctx, dir)
	if err != nil {
		return ScaleFigures{}, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, 3*time.Minute, errors.New("1,000 nodes were not up within 3 minutes"))
	var wg sync.WaitGroup
	wg.Go(func() { w.ctl.Serve(ctx) })
	wg.Go(func() { w.engine.Run(ctx) })
	f, err := w.measure(ctx)
	cancel()
	wg.Wait()
	return f, errors.Join(err, w.journal.Close())
}

// scaleWorld is a burstd's engine between a simulated Slurm and a cloud in memory.
type scaleWorld struct {
	ctl     *slurmtest.Controller
	engine  *power.Engine
	journal *store.Store
	orders  chan power.Order
	started chan time.Time
}

func newScaleWorld(ctx context.Context, dir string) (*scaleWorld, error) {
	w := &scaleWorld{orders: make(chan power.Order, 1), started: make(chan time.Time, 1)}
	names := make([]string, scaleNodes)
	for i := range names {
		names[i] = fmt.Sprint("c", i+1)
	}
	w.ctl = slurmtest.New(slurmtest.Options{
		Nodes: names, SuspendTime: time.Hour, ResumeTimeout: 10 * time.Minute, ReturnToService: 2,
		OnResume: func(nodes, file string) {
			w.orders <- power.Order{ID: nodes, Kind: power.Resume, Nodes: nodes, ResumeFile: file, Made: time.Now()}
		},
	})
	var err error
	if w.journal, err = store.Open(ctx, filepath.Join(dir, "burst.db")); err != nil {
		return nil, err
	}
	id, err := w.journal.ClusterID(ctx)
	if err != nil {
		return nil, errors.Join(err, w.journal.Close())
	}
	pool := power.Pool{Name: "p", Provider: "fake", Nodes: names, Partition: "cloud",
		Fleet: fleet.Config{Types: []string{"small"}, Zones: []string{"a"}, Market: fleet.SpotThenOnDemand}}
	machines := &scaleCloud{ctl: w.ctl, launched: map[string]time.Time{}, Fake: cloudtest.NewFake(cloudtest.Options{
		Latency: map[cloudtest.Op]time.Duration{cloudtest.Launch: scaleLaunch, cloudtest.List: scaleList},
		Boot:    scaleBootMin, AddrDelay: scaleAddr, Lag: scaleAddr, MaxLaunch: scaleMaxLaunch,
	})}
	client := slurm.New(w.ctl)
	ctl := struct {
		*slurm.Client
		*slurm.Watcher
	}{client, slurm.NewWatcher(client.Snapshot, 100*time.Millisecond)}
	w.engine = power.New(power.Config{Cluster: id, Pools: []power.Pool{pool}}, w.journal, ctl,
		map[string]cloud.Provider{"fake": machines}, slog.New(slog.NewTextHandler(io.Discard, nil)))
	if err := w.engine.Load(ctx); err != nil {
		return nil, errors.Join(err, w.journal.Close())
	}
	return w, nil
}

// scaleCloud boots a slurmd on each instance that has been told its node.
type scaleCloud struct {
	*cloudtest.Fake
	ctl *slurmtest.Controller

	mu       sync.Mutex
	launched map[string]time.Time // instance -> when; away once it boots
	booting  int
}

var (
	_ cloud.Provider = (*scaleCloud)(nil)
	_ cloud.Assigner = (*scaleCloud)(nil)
)

// Launch implements cloud.Provider.
func (s *scaleCloud) Launch(ctx context.Context, r cloud.LaunchRequest) ([]cloud.Instance, error) {
	all, err := s.Fake.Launch(ctx, r)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, i := range all {
		s.launched[i.ID] = i.Launched
	}
	return all, err
}

// Assign implements cloud.Assigner.
func (s *scaleCloud) Assign(ctx context.Context, nodes map[string]string) error {
	if err := s.Fake.Assign(ctx, nodes); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, node := range nodes {
		launched, ok := s.launched[id]
		if !ok {
			continue
		}
		delete(s.launched, id)
		boot := scaleBootMin + (scaleBootMax-scaleBootMin)*time.Duration(s.booting)/scaleNodes
		s.booting++
		time.AfterFunc(time.Until(launched.Add(boot)), func() { s.ctl.RegisterBooted(node, launched) })
	}
	return nil
}

func (w *scaleWorld) measure(ctx context.Context) (f ScaleFigures, err error) {
	// A daemon that has just started reads Slurm once more than one that runs.
	if err := w.until(ctx, func() bool { return w.ctl.Count("scontrol -o show nodes") > 0 }); err != nil {
		return f, err
	}
	w.ctl.Submit(slurmtest.Job{Nodes: scaleNodes, OnStart: func(uint32, int) { w.started <- time.Now() }})
	var order power.Order
	select {
	case <-ctx.Done():
		return f, context.Cause(ctx)
	case order = <-w.orders:
	}
	if err := w.engine.AddOrder(ctx, order); err != nil {
		return f, err
	}
	select {
	case <-ctx.Done():
		return f, context.Cause(ctx)
	case at := <-w.started:
		f.Started = at.Sub(order.Made).Seconds()
	}
	if err := w.until(ctx, func() bool { return w.engine.Health().Orders == 0 }); err != nil {
		return f, err
	}
	f.Closed = time.Since(order.Made).Seconds()
	f.Reads, f.Updates, f.Queues = commands(w.ctl, order.Made)
	f.RSS, err = peakRSS()
	return f, err
}

// commands counts the calls of scontrol show, scontrol update and squeue.
func commands(ctl *slurmtest.Controller, since time.Time) (reads, updates, queues int) {
	for _, c := range ctl.Calls() {
		switch {
		case c.At.Before(since):
		case c.Name == "squeue":
			queues++
		case c.Name == "scontrol" && c.Args[0] == "update":
			updates++
		case c.Name == "scontrol":
			reads++
		}
	}
	return reads, updates, queues
}

// until polls for cond.
func (w *scaleWorld) until(ctx context.Context, cond func() bool) error {
	for !cond() {
		if err := pause(ctx, 100*time.Millisecond); err != nil {
			return err
		}
	}
	return nil
}

// peakRSS is the most resident memory that this process ever had, in MB.
func peakRSS() (float64, error) {
	_, peak, err := memoryOf(os.Getpid())
	return peak, err
}
