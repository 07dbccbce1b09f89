package srun

import (
	"context"
	"slices"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/burst-hpc/burst/ft/ckpt"
)

// wishful is work whose steps want checkpoints now and then.
type wishful struct {
	*work
	wants chan struct{}
}

type wishfulStep struct {
	ckpt.Step
	wants chan struct{}
}

func (m wishful) Start(ctx context.Context, l ckpt.Launch) (ckpt.Step, error) {
	s, err := m.work.Start(ctx, l)
	return wishfulStep{s, m.wants}, err
}

func (s wishfulStep) Asked() <-chan struct{} { return s.wants }

// TestWishes: a checkpoint that the application wants is taken at once, whatever the
// strategy, and the next periodic one comes an interval after it.
func TestWishes(t *testing.T) {
	for text, want := range map[string][]time.Duration{
		"strategy=preemptive": {25 * time.Minute, 26 * time.Minute},
		"interval=20m":        {20 * time.Minute, 25 * time.Minute, 26 * time.Minute, 46 * time.Minute},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := &work{length: 50 * time.Minute, takes: time.Second}
			b := newBench(t, t.TempDir(), 0, text, w)
			wants := make(chan struct{}, 1)
			b.method = wishful{w, wants}
			start := time.Now()
			done := make(chan int)
			go func() { done <- b.whole(t) }()
			time.Sleep(25 * time.Minute)
			wants <- struct{}{}
			time.Sleep(time.Minute)
			wants <- struct{}{}
			if code := <-done; code != 0 {
				t.Errorf("%s: exit code %d", text, code)
			}
			tries := w.tried(start)
			near := func(a, b time.Duration) bool { return (a - b).Abs() < 3*time.Minute } // an interval is never quite the same
			if !slices.EqualFunc(tries, want, near) || b.made() != len(want) {
				t.Errorf("%s: %d of the checkpoints at %v, want them at %v", text, b.made(), tries, want)
			}
		})
	}
}

// TestWishesOfParts: a part of a heterogeneous job is not heard, for it would be
// checkpointed alone.
func TestWishesOfParts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &work{length: time.Hour}
		b := newBench(t, t.TempDir(), 0, "", w)
		wants := make(chan struct{}, 1)
		b.method, b.parts = wishful{w, wants}, &parts{}
		if err := b.begin(t.Context()); err != nil {
			t.Fatal(err)
		}
		wants <- struct{}{}
		done := make(chan int)
		go func() { done <- b.run(t.Context(), b.signals) }()
		time.Sleep(10 * time.Minute)
		if len(wants) != 1 || len(w.tried(time.Now())) > 0 {
			t.Error("it was heard")
		}
		b.signals <- syscall.SIGTERM
		<-done
	})
}
