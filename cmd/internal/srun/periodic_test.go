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
	"github.com/burst-hpc/burst/slurm/directive"
)

// tried are the checkpoints that were begun, as times after start.
func (m *work) tried(start time.Time) (all []time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, at := range m.tries {
		all = append(all, at.Sub(start))
	}
	return all
}

// TestCheckpointsThatFail are tried ever more rarely with interval=auto, by what the
// tries take, until one does not fail; and at the interval that was asked for.
func TestCheckpointsThatFail(t *testing.T) {
	for _, tt := range []struct {
		name, text  string
		takes       time.Duration
		first       time.Duration // the wait after the first failure; 0: as ever
		least, most int           // tries in a week
	}{
		{"at once", "", 0, 24 * time.Minute, 42, 50},
		{"after a long time", "", 25 * time.Minute, 4 * time.Hour, 35, 44},
		{"as often as asked for", "interval=1h", time.Minute, 0, 160, 170},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := &work{length: 30 * 24 * time.Hour, takes: tt.takes}
				w.fails.Store(true)
				b := newBench(t, t.TempDir(), 0, tt.text, w)
				start := time.Now()
				done := make(chan int)
				go func() { done <- b.whole(t) }()
				time.Sleep(7 * 24 * time.Hour)
				tries := w.tried(start)
				if n := len(tries); n < tt.least || n > tt.most {
					t.Fatalf("%d tries in a week: %v", n, tries)
				}
				if tt.first > 0 {
					gaps := make([]time.Duration, len(tries)-1)
					for i := range gaps {
						gaps[i] = tries[i+1] - tries[i] - tt.takes
					}
					if gaps[0] < tt.first*9/10 || gaps[0] > tt.first*11/10 {
						t.Errorf("after the first failure it waited %s", gaps[0])
					}
					for i, gap := range gaps[1:] {
						if want := min(2*gaps[i], 4*time.Hour); gap < want*85/100 || gap > want*115/100 {
							t.Errorf("it waited %s after %s", gap, gaps[i])
						}
					}
				}
				w.fails.Store(false)
				time.Sleep(24 * time.Hour)
				if b.made() == 0 {
					t.Fatal("it is not tried any more")
				}
				b.mu.Lock()
				n := 0
				for _, line := range b.said {
					n += strings.Count(line, "the tool hangs")
				}
				b.mu.Unlock()
				if n != 1 {
					t.Errorf("the user was told %d times", n)
				}
				if every, want := b.interval(), ckpt.Interval(tt.takes, ckpt.Rate{}.Between(1), 0); tt.text == "" && every > want*11/10 {
					t.Errorf("after one that did not fail, the interval is %s", every)
				}
				b.signals <- syscall.SIGTERM
				<-done
			})
		})
	}
}

// TestAYoungStep is not frozen: MPI hangs that is checkpointed while it starts.
func TestAYoungStep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := func(dir string, attempt int, method string) (*bench, *work, <-chan int) {
			w := &work{length: time.Hour, takes: 100 * time.Millisecond, name: method}
			b := newBench(t, dir, attempt, "interval=2s", w)
			b.merged.Method = method
			done := make(chan int, 1)
			go func() { done <- b.whole(t) }()
			synctest.Wait()
			return b, w, done
		}
		end := func(b *bench, done <-chan int) {
			b.signals <- syscall.SIGTERM
			<-done
		}
		first := func(w *work, start time.Time) time.Duration {
			time.Sleep(30 * time.Second)
			return w.tried(start)[0]
		}
		for _, method := range []string{directive.DMTCP, directive.CRIU, directive.MANA, directive.BySignal} {
			dir, start := t.TempDir(), time.Now()
			b, w, done := begin(dir, 0, method)
			early := method == directive.BySignal
			if got := first(w, start); early && got > 3*time.Second || !early && (got < youngest || got > youngest+3*time.Second) {
				t.Errorf("%s: its first was begun after %s", method, got)
			}
			end(b, done)
			start = time.Now()
			b, w, done = begin(dir, 1, method)
			if got := first(w, start); got > 3*time.Second {
				t.Errorf("%s: the first after a restart was begun after %s", method, got)
			}
			end(b, done)
		}

		start := time.Now()
		b, w, done := begin(t.TempDir(), 0, directive.DMTCP)
		short, cancel := context.WithTimeoutCause(t.Context(), 5*time.Second, session.ErrLate)
		defer cancel()
		if a := b.order(short, session.Request{Kind: session.Stop}); a.Stopped || !strings.Contains(a.Error, "has not run for 20s") {
			t.Errorf("with too little time: %+v", a)
		}
		long, cancel := context.WithTimeout(t.Context(), 90*time.Second)
		defer cancel()
		if a := b.order(long, session.Request{Kind: session.Stop}); !a.Stopped || a.Error != "" || w.tried(start)[0] < youngest {
			t.Errorf("it was stopped after %v: %+v", w.tried(start), a)
		}
		end(b, done)

		start = time.Now()
		b, w, done = begin(t.TempDir(), 0, directive.DMTCP)
		time.AfterFunc(10*time.Second, func() { w.now.end(0, nil) })
		if a := b.order(t.Context(), session.Request{Kind: session.Stop}); a.Stopped || !strings.Contains(a.Error, ckpt.ErrFinishing.Error()) {
			t.Errorf("it ended meanwhile: %+v", a)
		} else if took := time.Since(start); took > 12*time.Second {
			t.Errorf("the end of the step was seen after %s", took)
		}
		if code := <-done; code != 0 {
			t.Errorf("exit code %d", code)
		}
	})
}
