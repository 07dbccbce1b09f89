package session_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/burst-hpc/burst/ft/session"
	"github.com/burst-hpc/burst/ft/session/sessiontest"
)

// dice is a wire with faults.
type dice struct {
	sessiontest.Wire
	mu   sync.Mutex
	rand *rand.Rand
	rate float64 // of each kind of fault
}

func (w *world) dice(seed uint64, rate float64) *dice {
	d := &dice{Wire: w.wire(), rand: rand.New(rand.NewPCG(seed, 1)), rate: rate}
	d.Fault = func(string, bool) error {
		if d.roll() {
			return sessiontest.ErrLost
		}
		return nil
	}
	return d
}

func (d *dice) roll() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.rand.Float64() < d.rate
}

// Do is slow, or says things twice.
func (d *dice) Do(ctx context.Context, path string, in, out any) error {
	if d.roll() {
		time.Sleep(2 * time.Second)
	}
	if d.roll() {
		short, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
		_ = d.Wire.Do(short, path, in, nil) // a duplicate that the network has made
		cancel()
	}
	return d.Wire.Do(ctx, path, in, out)
}

// skewed is a wire between hosts of which one has a wrong clock.
type skewed struct {
	sessiontest.Wire
	by time.Duration
}

func (s skewed) Do(ctx context.Context, path string, in, out any) error {
	if h, ok := in.(session.Hello); ok {
		h.Began = h.Began.Add(-s.by)
		in = h
	}
	err := s.Wire.Do(ctx, path, in, out)
	if w, ok := out.(*session.Word); ok && w.Request != nil {
		w.Request.By = w.Request.By.Add(s.by)
	}
	return err
}
