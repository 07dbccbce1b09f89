package ft_test

import (
	"strings"
	"testing"
	"time"

	"github.com/burst-hpc/burst/ft"
	"github.com/burst-hpc/burst/ft/session"
	"github.com/burst-hpc/burst/slurm"
)

// fruitless is a step that makes no checkpoint, of a job that may be evicted so often.
func fruitless(retries int) step {
	return step{hello: session.Hello{Strategy: "periodic", Retries: retries}}
}

// held says whether Slurm has the job so.
func (w *world) held(id uint32) bool {
	i := w.info(id)
	return i.State == "PENDING" && i.Reason == "JobHeldUser"
}

// evictAll takes all nodes of the job back at once.
func (w *world) evictAll(id uint32) {
	for _, n := range w.info(id).Nodes {
		w.evict(n, time.Minute)
	}
}

// TestAReleasedJobHasItsRetriesAgain: what was evicted before an admin let it go does
// not count, and of several evictions of an attempt one does.
func TestAReleasedJobHasItsRetriesAgain(t *testing.T) {
	bubble(t, "c[1-9]", func(w *world) {
		s := newSite(w)
		s.start(ft.Config{}, 0)
		id := w.begin(s.srun(2, fruitless(1)))[0]
		for n, held := range []bool{false, true, false, true} {
			time.Sleep(time.Minute)
			w.evictAll(id)
			if !held {
				w.again(2*time.Minute, id, n+1)
				w.closed(5 * time.Minute)
				continue
			}
			w.until(2*time.Minute, "it is held", func() bool { return w.held(id) })
			w.closed(5 * time.Minute)
			if i := w.info(id); i.Restarts != n+1 || !strings.Contains(i.AdminComment, "evicted 2 times without a new checkpoint (retries=1)") {
				t.Fatalf("%+v", i)
			}
			w.scontrol("release", "1")
			w.again(3*time.Minute, id, n+1) // Slurm's two minutes after a requeue
		}
	})
}

// TestAHeldJobIsHeldOnce: burstd dies when it has held a job, an admin lets that go,
// and the burstd that comes back leaves it alone, whatever other evictions are open.
func TestAHeldJobIsHeldOnce(t *testing.T) {
	bubble(t, "c[1-9]", func(w *world) {
		s := newSite(w)
		w.committed = func(c ft.Change) {
			for _, e := range c.Evictions {
				if l := w.life; e.Held && !l.isDead() {
					l.mu.Lock()
					l.dead = true
					l.mu.Unlock()
					l.kill()
				}
			}
		}
		l := s.start(ft.Config{}, 0)
		id := w.begin(s.srun(2, fruitless(1)))[0]
		time.Sleep(time.Minute)
		w.evictAll(id)
		w.again(2*time.Minute, id, 1)
		w.closed(5 * time.Minute)
		time.Sleep(time.Minute)
		w.evictAll(id)
		w.until(2*time.Minute, "burstd is dead", l.isDead)
		w.die()
		w.committed = nil
		w.until(5*time.Second, "it is held", func() bool { return w.held(id) })
		w.scontrol("release", "1")
		s.start(ft.Config{}, 0)
		w.again(3*time.Minute, id, 2)
		w.closed(5 * time.Minute)
		time.Sleep(10 * time.Minute)
		if i := w.info(id); i.State != "RUNNING" || i.Restarts != 2 {
			t.Errorf("in the end: %+v", i)
		}
	})
}

// TestALateNoticeAsksNothing: the event says so.
func TestALateNoticeAsksNothing(t *testing.T) {
	bubble(t, "c[1-4]", func(w *world) {
		s := newSite(w)
		s.start(ft.Config{}, 0)
		id := w.begin(s.srun(1, step{takes: time.Second}))[0]
		time.Sleep(time.Minute)
		w.evict("c1", 3*time.Second) // and 5 are kept for the requeue
		w.again(2*time.Minute, id, 1)
		w.closed(5 * time.Minute)
		if len(s.kinds()) != 0 {
			t.Errorf("asked %v", s.kinds())
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		for _, e := range w.events {
			if e.Kind == "evict" && (!strings.Contains(e.Text, "no time is left to ask its steps for anything, then it is requeued") || strings.Contains(e.Text, "asked to")) {
				t.Errorf("the event says %q", e.Text)
			}
		}
		if len(w.events) == 0 {
			t.Error("there is no event")
		}
	})
}

// TestAJobThatCannotStartAgain: Slurm holds it itself, and its user is told what to do.
func TestAJobThatCannotStartAgain(t *testing.T) {
	bubble(t, "c[1-4]", func(w *world) {
		id := w.begin(leaves(w, 1, 75))[0]
		w.rewrite = func(s *slurm.Snapshot) {
			if j := s.Jobs[id]; j.Restarts == 1 && j.State != "COMPLETING" {
				j.State, j.Reason, j.Nodes = "PENDING", "BadConstraints", ""
				s.Jobs[id] = j
			}
		}
		w.start(ft.Config{}, 0)
		w.evict("c1", 2*time.Minute)
		w.closed(time.Minute)
		const want = `Slurm holds it (BadConstraints), since it finds no node for what it asks: when that is mended, an admin's "scontrol release 1" lets it start`
		if got := w.info(id).AdminComment; !strings.Contains(got, want) {
			t.Errorf("its comment is %q", got)
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		for _, e := range w.evictions {
			if !strings.Contains(e.Outcome, want) {
				t.Errorf("its outcome is %q", e.Outcome)
			}
		}
	})
}
