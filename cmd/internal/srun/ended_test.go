package srun

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/burst-hpc/burst/cmd/internal/steprecord"
	"github.com/burst-hpc/burst/ft/ckpt"
)

// What stays of a step that has ended: nothing of one that is not run again, one
// generation of another, all of one that failed or whose user wants them.
func TestEnded(t *testing.T) {
	for _, test := range []struct {
		name string
		text string // of the directive
		once bool
		code int
		want int
	}{
		{name: "well", want: 1},
		{name: "well, and not to be run again", once: true, want: 0},
		{name: "with an error", code: 1, want: 2},
		{name: "with an error, and named", code: 1, once: true, want: 2},
		{name: "well, and they are to stay", text: "keep_after=yes", once: true, want: 2},
		{name: "well, and they are not to stay", text: "keep_after=no", once: true, want: 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				dir := t.TempDir()
				b := newBench(t, dir, 0, "keep=2 interval=10m "+test.text, &work{length: time.Hour, takes: time.Second, code: test.code})
				k := known{facts: facts{job: b.job}, dir: dir}
				if test.once {
					k.once = "0"
				}
				records := k.book(dir)
				if err := records.Change(t.Context(), func(r *steprecord.Record) error { r.Steps = []steprecord.Step{b.entry}; return nil }); err != nil {
					t.Fatal(err)
				}
				b.note = records.Notes(t.Context(), b.say)
				if code := b.whole(t); code != test.code {
					t.Errorf("exit code %d", code)
				}
				p := &program{stderr: os.Stderr}
				p.ended(t.Context(), k, b.runner, nil)
				all, err := b.folder.List(t.Context())
				if err != nil || len(all) != test.want {
					t.Errorf("there are %d generations, %v", len(all), err)
				}
				r, _, err := records.Peek()
				if err != nil || len(r.Steps) != 1 || r.Steps[0].Done != (test.code == 0) {
					t.Errorf("on record: %+v, %v", r.Steps, err)
				}
			})
		})
	}
}

// A step whose end could not be recorded would be run again: its generations stay.
func TestEndedWithoutARecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		b := newBench(t, dir, 0, "keep=2 interval=10m", &work{length: time.Hour, takes: time.Second})
		b.whole(t)
		p := &program{stderr: os.Stderr}
		p.ended(t.Context(), known{facts: facts{job: b.job, request: request{once: "0"}}, dir: dir}, b.runner, nil)
		if all, err := b.folder.List(t.Context()); err != nil || len(all) != 1 {
			t.Errorf("there are %d generations, %v", len(all), err)
		}
	})
}

// Generations that were deleted because their step was done are not waited for.
func TestBeginsAnewWhatWasCleared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		b := newBench(t, dir, 0, "", &work{length: time.Minute})
		makeGenerations(t, b.folder, 2)
		if err := b.folder.Clear(t.Context()); err != nil {
			t.Fatal(err)
		}
		b = newBench(t, dir, 1, "", &work{length: time.Minute})
		b.recorded = ckpt.ID{N: 2}
		began := time.Now()
		if code := b.whole(t); code != 0 || time.Since(began) > 2*time.Minute || !slices.Equal(b.work.starts, []string{"the beginning"}) {
			t.Errorf("exit code %d after %v, starts %q", code, time.Since(began), b.work.starts)
		}
	})
}

func TestNotRecordedIsSaidOnce(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "job-17"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	var said []string
	note := steprecord.Book{Dir: dir, Job: "17"}.Notes(t.Context(), func(format string, args ...any) { said = append(said, fmt.Sprintf(format, args...)) })
	note(steprecord.Step{Name: "0"})
	note(steprecord.Step{Name: "0", Done: true})
	if len(said) != 1 || !strings.Contains(said[0], "what became of step 0 is not recorded") {
		t.Errorf("said: %q", said)
	}
}

// A signal that would have ended srun ends what is done after the step.
func TestASignalAfterTheStep(t *testing.T) {
	signals := make(chan os.Signal, 3)
	for _, s := range []os.Signal{syscall.SIGPIPE, syscall.SIGCONT, syscall.SIGTERM} {
		signals <- s
	}
	stopped := false
	untilSignal(t.Context(), func() { stopped = true }, signals)
	if !stopped || len(signals) != 0 {
		t.Errorf("stopped: %v, with %d signals left", stopped, len(signals))
	}
}
