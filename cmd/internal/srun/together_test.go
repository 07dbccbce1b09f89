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

	"github.com/burst-hpc/burst/ft/ckpt"
	"github.com/burst-hpc/burst/ft/session"
	"github.com/burst-hpc/burst/slurm/directive"
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
	k := book{dir: p.dir, job: "17", attempt: attempt, script: "s"}
	b.entry = entry{Name: name, Attempt: attempt, Began: time.Now(), Components: []int{i}}
	err := k.change(t.Context(), func(r *record) error {
		if len(r.Steps) <= i {
			r.Steps = append(r.Steps, make([]entry, i+1-len(r.Steps))...)
		}
		b.was, r.Steps[i] = r.Steps[i], b.entry
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	b.note = k.notes(t.Context(), b.say)
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

const anew = "the beginning"

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
	damage := func(t *testing.T, p *pair, n int) {
		if n != 2 {
			return
		}
		file := filepath.Join(gen(p, 1, 1), "count")
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		text[0] ^= 1
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		name   string
		before func(*testing.T, *pair, int) // an attempt
		want   []string                     // what both begin from, by attempts
	}{
		{"all is well", func(*testing.T, *pair, int) {}, []string{anew, of(0), of(1), of(2)}},
		{"one part fails at first", fails(0), []string{anew, anew, of(1)}},
		{"one part fails later", fails(1), []string{anew, of(0), of(0), of(2)}},
		{"one byte of one part's is changed", damage, []string{anew, of(0), of(0), of(2)}},
		{"one byte is changed, and burstd has the other part's on record", func(t *testing.T, p *pair, n int) {
			damage(t, p, n)
			p.blest = map[string]ckpt.ID{"0": {Attempt: n - 1, N: n}}
		}, []string{anew, of(0), of(0), of(2)}},
		{"one part's is gone", func(t *testing.T, p *pair, n int) {
			if n == 1 {
				if err := os.RemoveAll(gen(p, 0, 0)); err != nil {
					t.Fatal(err)
				}
			}
		}, []string{anew, anew, of(1)}},
		{"one part's is to be seen when the next attempt has begun", func(t *testing.T, p *pair, n int) {
			hidden := filepath.Join(p.dir, "hidden")
			from, to := gen(p, 1, 0), hidden
			switch n {
			case 1:
			case 2:
				from, to = to, from
				p.works[0].fails.Store(true)
			default:
				return
			}
			if err := os.Rename(from, to); err != nil {
				t.Fatal(err)
			}
			if n == 1 {
				p.works[1].fails.Store(true)
			}
		}, []string{anew, anew, anew}},
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
		if r, _, err := b.parts.book.peek(); err != nil || len(r.Sets) > 0 {
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
		if got := <-code; got != 99 || len(p.works[0].starts) != 1 || len(p.works[0].tries) > 0 {
			t.Errorf("exit code %d, %d starts, checkpoints at %v", got, len(p.works[0].starts), p.works[0].tries)
		}
	})
}

func TestMembers(t *testing.T) {
	at := func(h int) time.Time { return time.Unix(0, 0).Add(time.Duration(h) * time.Hour) }
	run := func(name string, began int, components ...int) entry {
		return entry{Name: name, Attempt: 1, Began: at(began), Components: components}
	}
	done := func(e entry, ended int) entry { e.Done, e.Ended = true, at(ended); return e }
	for _, c := range []struct {
		name  string
		steps []entry
		want  string
		fails string
	}{
		{"nothing", nil, "", ""},
		{"both", []entry{run("0", 1, 0), run("1", 1, 1)}, "0 1", ""},
		{"of an earlier attempt", []entry{{Name: "0", Components: []int{0}}, run("1", 1, 0), run("2", 1, 1)}, "1 2", ""},
		{"one alone", []entry{run("0", 1, 0)}, "", "component 1"},
		{"one is not protected", []entry{run("0", 1, 0), run("1", 1)}, "", "component 1"},
		{"one had ended before", []entry{done(run("0", 1, 1), 2), run("1", 3, 0)}, "1", ""},
		{"one has ended beside it", []entry{run("0", 1, 0), done(run("1", 1, 1), 2)}, "", "step 1 has ended"},
		{"that is not run again", []entry{run("0", 1, 0), done(run("post", 1, 1), 2)}, "0", ""},
		{"that was not run again", []entry{run("0", 1, 0), done(entry{Name: "post", Components: []int{1}}, 2)}, "0", ""},
		{"one step of all before", []entry{done(run("0", 1, 0, 1), 2), run("1", 3, 0)}, "1", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := record{Attempt: 1, Steps: c.steps}
			names, err := members(r, 2, isDoneIn(r))
			if c.fails != "" {
				if err == nil || !strings.Contains(err.Error(), c.fails) {
					t.Errorf("%v, want %q", err, c.fails)
				}
				return
			}
			if err != nil || strings.Join(names, " ") != c.want {
				t.Errorf("%q, %v, want %q", names, err, c.want)
			}
		})
	}
}

// TestStrategyOfParts: a part has no timer of its own, nor is it protected by one alone.
func TestStrategyOfParts(t *testing.T) {
	f := facts{job: step.Job{Place: step.Batch, ID: 17, Components: 2}, burstd: true}
	f.call.Parts = make([]step.Part, 1)
	f.merged.Method = directive.BySignal
	f.merged.Strategy = directive.Periodic
	env := func(string) string { return "" }
	if d := after(f, env); !d.Direct || !strings.Contains(d.Why, "together") {
		t.Errorf("%+v", d)
	}
	f.call.Parts = make([]step.Part, 2) // a : b
	if d := after(f, env); d.Direct {
		t.Errorf("%+v", d)
	}
}
