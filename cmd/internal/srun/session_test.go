package srun

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/burst-hpc/burst/cmd/internal/jobword"
	"github.com/burst-hpc/burst/ft/ckpt"
	"github.com/burst-hpc/burst/ft/session"
	"github.com/burst-hpc/burst/ft/session/sessiontest"
)

// controller is burstd's hub, which may be away.
type controller struct {
	*sessiontest.Memory
	hub  *session.Hub
	away atomic.Bool
}

func newController(t *testing.T) *controller {
	t.Helper()
	m := sessiontest.NewMemory()
	c := &controller{Memory: m, hub: session.NewHub(session.HubConfig{}, m, slog.New(slog.DiscardHandler))}
	ctx, cancel := context.WithCancel(t.Context())
	go c.hub.Run(ctx)
	t.Cleanup(cancel)
	return c
}

func (c *controller) wire() sessiontest.Wire {
	return sessiontest.Wire{UID: 7, Hub: func() *session.Hub {
		if c.away.Load() {
			return nil
		}
		return c.hub
	}}
}

func (c *controller) ask(t *testing.T, kind session.Kind, attempt int, within time.Duration) (map[string]session.Answer, error) {
	t.Helper()
	asked, err := c.hub.Ask(t.Context(), session.Order{Job: 17, Attempt: attempt, Request: session.Request{
		ID: "r", Kind: kind, By: time.Now().Add(within), Why: "node c1 is taken back by the cloud"}})
	if err != nil {
		t.Fatal(err)
	}
	return asked.Wait(t.Context())
}

// protected begins the bench's step and sees it to its end, in a session.
func (b *bench) protected(t *testing.T, transport session.Transport) <-chan int {
	t.Helper()
	if err := b.begin(t.Context()); err != nil {
		t.Fatal(err)
	}
	p := &program{stderr: new(bytes.Buffer)}
	done := make(chan int, 1)
	go func() {
		k := known{facts: facts{job: b.job, merged: b.merged}, transport: transport}
		code := p.within(t.Context(), k, b.runner, b.signals)
		b.finish(code)
		done <- code
	}()
	return done
}

func TestAskedToStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir, c := t.TempDir(), newController(t)
		w := &work{length: time.Hour, takes: 5 * time.Second}
		b := newBench(t, dir, 0, "strategy=both interval=10m", w)
		done := b.protected(t, c.wire())
		time.Sleep(15 * time.Minute)
		answers, err := c.ask(t, session.Stop, 0, 90*time.Second)
		a := answers["0"]
		if err != nil || !a.Stopped || a.N != 2 || a.Generation == "" {
			t.Errorf("%+v, %v", a, err)
		}
		if blessed, err := c.Blessed(t.Context(), 17, "0"); err != nil || blessed.Answer.N != 2 {
			t.Errorf("blessed %+v, %v", blessed, err)
		}
		if n := len(c.hub.Sessions(17, 0)); n != 1 {
			t.Errorf("%d sessions: the step waits, and has not ended", n)
		}
		b.signals <- syscall.SIGTERM
		if code := <-done; code != CutOff {
			t.Errorf("exit code %d", code)
		}
	})
}

func TestAskedForACheckpoint(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newController(t)
		b := newBench(t, t.TempDir(), 0, "strategy=preemptive", &work{length: time.Hour, takes: 5 * time.Second})
		done := b.protected(t, c.wire())
		time.Sleep(time.Minute)
		answers, err := c.ask(t, session.Checkpoint, 0, 90*time.Second)
		if a := answers["0"]; err != nil || a.Stopped || a.N != 1 {
			t.Errorf("%+v, %v", a, err)
		}
		if code := <-done; code != 0 {
			t.Errorf("exit code %d", code)
		}
		if n := len(c.hub.Sessions(17, 0)); n != 0 {
			t.Errorf("%d sessions after the step's end", n)
		}
		ended, err := c.StepsDone(t.Context(), 17)
		if err != nil || len(ended) != 1 {
			t.Fatalf("of the step's end burstd has %+v, %v", ended, err)
		}
		last := b.outcome(0)
		if s := ended[0]; s.Checkpoints != 1 || s.Ran != last.Ran || s.Writing != last.Writing || s.Writing < 5*time.Second || s.Method != "signal" || s.Exit != 0 {
			t.Errorf("burstd was told %+v, and the user %s", s, summary(b.job, last, 0))
		}
	})
}

