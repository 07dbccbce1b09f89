package srun

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/burst-hpc/burst/ft/ckpt"
	"github.com/burst-hpc/burst/ft/ckpt/methods"
	"github.com/burst-hpc/burst/ft/session"
	"github.com/burst-hpc/burst/slurm/directive"
	"github.com/burst-hpc/burst/slurm/step"
)

// work is a method whose steps count seconds, and whose checkpoints are the count.
type work struct {
	length    time.Duration // of the whole
	code      int           // at its end
	takes     time.Duration // a checkpoint
	startFail map[int]error // by the number of the start
	lostAfter time.Duration // its first step's tool dies then; 0: never

	mu     sync.Mutex
	starts []string // what each start began from
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

func (m *work) Name() string                 { return directive.BySignal }
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
	select {
	case <-w.ended:
		return ckpt.Made{}, ckpt.ErrFinishing
	case <-ctx.Done():
		return ckpt.Made{}, ctx.Err()
	case <-time.After(w.m.takes):
	}
	if err := os.WriteFile(filepath.Join(into, "count"), []byte(count.String()), 0o600); err != nil {
		return ckpt.Made{}, err
	}
	if stop {
		w.end(143, nil)
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
	noted   []entry
}

func newBench(t *testing.T, dir string, attempt int, text string, w *work) *bench {
	t.Helper()
	m, err := directive.Said{Script: "#BURST ckpt=signal signal=USR1 " + text}.Merge()
	if err != nil {
		t.Fatal(err)
	}
	folder, err := ckpt.Open(t.Context(), ckpt.Options{Dir: dir, Job: "17", Step: "0", Attempt: attempt, Keep: m.Keep})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { folder.Close() })
	b := &bench{work: w, signals: make(chan os.Signal, 1)}
	b.runner = &runner{job: step.Job{ID: 17, Attempt: attempt, Nodes: 1}, name: "0", merged: m, method: w, folder: folder,
		say: func(format string, args ...any) {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.said = append(b.said, fmt.Sprintf(format, args...))
		},
		note: func(e entry) {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.noted = append(b.noted, e)
		},
		entry: entry{Name: "0", Attempt: attempt, Began: time.Now()}, slot: make(chan struct{}, 1), advice: make(chan struct{}, 1)}
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

func (b *bench) last() entry {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.noted) == 0 {
		return entry{}
	}
	return b.noted[len(b.noted)-1]
}

func TestEndsByItself(t *testing.T) {
	for _, code := range []int{0, 7, 139} {
		synctest.Test(t, func(t *testing.T) {
			b := newBench(t, t.TempDir(), 0, "interval=1m", &work{length: 10 * time.Minute, code: code, takes: time.Second})
			if got := b.whole(t); got != code {
				t.Errorf("exit code %d, want %d", got, code)
			}
			e := b.last()
			if e.Done != (code == 0) || e.Checkpoints < 8 || e.Checkpoints > 11 || e.Ran < 10*time.Minute || e.Restarts != 0 {
				t.Errorf("recorded %+v", e)
			}
			all, err := b.folder.List(t.Context())
			if err != nil || len(all) != 2 {
				t.Errorf("%d generations are kept, %v", len(all), err)
			}
		})
	}
}

func TestStopAndRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		w := &work{length: time.Hour, takes: 5 * time.Second}
		b := newBench(t, dir, 0, "strategy=preemptive", w)
		done := make(chan int)
		go func() { done <- b.whole(t) }()
		time.Sleep(40 * time.Minute)
		ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
		defer cancel()
		a := b.order(ctx, session.Request{ID: "r", Kind: session.Stop, By: time.Now().Add(90 * time.Second)})
		if !a.Stopped || a.N != 1 || a.Error != "" || a.Iteration != 2400 {
			t.Errorf("answer %+v", a)
		}
		time.Sleep(5 * time.Minute)
		select {
		case code := <-done:
			t.Fatalf("it returned %d to the script", code)
		default:
		}
		b.signals <- syscall.SIGTERM // the requeue
		if code := <-done; code != CutOff {
			t.Errorf("exit code %d", code)
		}
		was := b.last()
		if was.Done || was.Ended.IsZero() {
			t.Errorf("recorded %+v", was)
		}

		time.Sleep(time.Hour) // in the queue
		next := newBench(t, dir, 1, "strategy=preemptive", w)
		next.was, next.entry.stats = was, was.stats
		start := time.Now()
		if code := next.whole(t); code != 0 {
			t.Errorf("exit code %d", code)
		}
		if took := time.Since(start); took != 20*time.Minute {
			t.Errorf("the rest took %v", took)
		}
		if e := next.last(); e.Restarts != 1 || e.Lost != 0 || e.Checkpoints != 1 || !e.Done {
			t.Errorf("recorded %+v", e)
		}
		if !next.heard("restarts from generation 1 of attempt 0") || !next.heard("iteration 2400") {
			t.Errorf("said %q", next.said)
		}
	})
}

// TestNotRequeued: the wait has an end, which is not success.
func TestNotRequeued(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, t.TempDir(), 0, "", &work{length: 24 * time.Hour})
		done := make(chan int)
		go func() { done <- b.whole(t) }()
		time.Sleep(time.Minute)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if a := b.order(ctx, session.Request{Kind: session.Leave, By: time.Now().Add(time.Minute)}); !a.Stopped || a.Generation != "" {
			t.Errorf("answer %+v", a)
		}
		start := time.Now()
		if code := <-done; code != CutOff || time.Since(start) > waitTime+time.Minute {
			t.Errorf("exit code %d after %v", code, time.Since(start))
		}
		if !b.heard("scontrol requeue 17") {
			t.Errorf("said %q", b.said)
		}
	})
}

func TestLateStopGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, t.TempDir(), 0, "strategy=preemptive", &work{length: time.Hour, takes: 10 * time.Minute})
		done := make(chan int)
		go func() { done <- b.whole(t) }()
		time.Sleep(time.Minute)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if a := b.order(ctx, session.Request{Kind: session.Stop, By: time.Now().Add(time.Minute)}); a.Stopped || a.Error == "" {
			t.Errorf("answer %+v", a)
		}
		if code := <-done; code != 0 {
			t.Errorf("exit code %d", code)
		}
	})
}

func TestOrderWhileAPeriodicOneIsTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, t.TempDir(), 0, "interval=10m", &work{length: time.Hour, takes: time.Minute})
		done := make(chan int)
		go func() { done <- b.whole(t) }()
		time.Sleep(10*time.Minute + 45*time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
		defer cancel()
		a := b.order(ctx, session.Request{Kind: session.Stop, By: time.Now().Add(5 * time.Minute)})
		if !a.Stopped || a.N != 2 {
			t.Errorf("answer %+v", a)
		}
		b.signals <- syscall.SIGTERM
		if code := <-done; code != CutOff {
			t.Errorf("exit code %d", code)
		}
	})
}

func TestLostTool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &work{length: time.Hour, takes: time.Second, lostAfter: 25 * time.Minute}
		b := newBench(t, t.TempDir(), 0, "interval=10m", w)
		if code := b.whole(t); code != 0 {
			t.Errorf("exit code %d", code)
		}
		if len(w.starts) != 2 || w.starts[1] != "generation 2 of attempt 0" {
			t.Errorf("starts %q", w.starts)
		}
		if e := b.last(); e.Restarts != 1 || e.Lost < 3*time.Minute || e.Lost > 7*time.Minute {
			t.Errorf("recorded %+v", e)
		}
	})
}

