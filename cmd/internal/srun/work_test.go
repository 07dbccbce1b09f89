package srun

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/burst-hpc/burst/cmd/internal/steprecord"
	"github.com/burst-hpc/burst/ft/ckpt"
	"github.com/burst-hpc/burst/ft/ckpt/methods"
	"github.com/burst-hpc/burst/slurm/directive"
	"github.com/burst-hpc/burst/slurm/step"
)

// work is a method whose steps count seconds, and whose checkpoints are the count.
type work struct {
	name      string        // empty: signal
	length    time.Duration // of the whole
	code      int           // at its end
	takes     time.Duration // a checkpoint
	startFail map[int]error // by the number of the start
	lostAfter time.Duration // its first step's tool dies then; 0: never
	fails     atomic.Bool   // checkpoints do, at their end
	leaves    int           // a step does after a checkpoint, with this exit code; 0: it goes on

	mu     sync.Mutex
	tries  []time.Time // checkpoints that were begun
	starts []string    // what each start began from
	now    *worker
}

type worker struct {
	m       *work
	base    time.Duration
	began   time.Time
	ended   chan struct{}
	once    sync.Once
	code    int
	err     error
	signals []os.Signal
}

func (m *work) Name() string                 { return cmp.Or(m.name, directive.BySignal) }
func (m *work) Usable(context.Context) error { return nil }

func (m *work) Start(ctx context.Context, l ckpt.Launch) (ckpt.Step, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	from := "the beginning"
	var base time.Duration
	if l.From != nil {
		from = l.From.ID().String()
		text, err := os.ReadFile(filepath.Join(l.From.Dir, "count"))
		if err != nil {
			return nil, err
		}
		if base, err = time.ParseDuration(string(text)); err != nil {
			return nil, err
		}
	}
	m.starts = append(m.starts, from)
	if err := m.startFail[len(m.starts)]; err != nil {
		return nil, err
	}
	w := &worker{m: m, base: base, began: time.Now(), ended: make(chan struct{})}
	m.now = w
	time.AfterFunc(m.length-base, func() { w.end(m.code, nil) })
	if m.lostAfter > 0 && len(m.starts) == 1 {
		time.AfterFunc(m.lostAfter, func() { w.end(99, fmt.Errorf("its coordinator died: %w", methods.ErrLost)) })
	}
	return w, nil
}

func (w *worker) end(code int, err error) {
	w.once.Do(func() {
		w.code, w.err = code, err
		close(w.ended)
	})
}

func (w *worker) Wait() (int, error) {
	<-w.ended
	return w.code, w.err
}

func (w *worker) Signal(s os.Signal) error {
	w.m.mu.Lock()
	w.signals = append(w.signals, s)
	w.m.mu.Unlock()
	if s == syscall.SIGTERM || s == syscall.SIGKILL {
		w.end(128+int(s.(syscall.Signal)), nil)
	}
	return nil
}

func (w *worker) Checkpoint(ctx context.Context, into string, stop bool) (ckpt.Made, error) {
	count := w.base + time.Since(w.began)
	w.m.mu.Lock()
	w.m.tries = append(w.m.tries, time.Now())
	w.m.mu.Unlock()
	select {
	case <-w.ended:
		return ckpt.Made{}, ckpt.ErrFinishing
	case <-ctx.Done():
		return ckpt.Made{}, ctx.Err()
	case <-time.After(w.m.takes):
	}
	if w.m.fails.Load() {
		return ckpt.Made{}, errors.New("the tool hangs")
	}
	if err := os.WriteFile(filepath.Join(into, "count"), []byte(count.String()), 0o600); err != nil {
		return ckpt.Made{}, err
	}
	switch {
	case stop:
		w.end(143, nil)
	case w.m.leaves > 0:
		w.end(w.m.leaves, nil)
	}
	return ckpt.Made{Tool: "work", Iteration: int64(count.Seconds())}, nil
}

// bench is one attempt of a step on the bench.
type bench struct {
	*runner
	work    *work
	signals chan os.Signal
	mu      sync.Mutex
	said    []string
	noted   []steprecord.Step
}

func newBench(t *testing.T, dir string, attempt int, text string, w *work) *bench {
	t.Helper()
	return newStep(t, dir, attempt, "0", w, text)
}

func newStep(t *testing.T, dir string, attempt int, name string, w *work, words ...string) *bench {
	t.Helper()
	text := strings.Join(words, " ")
	m, err := directive.Said{Script: "#BURST ckpt=signal signal=USR1 " + text}.Merge()
	if err != nil {
		t.Fatal(err)
	}
	folder, err := ckpt.Open(t.Context(), ckpt.Options{Dir: dir, Job: "17", Step: name, Attempt: attempt, Keep: m.Keep})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { folder.Close() })
	b := &bench{work: w, signals: make(chan os.Signal, 1)}
	b.runner = &runner{job: step.Job{ID: 17, Attempt: attempt, Nodes: 1}, name: name, merged: m, method: w, folder: folder,
		say: func(format string, args ...any) {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.said = append(b.said, fmt.Sprintf(format, args...))
		},
		note: func(e steprecord.Step) {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.noted = append(b.noted, e)
		},
		entry: steprecord.Step{Name: name, Attempt: attempt, Began: time.Now()}, slot: make(chan struct{}, 1), advice: make(chan struct{}, 1)}
	return b
}

// whole begins the step and sees it to its end.
func (b *bench) whole(t *testing.T) int {
	t.Helper()
	if err := b.begin(t.Context()); err != nil {
		t.Fatal(err)
	}
	code := b.run(t.Context(), b.signals)
	b.finish(code)
	return code
}

func (b *bench) heard(text string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return strings.Contains(strings.Join(b.said, "\n"), text)
}

func (b *bench) last() steprecord.Step {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.noted) == 0 {
		return steprecord.Step{}
	}
	return b.noted[len(b.noted)-1]
}
