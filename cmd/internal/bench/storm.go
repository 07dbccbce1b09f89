package bench

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/cmd/internal/store"
	"github.com/burst-hpc/burst/ft"
	"github.com/burst-hpc/burst/slurm"
	"github.com/burst-hpc/burst/slurm/hostlist"
	"github.com/burst-hpc/burst/slurm/power"
	"github.com/burst-hpc/burst/slurm/slurmtest"
)

// The storm: 200 jobs of 3 nodes and 100 of 4, on half of the nodes that there are.
const (
	stormNodes = 1000
	stormJobs  = 300
	stormBoot  = 200 * time.Millisecond
)

// stormCosts are what commands of Slurm 22.05 take from start to end, rounded
// up, for a cluster of 2,000 nodes; the first that fits.
var stormCosts = []struct {
	command string
	takes   time.Duration
}{
	{"scontrol -o show nodes", 20 * time.Millisecond},
	{"scontrol update nodename", 15 * time.Millisecond},
	{"squeue", 10 * time.Millisecond},
	{"scancel", 8 * time.Millisecond},
	{"scontrol", 5 * time.Millisecond},
}

// StormFigures are what storms took.
type StormFigures struct {
	Drained []float64 `json:"drained"` // s from the first notice until all nodes are drained and all jobs signalled, of each storm
	Updates []int     `json:"updates"` // calls of scontrol update for nodes until then
	Reads   []int     `json:"reads"`   // calls of scontrol show until then
	Others  []int     `json:"others"`  // other calls of Slurm until then
	Grown   float64   `json:"grown"`   // MB of resident memory after the last storm beyond that after the first
	Peak    float64   `json:"peak"`    // MB, the most that this process ever had
}

// Storms gives 1,000 notices at once, for 1,000 nodes and 300 jobs, so many
// times over. It is for a process of its own: dir takes the journal.
func Storms(ctx context.Context, dir string, storms int) (f StormFigures, err error) {
	w, err := newStormWorld(ctx, dir, 2*stormNodes) // the jobs go on elsewhere
	if err != nil {
		return f, err
	}
	w.guarded(ft.Config{})
	ctx, cancel := context.WithTimeoutCause(ctx, time.Duration(storms)*time.Minute, errors.New("a storm was not over within a minute"))
	var wg sync.WaitGroup
	wg.Go(func() { w.ctl.Serve(ctx) })
	wg.Go(func() { w.fail(w.guard.Run(ctx, nil)) })
	f, err = w.measure(ctx, storms)
	cancel()
	wg.Wait()
	return f, errors.Join(err, w.failed, w.journal.Close())
}

// stormWorld is a burstd's guard and journal, and a simulated Slurm. In place
// of slurm/power it boots what Slurm resumes.
type stormWorld struct {
	ctl     *slurmtest.Controller
	guard   *ft.Guard
	journal *store.Store

	mu       sync.Mutex
	failed   error
	made     map[string]int // instances of each node so far
	signals  map[uint32]bool
	drained  map[string]bool
	commands [3]int // updates of nodes, readings of nodes, others
}

func (w *stormWorld) fail(err error) {
	w.mu.Lock()
	w.failed = errors.Join(w.failed, err)
	w.mu.Unlock()
}

// newStormWorld has so many nodes, and no guard yet.
func newStormWorld(ctx context.Context, dir string, nodes int) (*stormWorld, error) {
	w := &stormWorld{made: map[string]int{}, signals: map[uint32]bool{}, drained: map[string]bool{}}
	names := make([]string, nodes)
	for i := range names {
		names[i] = fmt.Sprint("c", i+1)
	}
	w.ctl = slurmtest.New(slurmtest.Options{Nodes: names, SuspendTime: time.Hour, SuspendTimeout: time.Second, Fail: w.cost,
		OnResume: func(nodes, _ string) { w.fail(w.resume(ctx, nodes)) }})
	var err error
	w.journal, err = store.Open(ctx, filepath.Join(dir, "burst.db"))
	return w, err
}

// guarded makes the guard.
func (w *stormWorld) guarded(cfg ft.Config) {
	client := slurm.New(w)
	ctl := struct {
		*slurm.Client
		*slurm.Watcher
	}{client, slurm.NewWatcher(client.Snapshot, 100*time.Millisecond)}
	w.guard = ft.New(cfg, w.journal, ctl, nil, slog.New(slog.DiscardHandler))
}

// cost lets a command take its time.
func (w *stormWorld) cost(cmd string) error {
	for _, c := range stormCosts {
		if strings.HasPrefix(cmd, c.command) {
			return &slurmtest.Fault{Delay: c.takes}
		}
	}
	return nil
}

