package srun

import (
	"context"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/burst-hpc/burst/ft/ckpt"
	"github.com/burst-hpc/burst/ft/session"
)

// unready is work whose steps never begin a checkpoint after which they are to go on.
type unready struct{ *work }

type unreadyStep struct {
	ckpt.Step
	asked, yield chan struct{}
}

func (m unready) Start(ctx context.Context, l ckpt.Launch) (ckpt.Step, error) {
	s, err := m.work.Start(ctx, l)
	return unreadyStep{s, make(chan struct{}, 1), make(chan struct{})}, err
}

func (s unreadyStep) Checkpoint(ctx context.Context, into string, stop bool) (ckpt.Made, error) {
	if stop {
		return s.Step.Checkpoint(ctx, into, stop)
	}
	s.asked <- struct{}{}
	select {
	case <-s.yield:
		return ckpt.Made{}, ckpt.ErrYielded
	case <-ctx.Done():
		return ckpt.Made{}, ctx.Err()
	}
}

func (s unreadyStep) Yield() {
	select {
	case s.yield <- struct{}{}:
	default: // nothing waits
	}
}

// TestNoticeWhileAPeriodicOneWaits: what the application has not begun does not keep a
// notice waiting, nor what burstd has end without a checkpoint.
func TestNoticeWhileAPeriodicOneWaits(t *testing.T) {
	for _, kind := range []session.Kind{session.Stop, session.Leave} {
		synctest.Test(t, func(t *testing.T) {
			w := &work{length: time.Hour, takes: 10 * time.Second}
			b := newBench(t, t.TempDir(), 0, "interval=10m", w)
			b.method = unready{w}
			done := make(chan int)
			go func() { done <- b.whole(t) }()
			time.Sleep(15 * time.Minute)
			step, _ := b.current()
			<-step.(unreadyStep).asked // it waits
			began := time.Now()
			ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
			defer cancel()
			a := b.order(ctx, session.Request{ID: "r", Kind: kind, By: time.Now().Add(90 * time.Second)})
			if took := time.Since(began); !a.Stopped || a.Error != "" || (kind == session.Stop) != (a.N > 0) || took > 15*time.Second {
				t.Errorf("%s: %+v, after %s", kind, a, took)
			}
			b.mu.Lock()
			said := strings.Join(b.said, "\n")
			b.mu.Unlock()
			if strings.Contains(said, ckpt.ErrYielded.Error()) {
				t.Errorf("%s: the user was told:\n%s", kind, said)
			}
			b.signals <- syscall.SIGTERM // the requeue
			<-done
		})
	}
}
