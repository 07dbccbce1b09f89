package srun

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/burst-hpc/burst/cmd/internal/steprecord"
	"github.com/burst-hpc/burst/ft/ckpt"
)

// TestWhatBurstdIsTold of a step that runs.
func TestWhatBurstdIsTold(t *testing.T) {
	f, err := os.OpenFile(filepath.Join(t.TempDir(), "out"), os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	f.WriteString("iteration 900 of 1000\n") // of an attempt before
	r := &runner{launch: ckpt.Launch{Stdout: f}, started: time.Now()}
	see := func(what string, now, of int64, n, attempt int) {
		t.Helper()
		p := r.progress()
		for end := time.Now().Add(10 * time.Second); p.Iteration != now && time.Now().Before(end); p = r.progress() { // a slow disk is not waited for
		}
		if p.Iteration != now || p.Of != of || p.Generation != n || p.Attempt != attempt || p.Done != -1 {
			t.Errorf("%s: %+v", what, p)
		}
	}
	see("at its start", -1, 0, 0, 0)
	f.WriteString("iteration 401 of 1000\n")
	r.from = &ckpt.Generation{Manifest: ckpt.Manifest{N: 4, Attempt: 1, Began: time.Now().Add(-time.Hour)}}
	see("later", 401, 1000, 4, 1)
	if p := r.progress(); p.Since < time.Hour || p.Since > 2*time.Hour {
		t.Errorf("its checkpoint was begun %s ago", p.Since)
	}
	r.saved = &ckpt.Generation{Manifest: ckpt.Manifest{N: 5, Attempt: 2, Began: time.Now().Add(time.Hour)}}
	see("after a checkpoint", 401, 1000, 5, 2)
	if p := r.progress(); p.Since != 0 {
		t.Errorf("its checkpoint was begun %s ago, by a clock that was set back", p.Since)
	}
	r.started = r.started.Add(time.Minute) // again, in place
	see("after another start", -1, 0, 5, 2)
	r.step = telltale{now: 7, of: 9}
	see("by the step's own word", 7, 9, 5, 2)
	r.step = telltale{now: -1}
	f.WriteString("iteration 402 of 1000\n")
	see("where that says nothing", 402, 1000, 5, 2)
}

// telltale is a step that says how far it is.
type telltale struct {
	ckpt.Step
	now, of int64
}

func (t telltale) Iteration() (now, of int64) { return t.now, t.of }

// TestUnsaved: the work of a step that is moved which nobody has.
func TestUnsaved(t *testing.T) {
	now := time.Now()
	began := now.Add(-time.Hour)
	made := func(ago time.Duration, stopped bool) *ckpt.Generation {
		return &ckpt.Generation{Manifest: ckpt.Manifest{N: 1, Began: now.Add(-ago), Stopped: stopped}}
	}
	for _, tt := range []struct {
		name   string
		code   int
		change func(r *runner)
		want   time.Duration
	}{
		{"it has ended well", 0, func(r *runner) { r.ending = true }, 0},
		{"it has failed by itself", 1, func(*runner) {}, 0},
		{"without a checkpoint", CutOff, func(r *runner) { r.ending = true }, time.Hour},
		{"since the last one", CutOff, func(r *runner) { r.ending, r.saved = true, made(10*time.Minute, false) }, 10 * time.Minute},
		{"since that of an attempt before", CutOff, func(r *runner) { r.ending, r.from = true, made(2*time.Hour, true); r.entry.Attempt = 1 }, time.Hour},
		{"ended with its checkpoint", CutOff, func(r *runner) {
			r.ending, r.saved, r.stopped, r.halted = true, made(time.Minute, true), now, now.Add(-50*time.Second)
		}, 0},
		{"it waits for the requeue", CutOff, func(r *runner) { r.ending, r.stopped, r.halted = true, now, now.Add(-30*time.Minute) }, 30 * time.Minute},
		{"a later attempt runs", CutOff, func(r *runner) { r.cut = true }, time.Hour},
		{"started again in place", 143, func(r *runner) { r.ending, r.started = true, now.Add(-5*time.Minute) }, 5 * time.Minute},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := &runner{entry: steprecord.Step{Began: began}, started: began}
			tt.change(r)
			if got := r.unsaved(tt.code); got < tt.want || got > tt.want+time.Minute {
				t.Errorf("%s, want %s", got, tt.want)
			}
		})
	}
}
