package ft_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/ft"
	"github.com/burst-hpc/burst/slurm"
	"github.com/burst-hpc/burst/slurm/hostlist"
)

// lean is a Slurm and a journal that remember nothing but what is: 300 jobs
// on 1,000 nodes, which run again when the test says so.
type lean struct {
	mu      sync.Mutex
	snap    slurm.Snapshot
	open    map[noticeKey]bool
	updates int
	reads   int
}

const leanNodes, leanJobs = 1000, 300

func newLean() *lean {
	l := &lean{snap: slurm.Snapshot{Nodes: map[string]slurm.Node{}, Jobs: map[uint32]slurm.Job{}}, open: map[noticeKey]bool{}}
	for i := range leanNodes {
		name := fmt.Sprint("c", i)
		l.snap.Nodes[name] = slurm.Node{Name: name, State: slurm.NodeState{Base: "ALLOCATED"}}
	}
	for i := range leanJobs {
		var nodes []string
		for k := i; k < leanNodes; k += leanJobs {
			nodes = append(nodes, fmt.Sprint("c", k))
		}
		id := uint32(i + 1)
		l.snap.Jobs[id] = slurm.Job{ID: id, State: "RUNNING", Nodes: hostlist.Fold(nodes), Batch: true, Requeue: true}
	}
	return l
}

func (l *lean) job(id uint32, change func(*slurm.Job)) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	j := l.snap.Jobs[id]
	change(&j)
	l.snap.Jobs[id] = j
	return nil
}

func (l *lean) Read(ctx context.Context) (*slurm.Snapshot, error) {
	time.Sleep(20 * time.Millisecond)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.reads++
	s := slurm.Snapshot{Taken: time.Now(), Nodes: l.snap.Nodes, Jobs: map[uint32]slurm.Job{}}
	for id, j := range l.snap.Jobs {
		s.Jobs[id] = j
	}
	return &s, ctx.Err()
}

func (l *lean) UpdateNodes(context.Context, slurm.NodeUpdate) error {
	time.Sleep(5 * time.Millisecond)
	l.mu.Lock()
	l.updates++
	l.mu.Unlock()
	return nil
}

func (l *lean) BatchScript(context.Context, uint32) (string, error) { return script, nil }

func (l *lean) UpdateJob(context.Context, uint32, slurm.JobUpdate) error { return nil }

func (l *lean) Signal(_ context.Context, id uint32, _ slurm.Signal) error {
	return l.job(id, func(j *slurm.Job) { j.State, j.ExitCode = "FAILED", 75 })
}

func (l *lean) Hold(context.Context, uint32) error { return nil }
func (l *lean) Requeue(_ context.Context, id uint32) error {
	return l.job(id, func(j *slurm.Job) { j.State, j.Restarts = "PENDING", j.Restarts+1 })
}

func (l *lean) RequeueRunning(ctx context.Context, id uint32) error { return l.Requeue(ctx, id) }

func (l *lean) Release(context.Context, uint32, int, time.Time) error { return nil }

func (l *lean) Reserve(context.Context, slurm.Reservation) error { return nil }
func (l *lean) Unreserve(context.Context, string) error          { return nil }

func (l *lean) AddNotice(_ context.Context, _ string, n cloud.Notice) (bool, error) {
	time.Sleep(time.Millisecond)
	l.mu.Lock()
	defer l.mu.Unlock()
	key := noticeKey{n.Instance, n.Kind}
	if l.open[key] {
		return false, nil
	}
	l.open[key] = true
	return true, nil
}

func (l *lean) NoticeOf(context.Context, string, cloud.NoticeKind) (ft.Notice, error) {
	return ft.Notice{}, nil
}

func (l *lean) LoadFT(context.Context) (ft.State, error) { return ft.State{}, nil }

func (l *lean) Moved(context.Context, time.Time) ([]ft.Eviction, error) { return nil, nil }

func (l *lean) CommitFT(_ context.Context, c ft.Change) error {
	time.Sleep(time.Millisecond)
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, n := range c.Notices {
		if n.Stage == ft.Acked {
			delete(l.open, noticeKey{n.Instance, n.Kind})
		}
	}
	return nil
}

