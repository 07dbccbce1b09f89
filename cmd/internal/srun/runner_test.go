package srun

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/burst-hpc/burst/ft/ckpt"
	"github.com/burst-hpc/burst/ft/session"
)

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
		next.was, next.entry.Stats = was, was.Stats
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

// TestNotRequeued: the wait has an end. Where Slurm has the job running the step
// goes on, and else that is no success.
func TestNotRequeued(t *testing.T) {
	for _, c := range []struct {
		name string
		runs error
		code int
		says string
	}{
		{"it runs on", nil, 0, "runs on: so does the step"},
		{"Slurm has it not running", fmt.Errorf("%w: it is COMPLETED", errNotRunning), CutOff, "scontrol requeue 17"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := &work{length: time.Hour, takes: time.Second}
				b := newBench(t, t.TempDir(), 0, "interval=10m", w)
				b.runs = func(context.Context) error { return c.runs }
				done := make(chan int)
				go func() { done <- b.whole(t) }()
				time.Sleep(25 * time.Minute)
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				if a := b.order(ctx, session.Request{Kind: session.Leave, By: time.Now().Add(time.Minute)}); !a.Stopped || a.Generation != "" {
					t.Errorf("answer %+v", a)
				}
				start := time.Now()
				if code := <-done; code != c.code {
					t.Errorf("exit code %d, want %d", code, c.code)
				}
				if took := time.Since(start); took < session.WaitTime || c.code != 0 && took > session.WaitTime+2*time.Minute {
					t.Errorf("it ended %v after it was stopped", took)
				}
				if !b.heard(c.says) {
					t.Errorf("said %q", b.said)
				}
				if e := b.last(); c.code == 0 && (!e.Done || e.Restarts != 1 || e.Lost < 3*time.Minute || e.Lost > 7*time.Minute || len(w.starts) != 2) {
					t.Errorf("recorded %+v, starts %q", e, w.starts)
				}
			})
		})
	}
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

// TestSlurmIsAwayWhileItWaits: the script does not go on for that.
func TestSlurmIsAwayWhileItWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &work{length: time.Hour, takes: time.Second}
		b := newBench(t, t.TempDir(), 0, "interval=10m", w)
		back := time.Now().Add(3 * time.Hour)
		b.runs = func(context.Context) error {
			if time.Now().Before(back) {
				return errors.New("no answer")
			}
			return nil
		}
		done := make(chan int)
		go func() { done <- b.whole(t) }()
		time.Sleep(25 * time.Minute)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		b.order(ctx, session.Request{ID: "r", Kind: session.Stop, By: time.Now().Add(time.Minute)})
		if code := <-done; code != 0 || time.Now().Before(back) || !b.heard("Slurm does not answer") {
			t.Errorf("exit code %d at %s, said %q", code, time.Now(), b.said)
		}
	})
}
