package srun

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/burst-hpc/burst/cmd/internal/steprecord"
	"github.com/burst-hpc/burst/ft/ckpt"
	"github.com/burst-hpc/burst/ft/session"
	"github.com/burst-hpc/burst/slurm/step"
)

// pair is a heterogeneous job of two components, each a step of its own.
type pair struct {
	dir   string
	works [2]*work
	blest map[string]ckpt.ID
}

func newPair(t *testing.T) *pair {
	return &pair{dir: t.TempDir(), works: [2]*work{{length: 10 * time.Hour, takes: time.Second}, {length: 10 * time.Hour, takes: 2 * time.Second}}}
}

// part is one of them in an attempt, on record.
func (p *pair) part(t *testing.T, attempt, i int) *bench {
	t.Helper()
	name := fmt.Sprint(i)
	b := newStep(t, p.dir, attempt, name, p.works[i])
	k := steprecord.Book{Dir: p.dir, Job: "17", Attempt: attempt, Script: "s"}
	b.entry = steprecord.Step{Name: name, Attempt: attempt, Began: time.Now(), Components: []int{i}}
	err := k.Change(t.Context(), func(r *steprecord.Record) error {
		if len(r.Steps) <= i {
			r.Steps = append(r.Steps, make([]steprecord.Step, i+1-len(r.Steps))...)
		}
		b.was, r.Steps[i] = r.Steps[i], b.entry
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	b.note = k.Notes(t.Context(), b.say)
	b.parts = &parts{book: k, size: 2, onDisk: ckpt.Options{Dir: p.dir, Job: "17"}, blest: p.blest, say: b.say,
		retry: func(look func() error) error { return look() }}
	return b
}

// attempt has both begin, run for an hour, be stopped by one order, and be requeued. It
// returns what each began from.
func (p *pair) attempt(t *testing.T, n int) (from [2]string, answers [2]session.Answer) {
	t.Helper()
	both := [2]*bench{p.part(t, n, 0), p.part(t, n, 1)}
	codes := make(chan int, 2)
	for i, b := range both {
		if err := b.begin(t.Context()); err != nil {
			t.Fatal(err)
		}
		from[i] = p.works[i].starts[len(p.works[i].starts)-1]
		go func() { codes <- b.run(t.Context(), b.signals) }()
	}
	time.Sleep(time.Hour)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for i, b := range both {
		answers[i] = b.order(ctx, session.Request{ID: "r", Kind: session.Stop, By: time.Now().Add(time.Minute)})
	}
	for _, b := range both {
		b.signals <- syscall.SIGTERM
		<-codes
		b.folder.Close()
	}
	return from, answers
}

const atFirst = "the beginning"

func of(attempt int) string { return fmt.Sprintf("of attempt %d", attempt) }

// TestPartsRestartTogether: whatever befalls one part's checkpoints, both restart from
// those of one attempt, or both from the beginning.
func TestPartsRestartTogether(t *testing.T) {
	gen := func(p *pair, step, attempt int) string {
		return filepath.Join(p.dir, "job-17", fmt.Sprintf("step-%d", step), fmt.Sprintf("attempt-%d", attempt), fmt.Sprintf("gen-%d", attempt+1))
	}
	fails := func(attempt int) func(*testing.T, *pair, int) {
		return func(_ *testing.T, p *pair, n int) { p.works[1].fails.Store(n == attempt) }
	}
	flip := func(t *testing.T, p *pair, attempt int) { // back again, too
		file := filepath.Join(gen(p, 1, attempt), "count")
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		text[0] ^= 1
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	damage := func(t *testing.T, p *pair, n int) {
		if n == 2 {
			flip(t, p, 1)
		}
	}
	for _, c := range []struct {
		name   string
		before func(*testing.T, *pair, int) // an attempt
		want   []string                     // what both begin from, by attempts
	}{
		{"all is well", func(*testing.T, *pair, int) {}, []string{atFirst, of(0), of(1), of(2)}},
		{"one part fails at first", fails(0), []string{atFirst, atFirst, of(1)}},
		{"one part fails later", fails(1), []string{atFirst, of(0), of(0), of(2)}},
		{"one byte of one part's is changed", damage, []string{atFirst, of(0), of(0), of(2)}},
		{"one byte is changed, and burstd has the other part's on record", func(t *testing.T, p *pair, n int) {
			damage(t, p, n)
			p.blest = map[string]ckpt.ID{"0": {Attempt: n - 1, N: n}}
		}, []string{atFirst, of(0), of(0), of(2)}},
		{"one part's is gone", func(t *testing.T, p *pair, n int) {
			if n == 1 {
				if err := os.RemoveAll(gen(p, 0, 0)); err != nil {
					t.Fatal(err)
				}
			}
		}, []string{atFirst, atFirst, of(1)}},
		{"one part's can be read when an attempt has passed it over", func(t *testing.T, p *pair, n int) {
			if n > 0 && n < 3 {
				p.works[1].fails.Store(true)
				flip(t, p, 0)
			}
		}, []string{atFirst, atFirst, atFirst}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newPair(t)
				for n, want := range c.want {
					c.before(t, p, n)
					if from, _ := p.attempt(t, n); !strings.HasSuffix(from[0], want) || !strings.HasSuffix(from[1], want) {
						t.Errorf("attempt %d begins from %q, want %q", n, from, want)
					}
				}
			})
		})
	}
}