// TestDamage: the newest generation is damaged, and the one before does not start.
func TestDamage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		w := &work{length: time.Hour, takes: time.Second}
		b := newBench(t, dir, 0, "interval=10m keep=3", w)
		done := make(chan int)
		go func() { done <- b.whole(t) }()
		time.Sleep(35 * time.Minute)
		b.signals <- syscall.SIGTERM
		if code := <-done; code != 143 {
			t.Fatalf("exit code %d", code)
		}
		all, err := b.folder.List(t.Context())
		if err != nil || len(all) != 3 {
			t.Fatalf("%+v, %v", all, err)
		}
		path := filepath.Join(all[0].Dir, "count")
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		text[0] ^= 1
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		w.starts, w.startFail = nil, map[int]error{1: errors.New("no more")}
		next := newBench(t, dir, 1, "interval=10m", w)
		next.was = b.last()
		if code := next.whole(t); code != 0 {
			t.Errorf("exit code %d", code)
		}
		if len(w.starts) != 2 || w.starts[0] != "generation 2 of attempt 0" || w.starts[1] != "generation 1 of attempt 0" {
			t.Errorf("starts %q", w.starts)
		}
		if !next.heard("generation 3 of attempt 0 (damaged) is not used") || !next.heard("does not start from generation 2") {
			t.Errorf("said %q", next.said)
		}
		if e := next.last(); e.Lost < 20*time.Minute || e.Lost > 30*time.Minute {
			t.Errorf("recorded %+v", e)
		}
	})
}

func TestNothingStarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, t.TempDir(), 0, "", &work{startFail: map[int]error{1: errors.New("no tool")}})
		if err := b.begin(t.Context()); !isPlain(err) {
			t.Errorf("%v: srun might have run it", err)
		}
	})
}

func TestAnotherMethodsGeneration(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		w := &work{length: 15 * time.Minute, takes: time.Second}
		newBench(t, dir, 0, "interval=10m", w).whole(t)
		next := newBench(t, dir, 1, "", w)
		next.merged.Method = directive.DMTCP
		if err := next.begin(t.Context()); err == nil || isPlain(err) || !strings.Contains(err.Error(), "ckpt=signal") {
			t.Errorf("%v", err)
		}
	})
}

// TestCutOff: a later attempt runs elsewhere while this one goes on.
func TestCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		w := &work{length: time.Hour, takes: time.Second}
		b := newBench(t, dir, 0, "interval=10m", w)
		done := make(chan int)
		go func() { done <- b.whole(t) }()
		time.Sleep(15 * time.Minute)
		newBench(t, dir, 1, "", w)
		if code := <-done; code != CutOff {
			t.Errorf("exit code %d", code)
		}
		if !b.heard("a later attempt of job 17 has begun") {
			t.Errorf("said %q", b.said)
		}
		if err := b.begin(t.Context()); !errors.Is(err, ckpt.ErrSuperseded) {
			t.Error(err)
		}
	})
}

func TestSignals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &work{length: time.Hour}
		b := newBench(t, t.TempDir(), 0, "", w)
		done := make(chan int)
		go func() { done <- b.whole(t) }()
		time.Sleep(time.Minute)
		for _, s := range []os.Signal{syscall.SIGUSR1, syscall.SIGPIPE, syscall.SIGINT, syscall.SIGTERM} {
			b.signals <- s
			synctest.Wait()
		}
		if code := <-done; code != 143 {
			t.Errorf("exit code %d", code)
		}
		if got := fmt.Sprint(w.now.signals); got != "[user defined signal 1 interrupt terminated]" {
			t.Errorf("passed on %s", got)
		}
	})
}

func TestInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, t.TempDir(), 0, "", &work{length: 24 * time.Hour, takes: time.Minute})
		done := make(chan int)
		go func() { done <- b.whole(t) }()
		time.Sleep(15 * time.Minute) // the first shows what one costs
		if n := b.made(); n != 1 {
			t.Errorf("%d checkpoints at first", n)
		}
		time.Sleep(time.Hour)
		if n := b.made(); n != 1 {
			t.Errorf("%d checkpoints, with an expected hour and more between them", n)
		}
		b.advise(10 * time.Minute)
		time.Sleep(time.Hour)
		if n := b.made(); n < 5 || n > 7 {
			t.Errorf("%d checkpoints, with 10 minutes between them as advised", n)
		}
		b.signals <- syscall.SIGTERM
		<-done
	})
}
