package srun

import (
	"fmt"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/burst-hpc/burst/ft/ckpt/methods"
)

// TestDiedEarly: a step that dies of its first signal is started again, and the next
// signal comes later; but not when its job ends.
func TestDiedEarly(t *testing.T) {
	for _, ends := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			w := &work{length: time.Hour, takes: time.Second}
			b := newBench(t, t.TempDir(), 0, "interval=10m", w)
			done := make(chan int)
			go func() { done <- b.whole(t) }()
			time.Sleep(time.Minute)
			if ends {
				b.jot()
			}
			w.now.end(138, fmt.Errorf("a rank: %w", methods.ErrEarly))
			if ends {
				if code := <-done; code != 138 || len(w.starts) != 1 {
					t.Errorf("exit code %d, starts %q", code, w.starts)
				}
				return
			}
			time.Sleep(18 * time.Minute)
			if len(w.starts) != 2 || len(w.tries) != 0 {
				t.Errorf("%d starts, %d checkpoints", len(w.starts), len(w.tries))
			}
			time.Sleep(15 * time.Minute)
			if n := b.made(); n != 2 {
				t.Errorf("%d checkpoints: the first after twice the interval, the next after the interval", n)
			}
			b.signals <- syscall.SIGTERM
			<-done
		})
	}
}
