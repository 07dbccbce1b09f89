package ft_test

import (
	"strings"
	"testing"
	"time"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/ft"
	"github.com/burst-hpc/burst/ft/session"
	"github.com/burst-hpc/burst/slurm/slurmtest"
)

// TestARebalanceMovesSteps: a job whose steps can checkpoint moves to the node that
// was raised for it when that is up; without a checkpoint it stays.
func TestARebalanceMovesSteps(t *testing.T) {
	for _, tt := range []struct {
		name    string
		step    step
		pool    string        // its nodes
		moved   time.Duration // after the notice, at least; 0: not at all
		outcome string
	}{
		{"on notice", step{takes: 5 * time.Second}, "c[1-4]", 35 * time.Second, "checkpoint of 12.0 MB"},
		{"periodic only", step{takes: 5 * time.Second, hello: session.Hello{Strategy: "periodic"}}, "c[1-4]", 35 * time.Second, "checkpoint of 12.0 MB"},
		{"it fails", step{takes: 5 * time.Second, fails: "disk full", stays: true}, "c[1-4]", 0, "left where it is: step 0: disk full"},
		{"it takes too long", step{takes: time.Hour}, "c[1-4]", 0, "left where it is: step 0: the time is over"},
		{"the step dies of it", step{takes: 5 * time.Second, fails: "killed"}, "c[1-4]", 35 * time.Second, "step 0: killed: it goes on from its beginning"},
		{"a checkpoint is known to take too long", step{takes: time.Second, hello: session.Hello{Cost: time.Hour}}, "c[1-4]", 0, ""},
		{"no node is free", step{takes: 5 * time.Second}, "c1", 0, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, "c[1-4]", func(w *world) {
				s := newSite(w)
				id := w.begin(s.srun(1, tt.step))[0]
				w.boot = 30 * time.Second
				s.start(w.rules(tt.pool, ft.Replace, ""), 0)
				time.Sleep(time.Minute)
				told := time.Now()
				w.announce("c1", cloud.Rebalance)
				if tt.moved > 0 {
					w.again(2*time.Minute, id, 1)
					if took := time.Since(told); took < tt.moved || took > tt.moved+8*time.Second {
						t.Errorf("it runs again after %s", took)
					}
				}
				w.closed(20 * time.Minute)
				time.Sleep(time.Minute)
				i := w.info(id)
				if i.State != "RUNNING" || len(i.Signals) > 0 || tt.moved == 0 && i.Restarts > 0 || tt.moved > 0 && (i.Restarts != 1 || i.Nodes[0] != "c2") {
					t.Errorf("%+v", i)
				}
				w.mu.Lock()
				defer w.mu.Unlock()
				for _, e := range w.evictions {
					if e.Stage != ft.Done || !strings.Contains(e.Outcome, tt.outcome) {
						t.Errorf("%+v, want %q", e, tt.outcome)
					}
				}
				if len(w.evictions) > 0 != (tt.outcome != "") {
					t.Errorf("%d evictions", len(w.evictions))
				}
			})
		})
	}
}

// TestAReplacementThatAnotherJobHas: the job that it was raised for stays where it is, as elsewhere there may be no place for it.
func TestAReplacementThatAnotherJobHas(t *testing.T) {
	bubble(t, "c[1-2]", func(w *world) {
		s := newSite(w)
		id := w.begin(s.srun(1, step{takes: 5 * time.Second}))[0]
		w.boot = 30 * time.Second
		s.start(w.rules("c[1-2]", ft.Replace, ""), 0)
		time.Sleep(time.Minute)
		w.announce("c1", cloud.Rebalance)
		time.Sleep(5 * time.Second)
		other := w.begin(stays(w))[0]
		w.closed(20 * time.Minute)
		if i := w.info(other); i.State != "RUNNING" || i.Nodes[0] != "c2" {
			t.Fatalf("%+v", i)
		}
		if i := w.info(id); i.State != "RUNNING" || i.Restarts > 0 || len(s.kinds()) > 0 {
			t.Errorf("%+v, asked %v\n%s", i, s.kinds(), w.story())
		}
	})
}

// TestASealThatTakesLong: the step has ended in time, and brings its generation to disk
// for minutes after. It is not left to wait for a requeue that never comes.
func TestASealThatTakesLong(t *testing.T) {
	bubble(t, "c[1-4]", func(w *world) {
		s := newSite(w)
		id := w.begin(s.srun(1, step{takes: 18 * time.Minute, seals: true}))[0]
		s.start(w.rules("c[1-4]", ft.Replace, ""), 0)
		time.Sleep(time.Minute)
		w.announce("c1", cloud.Rebalance)
		w.again(20*time.Minute, id, 1)
		w.closed(time.Minute)
		w.mu.Lock()
		defer w.mu.Unlock()
		for _, e := range w.evictions {
			if !strings.HasPrefix(e.Outcome, "requeued; checkpoint of 12.0 MB") || len(s.kinds()) != 1 {
				t.Errorf("%+v; asked %v", e, s.kinds())
			}
		}
	})
}

// TestARebalanceLeavesOthers: without sessions, and of jobs that cannot be
// requeued, nothing is moved.
func TestARebalanceLeavesOthers(t *testing.T) {
	bubble(t, "c[1-4]", func(w *world) {
		s := newSite(w)
		fixed := s.srun(1, step{takes: time.Second})
		fixed.Requeue = false
		ids := w.begin(stays(w), fixed)
		s.start(w.rules("c[1-4]", ft.Replace, ""), 0)
		time.Sleep(time.Minute)
		w.announce("c1", cloud.Rebalance)
		w.announce("c2", cloud.Rebalance)
		w.closed(5 * time.Minute)
		time.Sleep(20 * time.Minute)
		for _, id := range ids {
			if i := w.info(id); i.Restarts > 0 || i.State != "RUNNING" || len(i.Signals) > 0 {
				t.Errorf("%+v", i)
			}
		}
		if len(w.evictions) > 0 || len(s.kinds()) > 0 {
			t.Errorf("%+v, asked %v", w.evictions, s.kinds())
		}
	})
}

