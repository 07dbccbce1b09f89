package ft_test

import (
	"strings"
	"testing"
	"time"

	"github.com/burst-hpc/burst/ft"
	"github.com/burst-hpc/burst/ft/session"
	"github.com/burst-hpc/burst/slurm"
	"github.com/burst-hpc/burst/slurm/directive"
	"github.com/burst-hpc/burst/slurm/slurmtest"
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

// TestAJobThatCannotStartAgain: Slurm finds that minutes after the requeue. The job is
// held, once, and its user is told what to do, also when burstd was restarted meanwhile.
func TestAJobThatCannotStartAgain(t *testing.T) {
	for _, restarted := range []bool{false, true} {
		bubble(t, "c1", func(w *world) {
			id := w.begin(leaves(w, 1, 75))[0]
			var bad time.Time
			w.rewrite = func(s *slurm.Snapshot) {
				if j := s.Jobs[id]; j.Restarts == 1 && j.State == "PENDING" {
					if j.Reason = "Resources"; time.Now().After(bad) {
						j.Reason = "BadConstraints"
					}
					s.Jobs[id] = j
				}
			}
			w.start(ft.Config{}, 0)
			bad = time.Now().Add(5 * time.Minute)
			w.evict("c1", 2*time.Minute)
			w.until(time.Minute, "it is requeued", func() bool { return w.info(id).State == "PENDING" })
			w.scontrol("uhold", "1") // it must not start; the guard does not see why
			w.closed(time.Minute)
			const want = `no node suits it, says Slurm (BadConstraints), and it is held: mend the nodes, or what it asks for ("scontrol update jobid=1"), then "scontrol release 1" lets it start`
			if got := w.info(id).AdminComment; strings.Contains(got, want) || w.count("held") > 0 {
				t.Fatalf("too early: %q", got)
			}
			if restarted {
				w.die()
				time.Sleep(time.Minute)
				w.start(ft.Config{}, 0)
			}
			w.until(7*time.Minute, "its user is told", func() bool { return strings.Contains(w.info(id).AdminComment, want) })
			time.Sleep(20 * time.Minute)
			if w.count("held") != 1 || w.Count("scontrol uhold") != 2 {
				t.Errorf("held %d times, of which there are %d events", w.Count("scontrol uhold")-1, w.count("held"))
			}
		})
	}
}

// TestAScarceJobIsNotHeld: Slurm gives it up as long as its provider's nodes are few, which others see to.
func TestAScarceJobIsNotHeld(t *testing.T) {
	for _, scarce := range []bool{true, false} {
		bubble(t, "c1", func(w *world) {
			id := w.begin(leaves(w, 1, 75))[0]
			w.rewrite = func(s *slurm.Snapshot) {
				if j := s.Jobs[id]; j.Restarts == 1 && j.State == "PENDING" {
					j.Reason = "BadConstraints"
					s.Jobs[id] = j
				}
			}
			w.start(ft.Config{Scarce: func(_ *slurm.Snapshot, j slurm.Job) bool { return scarce && j.ID == id }}, 0)
			w.evict("c1", 2*time.Minute)
			w.until(time.Minute, "it is requeued", func() bool { return w.info(id).State == "PENDING" })
			w.scontrol("uhold", "1") // it must not start; the guard does not see why
			w.closed(time.Minute)
			time.Sleep(20 * time.Minute)
			if held := w.count("held"); (held == 0) != scarce {
				t.Errorf("scarce %v: held %d times", scarce, held)
			}
		})
	}
}

// TestRetriesWithoutASession: what its user says holds for a job whose steps have no
// session when it is evicted, or never have one. One that says nothing is requeued.
func TestRetriesWithoutASession(t *testing.T) {
	for _, tt := range []struct {
		name, says string
		held       bool
	}{
		{"burst-srun has not begun", "ckpt=signal signal=USR1 files=x retries=1", true},
		{"a program that checkpoints by itself", "signal=USR1 retries=1", true},
		{"it does not say how often", "signal=USR1", false},
		{"its site's method, which it may not use", "label=x", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, "c[1-9]", func(w *world) {
				s := newSite(w)
				s.start(ft.Config{Pools: func(string) (ft.Pool, bool) {
					return ft.Pool{Name: "p", Site: []directive.Layer{{Source: directive.Source{Kind: directive.Pool, Name: "p"},
						Settings: []directive.Setting{{Key: "ckpt", Value: "dmtcp"}, {Key: "retries", Value: "1"}}}}}, true
				}}, 0)
				id := w.begin(slurmtest.Job{Nodes: 1, Requeue: true, Script: "#!/bin/sh\n#BURST " + tt.says + "\nsrun app\n"})[0]
				for n := 1; n <= 2; n++ {
					time.Sleep(time.Minute)
					w.evictAll(id)
					if n == 2 && tt.held {
						w.until(5*time.Minute, "it is held", func() bool { return w.held(id) })
					} else {
						w.again(5*time.Minute, id, n)
					}
					w.closed(5 * time.Minute)
				}
				i := w.info(id)
				if w.held(id) != tt.held || strings.Contains(i.AdminComment, "evicted 2 times without a new checkpoint (retries=1)") != tt.held {
					t.Errorf("%+v", i)
				}
			})
		})
	}
}

// TestANodeThatDiesWithoutANotice: what its job has lost is known by its last
// checkpoint, and it counts as an eviction: once, whatever number of its nodes died.
func TestANodeThatDiesWithoutANotice(t *testing.T) {
	die := func(w *world, id uint32) {
		snap, err := slurm.New(runner{w.life}).Snapshot(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		nodes := w.info(id).Nodes
		for _, n := range nodes {
			if err := w.life.guard.Died(t.Context(), ft.Fall{Node: n, Instance: w.instance(n)}, snap); err != nil {
				t.Error(err)
			}
		}
		for _, n := range nodes {
			w.vanish(w.instance(n))
		}
	}
	bubble(t, "c[1-9]", func(w *world) {
		s := newSite(w)
		s.start(ft.Config{}, 0)
		id := w.begin(s.srun(2, step{hello: session.Hello{Strategy: "periodic", Retries: 1}, every: 45 * time.Second}))[0]
		time.Sleep(time.Minute)
		die(w, id)
		w.again(5*time.Minute, id, 1)
		w.mu.Lock()
		defer w.mu.Unlock()
		for _, e := range w.evictions {
			if e.Ending != ft.Moved || e.Lost.Round(time.Second) != 15*time.Second || e.Hold ||
				e.Outcome != "its node died without a notice; no checkpoint was asked for: it goes on from its last checkpoint, 15s ago" {
				t.Errorf("%+v", e)
			}
		}
		if len(w.evictions) != 1 || len(w.events) != 1 || w.events[0].Kind != "evicted" {
			t.Errorf("%d evictions, events %+v", len(w.evictions), w.events)
		}
	})
	bubble(t, "c[1-9]", func(w *world) {
		s := newSite(w)
		s.start(ft.Config{}, 0)
		id := w.begin(s.srun(2, fruitless(1)))[0]
		time.Sleep(time.Minute)
		die(w, id)
		w.again(5*time.Minute, id, 1)
		time.Sleep(time.Minute)
		die(w, id)
		w.until(2*time.Minute, "it is held", func() bool { return w.held(id) })
		time.Sleep(20 * time.Minute)
		if i := w.info(id); i.Restarts != 2 || !strings.Contains(i.AdminComment, "it was evicted 2 times without a new checkpoint (retries=1) and is held") || w.count("held") != 1 {
			t.Errorf("%+v", i)
		}
	})
}