// Run implements slurm.Runner, and notes what it has done.
func (w *stormWorld) Run(ctx context.Context, name string, args ...string) (out, errOut []byte, err error) {
	out, errOut, err = w.ctl.Run(ctx, name, args...)
	line := strings.Join(args, " ")
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case strings.HasPrefix(line, "update nodename="):
		w.commands[0]++
		nodes, lerr := hostlist.Expand(strings.TrimPrefix(args[1], "nodename="))
		w.failed = errors.Join(w.failed, lerr)
		for _, n := range nodes {
			w.drained[n] = err == nil && strings.Contains(line, "state=power_down_asap")
		}
	case strings.Contains(line, "show nodes"):
		w.commands[1]++
	default:
		w.commands[2]++
	}
	return out, errOut, err
}

func instanceOf(node string, made int) string { return fmt.Sprintf("i-%s-%d", node, made) }

func (w *stormWorld) resume(ctx context.Context, list string) error {
	nodes, err := hostlist.Expand(list)
	if err != nil {
		return err
	}
	var c power.Change
	w.mu.Lock()
	for _, n := range nodes {
		w.made[n]++
		c.Nodes = append(c.Nodes, power.Node{Name: n, Pool: "p", Phase: power.Up, Since: time.Now(), Instance: instanceOf(n, w.made[n])})
	}
	w.mu.Unlock()
	if err := w.journal.CommitPower(ctx, c); err != nil {
		return err
	}
	time.AfterFunc(stormBoot, func() {
		for _, n := range nodes {
			w.ctl.Register(n)
		}
	})
	return nil
}

func (w *stormWorld) measure(ctx context.Context, storms int) (f StormFigures, err error) {
	var ids []uint32
	for i := range stormJobs {
		nodes := 3
		if i%3 == 0 {
			nodes = 4
		}
		ids = append(ids, w.ctl.Submit(slurmtest.Job{Nodes: nodes, Requeue: true, Script: "#!/bin/sh\n#BURST signal=USR1 grace=20s\n",
			OnSignal: func(id uint32, _ string) {
				w.mu.Lock()
				w.signals[id] = true
				w.mu.Unlock()
				time.Sleep(100 * time.Millisecond)
				w.ctl.Exit(id, 75)
			}}))
	}
	var first float64
	for storm := range storms {
		nodes, err := w.running(ctx, ids)
		if err != nil {
			return f, err
		}
		if err := w.storm(ctx, &f, nodes); err != nil {
			return f, err
		}
		if _, err := w.running(ctx, ids); err != nil { // all over
			return f, err
		}
		w.ctl.ForgetPast() // the simulator's memory is not ours
		now, err := residentNow()
		if err != nil {
			return f, err
		}
		if storm == 0 {
			first = now
		}
		f.Grown = now - first
	}
	f.Peak, err = peakRSS()
	return f, err
}

// running waits until all jobs run and nothing is acted upon, and returns their nodes.
func (w *stormWorld) running(ctx context.Context, ids []uint32) (nodes []string, err error) {
	for {
		nodes = nodes[:0]
		active, _ := w.guard.Active()
		busy := slices.ContainsFunc(ids, func(id uint32) bool {
			i, _ := w.ctl.Info(id)
			nodes = append(nodes, i.Nodes...)
			return i.State != "RUNNING"
		})
		if !busy && active == 0 {
			return nodes, nil
		}
		if err := pause(ctx, 50*time.Millisecond); err != nil {
			return nil, err
		}
	}
}

// take gives notice of the instances behind all these nodes at once, each by a caller of
// its own, and says when it began.
func (w *stormWorld) take(ctx context.Context, nodes []string) (begun time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	begun = time.Now()
	for _, n := range nodes {
		notice := cloud.Notice{Instance: instanceOf(n, w.made[n]), Kind: cloud.SpotInterruption, Deadline: begun.Add(2 * time.Minute), Received: begun, Source: "sqs"}
		go func() { w.fail(w.guard.Hear(ctx, "p", notice)) }()
	}
	return begun
}

func (w *stormWorld) storm(ctx context.Context, f *StormFigures, nodes []string) error {
	w.mu.Lock()
	clear(w.signals)
	clear(w.drained)
	w.commands = [3]int{}
	w.mu.Unlock()
	if len(nodes) != stormNodes {
		return fmt.Errorf("the jobs have %d nodes, not %d", len(nodes), stormNodes)
	}
	begun := w.take(ctx, nodes)
	for {
		w.mu.Lock()
		done, failed, commands := len(w.signals) == stormJobs, w.failed, w.commands
		for _, n := range nodes {
			done = done && w.drained[n]
		}
		w.mu.Unlock()
		if failed != nil {
			return failed
		}
		if done {
			f.Drained = append(f.Drained, time.Since(begun).Seconds())
			f.Updates, f.Reads, f.Others = append(f.Updates, commands[0]), append(f.Reads, commands[1]), append(f.Others, commands[2])
			return nil
		}
		if err := pause(ctx, 5*time.Millisecond); err != nil {
			return err
		}
	}
}