func (l *lean) NodeOf(_ context.Context, instance string) (string, error) {
	var node, storm int
	if n, _ := fmt.Sscanf(instance, "i-%d-%d", &node, &storm); n != 2 {
		return "", nil
	}
	return fmt.Sprint("c", node), nil
}

// TestTenStorms: 1,000 notices for 300 jobs, ten times over, and as many for
// instances that are not ours. Nothing is dropped, Slurm is asked seldom, and
// nothing stays behind in memory.
func TestTenStorms(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLean()
		ctl := struct {
			*lean
			*slurm.Watcher
		}{l, slurm.NewWatcher(l.Read, 100*time.Millisecond)}
		g := ft.New(ft.Config{}, l, ctl, nil, slog.New(slog.NewTextHandler(io.Discard, nil)))
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() { g.Run(ctx, nil) })
		var base, peak int
		var before, after runtime.MemStats
		storms := 10
		if testing.Short() {
			storms = 3
		}
		for storm := range storms {
			var heard sync.WaitGroup
			for i := range leanNodes {
				heard.Go(func() {
					time.Sleep(time.Duration(i) * time.Millisecond) // within a second
					for _, id := range []string{fmt.Sprintf("i-%d-%d", i, storm), fmt.Sprintf("foreign-%d-%d", i, storm)} {
						n := cloud.Notice{Instance: id, Kind: cloud.SpotInterruption, Deadline: time.Now().Add(2 * time.Minute)}
						if err := g.Hear(ctx, "p", n); err != nil {
							t.Error(err)
						}
					}
				})
			}
			heard.Wait()
			peak = max(peak, runtime.NumGoroutine())
			time.Sleep(5 * time.Minute)
			synctest.Wait()
			runtime.GC()
			runtime.GC()
			if active, foreign := g.Active(); active != 0 || foreign != (storm+1)*leanNodes || len(l.open) > 0 {
				t.Fatalf("%d active, %d foreign, %d open", active, foreign, len(l.open))
			}
			for id, j := range l.snap.Jobs {
				if j.Restarts != storm+1 || j.State != "PENDING" {
					t.Fatalf("job %d: %+v", id, j)
				}
				l.job(id, func(j *slurm.Job) { j.State = "RUNNING" })
			}
			if storm == 0 {
				runtime.ReadMemStats(&before)
				base = runtime.NumGoroutine()
			}
		}
		runtime.ReadMemStats(&after)
		grown := float64(int64(after.HeapAlloc)-int64(before.HeapAlloc)) / 1e6
		t.Logf("after %d storms the heap has grown by %.2f MB since the first, goroutines are %d (%d at most), %d node updates, %d readings",
			storms, grown, runtime.NumGoroutine(), peak, l.updates, l.reads)
		if grown > 10 || runtime.NumGoroutine() > base {
			t.Errorf("%.1f MB more, %d goroutines instead of %d", grown, runtime.NumGoroutine(), base)
		}
		if l.updates > 10*60 || l.reads > 10*200 {
			t.Errorf("%d node updates, %d readings", l.updates, l.reads)
		}
		cancel()
		wg.Wait()
	})
}

// TestAChangedStateIsAQuestion, nothing to keep; so is nothing that no cloud says.
func TestAChangedStateIsAQuestion(t *testing.T) {
	l := newLean()
	var asked []string
	g := ft.New(ft.Config{Ask: func(id string) { asked = append(asked, id) }}, l, struct {
		*lean
		*slurm.Watcher
	}{l, nil}, nil, slog.New(slog.DiscardHandler))
	for _, n := range []cloud.Notice{
		{Instance: "i-1", Kind: cloud.StateChange, Action: "terminated"},
		{Instance: "i-1", Kind: "lunar-eclipse"},
		{Kind: cloud.SpotInterruption},
	} {
		if err := g.Hear(t.Context(), "p", n); err != nil {
			t.Error(err)
		}
	}
	if len(l.open) > 0 || len(asked) != 1 || asked[0] != "i-1" {
		t.Errorf("kept %v, asked %v", l.open, asked)
	}
}
