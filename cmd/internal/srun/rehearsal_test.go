package srun

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/burst-hpc/burst/cmd/internal/jobword"
	"github.com/burst-hpc/burst/cmd/internal/rehearse"
	"github.com/burst-hpc/burst/ft/ckpt"
	"github.com/burst-hpc/burst/slurm/directive"
	"github.com/burst-hpc/burst/slurm/step"
)

// act runs one attempt of a rehearsal, and returns its exit code.
func act(t *testing.T, b *bench, trial *rehearse.Trial) int {
	t.Helper()
	k := known{facts: facts{request: request{call: step.Call{Parts: []step.Part{{}}}}, job: b.job, merged: b.merged}}
	k.rehearsed(trial, time.Now(), b.say)
	b.merged = k.merged
	k.trial.place(directive.Names{})
	err := b.begin(t.Context())
	k.trial.began(t.Context(), k, b.runner, err)
	if err != nil {
		t.Fatal(err)
	}
	return k.trial.run(t.Context(), b.runner, func() int { return b.run(t.Context(), b.signals) })
}

func reported(t *testing.T, trial *rehearse.Trial, name string) (r rehearse.Report) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(trial.Dir, name))
	if err == nil {
		err = json.Unmarshal(text, &r)
	}
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestRehearsal: one checkpoint of each kind that the strategy takes, when it is due, and
// no other; the next attempts say what they began from.
func TestRehearsal(t *testing.T) {
	const ends = "waits for its job to be requeued"
	for _, c := range []struct {
		strategy, stops string
		made            int // the number of the generation that is reported
		at              int64
	}{{"both", ends, 2, 605 + 1}, {"preemptive", ends, 1, 600}, {"periodic", "", 1, 600}} {
		t.Run(c.strategy, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				dir := t.TempDir()
				trial := &rehearse.Trial{Dir: t.TempDir(), Job: 17, For: 10 * time.Minute, Within: time.Minute}
				w := &work{length: time.Hour, takes: 5 * time.Second}
				text := "dir=ck strategy=" + c.strategy
				b := newBench(t, dir, 0, text, w)
				done := make(chan int)
				go func() { done <- act(t, b, trial) }()
				time.Sleep(11 * time.Minute)
				made := reported(t, trial, "attempt-0-step-0.json")
				if m := made.Made; m == nil || m.ID != (ckpt.ID{N: c.made}) || m.Iteration != c.at || m.Took < 5*time.Second || made.Dir != "ck" || made.Method != "signal" || made.Amiss != "" {
					t.Errorf("reported %+v, %+v", made, m)
				}
				if !b.heard(c.stops) || c.stops == "" && b.heard("waits") {
					t.Errorf("said %q", b.said)
				}
				b.signals <- syscall.SIGTERM // the requeue
				<-done

				next := newBench(t, dir, 1, text, w)
				if code := act(t, next, trial); code != 0 {
					t.Errorf("exit code %d", code)
				}
				r := reported(t, trial, "attempt-1-step-0.json")
				if r.From != (ckpt.ID{N: c.made}) || r.Made != nil || r.Ended.IsZero() || r.Code != 0 || r.Error != "" {
					t.Errorf("reported %+v", r)
				}
			})
		})
	}
}

// TestRehearsalThatIsAmiss: a program that leaves at a checkpoint, or makes none while it
// runs, is none for a strategy that has it go on.
func TestRehearsalThatIsAmiss(t *testing.T) {
	for _, c := range []struct {
		name, strategy string
		leaves         int
		made           int
		amiss          string
	}{
		{"it leaves", "both", 75, 1, "left with exit code 75 at a checkpoint after which strategy=both has it go on"},
		{"it leaves, and is to", "preemptive", 75, 1, ""},
		{"it leaves, and no notice is heard", "periodic", 75, 1, "after which strategy=periodic has it go on"},
		{"the first one fails", "both", 0, 1, "no checkpoint was made after which the step goes on, as strategy=both has it: the tool hangs"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				trial := &rehearse.Trial{Dir: t.TempDir(), Job: 17, For: time.Minute, Within: 10 * time.Second}
				w := &work{length: time.Hour, takes: 5 * time.Second, leaves: c.leaves}
				if c.leaves == 0 {
					w.fails.Store(true)
					time.AfterFunc(66*time.Second, func() { w.fails.Store(false) })
				}
				b := newBench(t, t.TempDir(), 0, "strategy="+c.strategy, w)
				done := make(chan int)
				go func() { done <- act(t, b, trial) }()
				time.Sleep(2 * time.Minute)
				r := reported(t, trial, "attempt-0-step-0.json")
				if r.Made == nil || r.Made.N > c.made || r.Error != "" || c.amiss == "" && r.Amiss != "" || !strings.Contains(r.Amiss, c.amiss) {
					t.Errorf("reported %+v, %+v", r, r.Made)
				}
				if c.amiss == "" || c.leaves == 0 {
					b.signals <- syscall.SIGTERM // the requeue
				}
				<-done
			})
		})
	}
}

// TestRehearsalWithoutACheckpoint: it is told why.
func TestRehearsalWithoutACheckpoint(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		trial := &rehearse.Trial{Dir: t.TempDir(), Job: 17, For: time.Minute, Within: 10 * time.Second}
		b := newBench(t, t.TempDir(), 0, "strategy=periodic", &work{length: time.Hour, takes: time.Minute})
		if code := act(t, b, trial); code != 0 {
			t.Errorf("exit code %d", code)
		}
		if r := reported(t, trial, "attempt-0-step-0.json"); r.Made != nil || !strings.Contains(r.Error, "deadline") || r.Ended.IsZero() {
			t.Errorf("reported %+v", r)
		}
	})
}

// TestRehearsedDirectives: a rehearsal writes nowhere but into its own folder, or
// where an absolute one is named; burstd takes no part.
func TestRehearsedDirectives(t *testing.T) {
	trial := &rehearse.Trial{Dir: "/r/50%/report"}
	for text, want := range map[string]string{
		"":                          "/r/50%/checkpoints",
		"dir=x/%j":                  "/r/50%/checkpoints",
		"dir=/scratch/%u":           "/scratch/me",
		"dir=~/ckpt":                "/home/me/ckpt",
		"strategy=none":             "/r/50%/checkpoints",
		"strategy=both":             "/r/50%/checkpoints",
		"interval=20m":              "/r/50%/checkpoints",
		"dir=x strategy=preemptive": "/r/50%/checkpoints",
	} {
		m, err := directive.Said{Script: "#BURST ckpt=dmtcp " + text}.Merge()
		if err != nil {
			t.Fatal(err)
		}
		k := known{facts: facts{request: request{call: step.Call{Parts: []step.Part{{}}}}, merged: m}, transport: newBurstd(where{}, nil), word: jobword.Before{Blessed: map[string]jobword.OnRecord{"0": {Folder: 1}}}}
		k.rehearsed(trial, time.Now(), nil)
		if got := k.merged.Folder(directive.Names{User: "me", Home: "/home/me", Job: "17"}); got != want {
			t.Errorf("%s: %s", text, got)
		}
		if k.transport != nil || len(k.word.Blessed) > 0 || k.merged.Periodical() || after(k.facts, func(string) string { return "" }).Direct {
			t.Errorf("%s: %+v", text, k)
		}
	}
	k := known{transport: newBurstd(where{}, nil)}
	k.rehearsed(nil, time.Now(), nil)
	if k.trial != nil || k.transport == nil {
		t.Error("a job that is not rehearsed has lost burstd")
	}
}