// TestACostIsKnownAtOnce: a restarted step's first request is judged by what the
// checkpoint took that it has begun from, and the next ones by its own.
func TestACostIsKnownAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir, c := t.TempDir(), newController(t)
		w := &work{length: time.Hour, takes: 40 * time.Second}
		first := newBench(t, dir, 0, "interval=20m", w)
		done := first.protected(t, c.wire())
		cost := func(attempt int) time.Duration {
			all := c.hub.Sessions(17, attempt)
			if len(all) != 1 {
				t.Fatalf("sessions %+v", all)
			}
			return all[0].Cost
		}
		time.Sleep(time.Minute)
		if d := cost(0); d != 0 {
			t.Errorf("before any checkpoint it costs %v", d)
		}
		time.Sleep(30 * time.Minute)
		if _, err := c.ask(t, session.Leave, 0, 30*time.Second); err != nil {
			t.Fatal(err)
		}
		first.signals <- syscall.SIGTERM
		<-done
		w.takes = 5 * time.Second
		next := newBench(t, dir, 1, "interval=20m", w)
		done = next.protected(t, c.wire())
		time.Sleep(time.Minute)
		if d := cost(1); d < 40*time.Second || d > 41*time.Second {
			t.Errorf("after a restart it costs %v", d)
		}
		time.Sleep(25 * time.Minute)
		c.away.Store(true)
		time.Sleep(5 * time.Minute) // until the session is forgotten
		c.away.Store(false)
		time.Sleep(time.Minute)
		if d := cost(1); d < 5*time.Second || d > 6*time.Second {
			t.Errorf("after a checkpoint of its own it costs %v", d)
		}
		<-done
	})
}

// TestBurstdIsAway: the step runs, is checkpointed, and what is deleted has enough
// after it that has been there for a while.
func TestBurstdIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newController(t)
		c.away.Store(true)
		b := newBench(t, t.TempDir(), 0, "interval=5m keep=2", &work{length: 2 * time.Hour, takes: time.Second})
		done := b.protected(t, c.wire())
		time.Sleep(58 * time.Minute)
		if all, err := b.folder.List(t.Context()); err != nil || len(all) < 3 || len(all) > 4 || all[0].N < 10 {
			t.Errorf("%v, %v", all, err)
		}
		c.away.Store(false)
		if code := <-done; code != 0 {
			t.Errorf("exit code %d", code)
		}
		all, err := b.folder.List(t.Context())
		if err != nil || len(all) > 3 {
			t.Errorf("%d generations are kept, %v", len(all), err)
		}
		blessed, err := c.Blessed(t.Context(), 17, "0")
		if err != nil || len(all) == 0 || blessed.Answer.N != all[0].N {
			t.Errorf("blessed %+v, newest %+v, %v", blessed.Answer, all, err)
		}
	})
}

func TestRefusedByBurstd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newController(t)
		wire := c.wire()
		wire.Fault = func(path string, _ bool) error {
			if path == session.PathOpen {
				return session.ErrNotYours
			}
			return nil
		}
		b := newBench(t, t.TempDir(), 0, "interval=5m", &work{length: time.Hour, code: 3})
		start := time.Now()
		if code := <-b.protected(t, wire); code != 3 {
			t.Errorf("exit code %d", code)
		}
		if d := time.Since(start); d > time.Hour+time.Minute {
			t.Errorf("its end took %v", d)
		}
	})
}

func TestAskBefore(t *testing.T) {
	const never = 1000
	busy, gone := &refusal{status: 409, after: 4 * time.Second}, &refusal{status: 404}
	for _, c := range []struct {
		name    string
		attempt int
		fails   int // so many times
		with    error
		answer  bool
		most    time.Duration
	}{
		{"it answers", 0, 0, nil, true, 0},
		{"it does not know the attempt yet", 0, 2, busy, true, 7 * time.Second},
		{"it is away", 0, never, errors.New("connection refused"), false, 0},
		{"it hangs", 0, never, nil, false, beforeTime},
		{"it knows no such question", 1, never, gone, false, 0},
		{"it is just being started", 1, 3, &refusal{status: 503}, true, 10 * time.Second},
		{"it refuses", 1, never, &refusal{status: 403, kind: session.ErrNotYours}, false, 0},
		{"it is away before a restart", 1, 6, errors.New("connection refused"), true, time.Minute},
		{"it stays away", 1, never, errors.New("connection refused"), false, defaultWait},
		{"it hangs before a restart", 1, never, nil, false, defaultWait},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := 0
				burstd := transport(func(ctx context.Context, path string, in, out any) error {
					if path != jobword.Path || in != (jobword.Asking{Job: 17, Attempt: c.attempt}) {
						t.Errorf("asked %s %v", path, in)
					}
					if n++; n > c.fails {
						out.(*jobword.Before).Blessed = map[string]jobword.OnRecord{"0": {ID: ckpt.ID{Attempt: 0, N: 3}}}
						return nil
					}
					if c.with == nil {
						<-ctx.Done()
						return ctx.Err()
					}
					return c.with
				})
				start := time.Now()
				b, err := askBefore(t.Context(), burstd, jobword.Asking{Job: 17, Attempt: c.attempt}, c.most+time.Second)
				if took := time.Since(start); (err == nil) != c.answer || c.answer && b.Blessed["0"].N != 3 || took > c.most+time.Second {
					t.Errorf("%+v, %v after %v", b, err, took)
				}
			})
		})
	}
}

type transport func(ctx context.Context, path string, in, out any) error

func (f transport) Do(ctx context.Context, path string, in, out any) error {
	return f(ctx, path, in, out)
}