// TestPartsDecideOnce: what one part has chosen the other takes, or it does not start.
func TestPartsDecideOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t)
		p.attempt(t, 0)
		p.attempt(t, 1)
		if err := p.part(t, 2, 0).begin(t.Context()); err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(p.dir, "job-17/step-1/attempt-1/gen-2/count")
		if err := os.WriteFile(file, []byte("2h0m9s"), 0o600); err != nil {
			t.Fatal(err)
		}
		second := p.part(t, 2, 1)
		if err := second.begin(t.Context()); err == nil || isPlain(err) || !strings.Contains(err.Error(), "from which the other parts") {
			t.Errorf("%v", err)
		}
		if n := len(p.works[1].starts); n != 2 {
			t.Errorf("it began %d times: %q", n, p.works[1].starts)
		}
		p.works[0].now.end(0, nil)
		time.Sleep(time.Minute)
	})
}

// TestNoFolderOfParts: what burstd has on record and is not there is a file system that
// is not mounted, whichever part's it is.
func TestNoFolderOfParts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t)
		p.blest = map[string]ckpt.ID{"1": {Attempt: 0, N: 1}}
		b := p.part(t, 1, 0)
		if err := b.begin(t.Context()); err == nil || isPlain(err) || !strings.Contains(err.Error(), "mounted") {
			t.Errorf("%v", err)
		}
		if r, _, err := b.parts.book.Peek(); err != nil || len(r.Sets) > 0 {
			t.Errorf("on record is %+v, %v", r.Sets, err)
		}
	})
}

// TestAPartAloneIsNotCheckpointed: nor begins a part anew beside one that runs.
func TestAPartAloneIsNotCheckpointed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t)
		p.works[0].lostAfter = 3 * time.Hour
		b := p.part(t, 0, 0)
		code := make(chan int)
		if err := b.begin(t.Context()); err != nil {
			t.Fatal(err)
		}
		go func() { code <- b.run(t.Context(), b.signals) }()
		time.Sleep(time.Hour)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		for kind, want := range map[session.Kind]string{session.Stop: "component 1", session.Checkpoint: "only when it is to be requeued"} {
			if a := b.order(ctx, session.Request{Kind: kind, By: time.Now().Add(time.Minute)}); a.Stopped || !strings.Contains(a.Error, want) {
				t.Errorf("%s: %+v", kind, a)
			}
		}
		p.part(t, 0, 1)
		if a := b.order(ctx, session.Request{Kind: session.Stop, By: time.Now().Add(time.Minute)}); !strings.Contains(a.Error, "step 1 has not begun") {
			t.Errorf("%+v", a)
		}
		if got := <-code; got != 99 || len(p.works[0].starts) != 1 || len(p.works[0].tries) > 0 {
			t.Errorf("exit code %d, %d starts, checkpoints at %v", got, len(p.works[0].starts), p.works[0].tries)
		}
	})
}

// TestAPartBegins: what the user of a heterogeneous job is told, and what is on record.
func TestAPartBegins(t *testing.T) {
	for _, c := range []struct {
		name, words string
		attempt     int
		args        []string
		direct      bool
		code        int
		says        string
		components  int // on record
	}{
		{name: "both", says: "on a notice of burstd and together with", components: 1},
		{name: "by a timer", words: " strategy=periodic", direct: true, says: "by its own timer: start its components by one burst-srun (a : b), or, on a cloud that gives notices (Vultr gives none)"},
		{name: "all in one", words: " strategy=periodic interval=1h", args: []string{"-n1", "--het-group=0,1"}, says: "every 1h, in", components: 2},
		{name: "which of two it was cannot be told", attempt: 1, args: []string{"-n3"}, code: 1, says: "step 2 would begin anew, and not its parts with it"},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := newRequeued(t)
			a.script = strings.TrimSuffix(a.script, "\n") + c.words + " dir=" + a.dir("kept") + "\n"
			a.env = append(a.env, "SLURM_HET_SIZE=2", fmt.Sprintf("SLURM_RESTART_COUNT=%d", c.attempt))
			synctest.Test(t, func(t *testing.T) {
				a.T = t
				ctld := a.slurm()
				ctld.job.Restarts = c.attempt
				a.ctld, a.burstd = ctld, a.knows("")
				k := known{facts: facts{job: step.Job{ID: 17, Attempt: c.attempt}}, seen: seen{script: a.script}}
				for i := range 2 * c.attempt {
					k.job.Attempt = 0
					err := k.book(a.dir("kept")).Change(t.Context(), func(r *steprecord.Record) error {
						r.Steps = append(r.Steps, steprecord.Step{Name: fmt.Sprint(i), Args: []string{fmt.Sprint(i)}, Program: "sim", Dir: a.dir("work"), Components: []int{i}})
						return nil
					})
					if err != nil {
						t.Fatal(err)
					}
				}
				args := c.args
				if args == nil {
					args = []string{"-n1"}
				}
				if code := a.run(append(args, a.dir("bin/sim"))...); code != c.code && !c.direct || a.direct != c.direct || !strings.Contains(a.said.String(), c.says) {
					t.Errorf("exit code %d, srun alone %v: %s", code, a.direct, a.said.String())
				}
				if r, _, err := k.book(a.dir("kept")).Peek(); c.components > 0 && (err != nil || len(r.Steps) != 1 || len(r.Steps[0].Components) != c.components || !r.Steps[0].Done || r.Steps[0].Runs) {
					t.Errorf("on record is %+v, %v", r, err)
				}
			})
		})
	}
}