// TestTheInterruptionComesDuringTheMove, while the step writes for the rebalance: it
// has less time now, and the job is requeued once.
func TestTheInterruptionComesDuringTheMove(t *testing.T) {
	bubble(t, "c[1-4]", func(w *world) {
		s := newSite(w)
		s.start(w.rules("c[1-4]", ft.Replace, ""), 0)
		id := w.begin(s.srun(1, step{takes: 20 * time.Second}))[0]
		time.Sleep(time.Minute)
		w.announce("c1", cloud.Rebalance)
		w.until(30*time.Second, "it is asked", func() bool { return len(s.kinds()) == 1 })
		time.Sleep(5 * time.Second)
		w.evict("c1", time.Minute)
		w.again(40*time.Second, id, 1)
		w.closed(5 * time.Minute)
		time.Sleep(20 * time.Minute)
		if i := w.info(id); i.Restarts != 1 || s.good(id) != 0 {
			t.Errorf("%+v, its generation is of attempt %d\n%s", i, s.good(id), w.story())
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		if len(s.asked) != 2 || !s.asked[0].Calm || s.asked[1].Calm || s.done != 1 {
			t.Errorf("asked %+v, begun %d times", s.asked, s.done)
		}
	})
}

// TestAMoveAheadAtEveryPoint: wherever burstd dies, one other node is raised, the
// job is asked once and moves once.
func TestAMoveAheadAtEveryPoint(t *testing.T) {
	play := func(t *testing.T, at int) (points []string) {
		bubble(t, "c[1-4]", func(w *world) {
			s := newSite(w)
			cfg := w.rules("c[1-4]", ft.Replace, "")
			l := s.start(cfg, at)
			id := w.begin(s.srun(1, step{takes: 10 * time.Second}), slurmtest.Job{})[0]
			time.Sleep(time.Minute)
			w.boot = 3 * time.Second
			w.announce("c1", cloud.Rebalance)
			if at > 0 {
				w.until(3*time.Minute, "burstd is dead", l.isDead)
				w.die()
				time.Sleep(5 * time.Second)
				s.start(cfg, 0)
			}
			w.again(3*time.Minute, id, 1)
			w.closed(3 * time.Minute)
			time.Sleep(20 * time.Minute)
			i := w.info(id)
			if i.Restarts != 1 || len(i.Signals) > 0 || len(s.kinds()) != 1 || s.done != 1 || len(w.raised()) == 0 || w.raised()[0] != "c3" {
				t.Errorf("%+v, asked %v, done %d times, raised %v", i, s.kinds(), s.done, w.raised())
			}
			l.mu.Lock()
			points = l.points
			l.mu.Unlock()
		})
		return points
	}
	points := play(t, 0)
	for i, p := range points {
		if testing.Short() && i%24 != 0 {
			continue
		}
		t.Run(p, func(t *testing.T) { play(t, i+1) })
	}
}

// TestWhatStaysIsCalledOff: when a job stays because its step could not checkpoint,
// the next step of its script is not stopped.
func TestWhatStaysIsCalledOff(t *testing.T) {
	bubble(t, "c[1-4]", func(w *world) {
		s := newSite(w)
		s.start(w.rules("c[1-4]", ft.Replace, ""), 0)
		job := s.srun(1, step{takes: 5 * time.Second, fails: "disk full", stays: true})
		first := job.OnStart
		job.OnStart = func(id uint32, restarts int) {
			first(id, restarts)
			w.rest.Go(func() {
				time.Sleep(3 * time.Minute)
				s.run(id, restarts, step{hello: session.Hello{Key: session.Key{Step: "1"}, Method: "signal", Strategy: "both", Host: "c1", Dir: "/ckpt", Retries: 1}})
			})
		}
		id := w.begin(job)[0]
		time.Sleep(time.Minute)
		w.announce("c1", cloud.Rebalance)
		w.closed(20 * time.Minute)
		time.Sleep(20 * time.Minute)
		if i := w.info(id); i.Restarts > 0 || s.done != 1 { // the second step is asked nothing
			t.Errorf("%+v, steps were asked %d times: %v", i, s.done, s.kinds())
		}
		if got := s.kinds(); len(got) != 2 || got[1] != session.Cancel {
			t.Errorf("asked %v", got)
		}
	})
}

// TestAnInterruptionAfterAVainRebalance asks anew, while the rebalance still moves
// another job of the node.
func TestAnInterruptionAfterAVainRebalance(t *testing.T) {
	bubble(t, "c[1-4]", func(w *world) {
		s := newSite(w)
		s.start(w.rules("c[1-4]", ft.Replace, ""), 0)
		id := w.begin(s.srun(1, step{takes: 20 * time.Minute}))[0]
		time.Sleep(time.Minute)
		w.announce("c1", cloud.Rebalance)
		w.until(time.Minute, "it is asked", func() bool { return len(s.kinds()) == 1 })
		time.Sleep(15*time.Minute + 10*time.Second) // its time is over, and it is not closed yet
		w.evict("c1", 2*time.Minute)
		w.until(30*time.Second, "it is asked again", func() bool { return len(s.kinds()) == 2 })
		w.again(3*time.Minute, id, 1)
		w.closed(5 * time.Minute)
	})
}
