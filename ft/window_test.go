package ft_test

import (
	"sync"
	"testing"
	"time"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/ft"
)

// TestHeardInTheMomentOfTheEnd: what opens a key again just after the journal has
// closed it, while the guard has not left it yet, is acted upon, now and not
// after the next restart.
func TestHeardInTheMomentOfTheEnd(t *testing.T) {
	t.Run("no node of ours", func(t *testing.T) {
		bubble(t, "c1", func(w *world) {
			l := w.start(ft.Config{}, 0)
			n := cloud.Notice{Instance: "i-c1-1", Kind: cloud.SpotInterruption, Deadline: time.Now().Add(2 * time.Minute)}
			w.atTheEnd(func() {
				if err := l.guard.Hear(w.ctx, "fake", n); err != nil {
					t.Error(err)
				}
			})
			w.fake.Announce(n)
			time.Sleep(50 * time.Second) // and by then it has a node
			id := w.begin(leaves(w, 1, 75))[0]
			w.until(40*time.Second, "its job is moved", func() bool { return w.info(id).Restarts == 1 })
		})
	})
	t.Run("another event", func(t *testing.T) {
		bubble(t, "c[1-2]", func(w *world) {
			w.begin(stays(w))
			l := w.start(w.rules("c[1-2]", "", ft.Ignore), 0)
			w.atTheEnd(func() {
				if err := l.guard.Hear(w.ctx, "fake", cloud.Notice{Instance: "i-c1-1", Kind: cloud.Maintenance, Event: "e2"}); err != nil {
					t.Error(err)
				}
			})
			w.work("c1", "e1", time.Hour)
			w.closed(5 * time.Second)
			w.until(5*time.Second, "both are noted", func() bool { return w.count("notice") == 2 })
			w.closed(5 * time.Second)
		})
	})
}

// atTheEnd calls f once, when the journal has closed a notice and the guard has
// not seen that it has.
func (w *world) atTheEnd(f func()) {
	var once sync.Once
	w.committed = func(c ft.Change) {
		for _, n := range c.Notices {
			if n.Stage == ft.Acked {
				once.Do(f)
			}
		}
	}
}

// TestHeardWhileTheJournalIsRead: a source gives its notice again, a little more
// urgent, in the moment at which a new life takes up what the last has left. The
// job that was signalled, and has left for that meanwhile, is requeued.
func TestHeardWhileTheJournalIsRead(t *testing.T) {
	bubble(t, "c[1-2]", func(w *world) {
		id := w.begin(leaves(w, 1, 75))[0]
		n := cloud.Notice{Instance: "i-c1-1", Kind: cloud.SpotInterruption, Deadline: time.Now().Add(2 * time.Minute), Source: "sqs"}
		w.start(ft.Config{}, 0)
		w.fake.Announce(n)
		w.until(10*time.Second, "it is signalled", func() bool {
			w.mu.Lock()
			defer w.mu.Unlock()
			return w.journalHas(ft.Signalled)
		})
		w.die()
		w.until(10*time.Second, "it has left", func() bool { return w.info(id).State == "FAILED" })
		n.Deadline, n.Source = n.Deadline.Add(-time.Second), "imds"
		heard := make(chan error, 1)
		w.loaded = func() {
			w.mu.Lock()
			l := w.life
			w.mu.Unlock()
			go func() { heard <- l.guard.Hear(w.ctx, "fake", n) }()
			time.Sleep(time.Millisecond)
		}
		w.start(ft.Config{}, 0)
		if err := <-heard; err != nil {
			t.Error(err)
		}
		w.again(10*time.Second, id, 1)
		w.closed(time.Minute)
	})
}
