package agent

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"
)

// sleep waits, unless ctx ends before.
func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// jitter makes d shorter by up to a quarter, so that a thousand nodes that
// were told the same at the same time do not come together.
func jitter(d time.Duration) time.Duration { return d - rand.N(d/4+1) }

// tally logs that something fails: the first time, then at most once a minute
// and ever more rarely, and when it works again. What fails may be different
// each time in its wording: nothing is compared.
type tally struct {
	log  *slog.Logger
	what string

	mu     sync.Mutex
	failed int       // times since it last worked
	told   bool      // of these failures
	next   time.Time // no warning before
	pause  time.Duration
}

const (
	quietMin = time.Minute
	quietMax = time.Hour
)

func newTally(log *slog.Logger, what string) *tally { return &tally{log: log, what: what} }

func (t *tally) fail(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.failed++
	now := time.Now()
	if now.Before(t.next) {
		t.log.Debug(t.what, "error", err, "times", t.failed)
		return
	}
	t.log.Warn(t.what, "error", err, "times", t.failed)
	t.told = true
	t.pause = min(max(2*t.pause, quietMin), quietMax)
	t.next = now.Add(t.pause)
}

func (t *tally) ok() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.told {
		t.log.Info("this is over: "+t.what, "times", t.failed)
	}
	t.failed, t.told, t.pause = 0, false, 0 // next stays: what comes and goes is not told each time
}
