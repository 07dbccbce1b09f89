package srun

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/burst-hpc/burst/ft/ckpt"
	"github.com/burst-hpc/burst/ft/session"
	"github.com/burst-hpc/burst/slurm/directive"
	"github.com/burst-hpc/burst/slurm/step"
)

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
		dir, no := t.TempDir(), errors.New("no tool")
		b := newBench(t, dir, 0, "interval=10m", &work{length: 15 * time.Minute, startFail: map[int]error{1: no, 3: no, 4: no}})
		if err := b.begin(t.Context()); !isPlain(err) {
			t.Errorf("%v: srun might have run it", err)
		}
		b.whole(t)
		if err := newBench(t, dir, 1, "", b.work).begin(t.Context()); isPlain(err) || !errors.Is(err, no) {
			t.Errorf("%v: it has a checkpoint, and must not begin anew without its method", err)
		}
		k := known{facts: facts{job: step.Job{ID: 17, Attempt: 1}, usable: no}, dir: dir}
		p := &program{stderr: new(bytes.Buffer)}
		if _, err := p.goesOn(t.Context(), k, direct(""), []string{"0"}); !errors.Is(err, no) {
			t.Errorf("%v: likewise", err)
		}
		if d, err := p.goesOn(t.Context(), k, direct(""), []string{"1"}); err != nil || !d.Direct {
			t.Errorf("a step without a checkpoint: %v", err)
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

// TestAGenerationThatIsSeenLate, as on a network file system, is waited for; one that
// is gone is not for ever.
func TestAGenerationThatIsSeenLate(t *testing.T) {
	for _, back := range []time.Duration{20 * time.Second, time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			dir := t.TempDir()
			w := &work{length: time.Hour, takes: time.Second}
			b := newBench(t, dir, 0, "interval=20m", w)
			done := make(chan int)
			go func() { done <- b.whole(t) }()
			time.Sleep(50 * time.Minute)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			last := b.order(ctx, session.Request{ID: "r", Kind: session.Stop, By: time.Now().Add(time.Minute)})
			b.signals <- syscall.SIGTERM
			<-done
			was := b.last()

			next := newBench(t, dir, 1, "interval=20m", w)
			next.was, next.entry.Stats, next.recorded = was, was.Stats, ckpt.ID{Attempt: 0, N: last.N}
			hidden := filepath.Join(dir, "hidden")
			if err := os.Rename(last.Generation, hidden); err != nil {
				t.Fatal(err)
			}
			time.AfterFunc(back, func() {
				if err := os.Rename(hidden, last.Generation); err != nil {
					t.Error(err)
				}
			})
			start := time.Now()
			next.whole(t)
			took, from := time.Since(start), last.N
			if back > seenTime {
				from--
			}
			if !next.heard(fmt.Sprintf("restarts from generation %d of attempt 0", from)) || !next.heard("not to be seen on this node yet") {
				t.Errorf("said %q", next.said)
			}
			if took < min(back, seenTime)+9*time.Minute || took > 25*time.Minute {
				t.Errorf("it took %s", took)
			}
			time.Sleep(time.Hour)
		})
	}
}

// TestNoGenerationStarts: a step with checkpoints is never begun anew, and they stay.
func TestNoGenerationStarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir, no := t.TempDir(), errors.New("a file server that is overrun")
		w := &work{length: time.Hour, takes: time.Second}
		b := newBench(t, dir, 0, "interval=10m", w)
		b.whole(t)
		w.startFail = map[int]error{2: no, 3: no}
		next := newBench(t, dir, 1, "interval=10m", w)
		if err := next.begin(t.Context()); isPlain(err) || !errors.Is(err, no) || !strings.Contains(err.Error(), "not begun anew") || !strings.Contains(err.Error(), "scontrol requeue") {
			t.Errorf("%v", err)
		}
		if len(w.starts) != 3 || strings.Contains(strings.Join(w.starts[1:], " "), "beginning") {
			t.Errorf("starts %q", w.starts)
		}
		if all, err := next.folder.List(t.Context()); err != nil || len(all) != 2 {
			t.Errorf("%d generations are left, %v", len(all), err)
		}
	})
}

// TestNothingIsThere: a folder that is empty here, though burstd has a generation on
// record, is a file system that is not mounted.
func TestNothingIsThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &work{length: time.Hour}
		b := newBench(t, t.TempDir(), 1, "interval=10m", w)
		b.recorded = ckpt.ID{Attempt: 0, N: 72}
		if err := b.begin(t.Context()); err == nil || isPlain(err) || !strings.Contains(err.Error(), "mounted") {
			t.Errorf("%v", err)
		}
		if len(w.starts) > 0 {
			t.Errorf("starts %q", w.starts)
		}
	})
}
