package ft_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/ft"
	"github.com/burst-hpc/burst/ft/session"
	"github.com/burst-hpc/burst/slurm/slurmtest"
)

// srun is a job of burst-sruns, one for each step.
func (s *site) srun(nodes int, steps ...step) slurmtest.Job {
	return slurmtest.Job{Nodes: nodes, Requeue: true, Script: script, OnStart: func(id uint32, restarts int) {
		for i, st := range steps {
			st.hello.Step = string(rune('0' + i))
			st.hello.Method, st.hello.Host, st.hello.Dir = "signal", "c1", "/ckpt"
			if st.hello.Strategy == "" {
				st.hello.Strategy = "both"
			}
			if st.hello.Retries == 0 {
				st.hello.Retries = 1
			}
			s.w.rest.Go(func() { s.run(id, restarts, st) })
		}
	}}
}

// good is the attempt whose generation counts; -1: there is none.
func (s *site) good(id uint32) int {
	b, err := s.Memory.Blessed(s.w.ctx, id, "0")
	if err != nil || b.Answer.Generation == "" {
		return -1
	}
	return b.Attempt
}

// TestSteps: what a job's steps are asked, and when the job is requeued.
func TestSteps(t *testing.T) {
	const cost, every = 30 * time.Second, 45 * time.Second // the notice comes a minute after the job's start
	tests := []struct {
		name     string
		steps    []step
		lead     time.Duration // 2 min
		fixed    bool          // the job cannot be requeued
		during   func(s *site, id uint32)
		asked    []session.Kind
		atLeast  time.Duration // from the notice to the end of the attempt
		atMost   time.Duration
		restarts int
		signals  []string
		lost     time.Duration // at least, and at most a second more; -1: not known
		outcome  string
	}{
		{name: "a checkpoint, and its end", steps: []step{{takes: 3 * time.Second}}, asked: []session.Kind{session.Stop},
			atLeast: 3 * time.Second, atMost: 5 * time.Second, restarts: 1, outcome: "checkpoint of 12.0 MB in 3s"},
		{name: "two steps: the slower counts", steps: []step{{takes: 3 * time.Second}, {takes: 9 * time.Second}}, asked: []session.Kind{session.Stop},
			atLeast: 9 * time.Second, atMost: 11 * time.Second, restarts: 1, outcome: "checkpoint of 2 steps of 24.0 MB in 9s"},
		{name: "too slow", steps: []step{{takes: time.Hour}}, asked: []session.Kind{session.Stop},
			atLeast: 114 * time.Second, atMost: 117 * time.Second, restarts: 1, lost: 175 * time.Second, outcome: "it goes on from its beginning"},
		{name: "it will not fit", steps: []step{{hello: session.Hello{Cost: cost}, takes: cost, every: every}}, lead: 30 * time.Second, asked: []session.Kind{session.Leave},
			atMost: 2 * time.Second, restarts: 1, lost: 14 * time.Second, outcome: "no checkpoint was asked for: it goes on from its last checkpoint, 1"},
		{name: "periodic only", steps: []step{{hello: session.Hello{Strategy: "periodic"}, every: every}}, asked: []session.Kind{session.Leave},
			atMost: 2 * time.Second, restarts: 1, lost: 14 * time.Second, outcome: "no checkpoint was asked for"},
		{name: "one of two is periodic only", steps: []step{{every: 25 * time.Second}, {hello: session.Hello{Strategy: "periodic"}, every: every, takes: 3 * time.Second}}, asked: []session.Kind{session.Stop},
			atLeast: 3 * time.Second, atMost: 5 * time.Second, restarts: 1, outcome: "checkpoint of 2 steps"},
		{name: "one of two takes too long", steps: []step{{takes: 3 * time.Second}, {hello: session.Hello{Cost: time.Hour}, takes: time.Hour}}, asked: []session.Kind{session.Stop},
			atLeast: 114 * time.Second, atMost: 117 * time.Second, restarts: 1, lost: 175 * time.Second, outcome: "it goes on from its beginning"},
		{name: "one of two parts fails", steps: []step{{hello: session.Hello{Together: true}, takes: 3 * time.Second}, {hello: session.Hello{Together: true}, takes: time.Second, fails: "disk full", stays: true}},
			asked: []session.Kind{session.Stop}, atLeast: 114 * time.Second, atMost: 117 * time.Second, restarts: 1, lost: 175 * time.Second,
			outcome: "step 1: disk full; what the job's other steps have saved is worth nothing without it: it goes on from its beginning"},
		{name: "one of two parts will not fit", steps: []step{{hello: session.Hello{Together: true, Cost: time.Second}, takes: time.Second}, {hello: session.Hello{Together: true, Cost: time.Hour}, takes: time.Hour}},
			asked: []session.Kind{session.Leave}, atMost: 2 * time.Second, restarts: 1, lost: 60 * time.Second, outcome: "no checkpoint was asked for"},
		{name: "no checkpoint is made", steps: []step{{takes: time.Second, fails: "disk full"}}, asked: []session.Kind{session.Stop},
			atLeast: time.Second, atMost: 3 * time.Second, restarts: 1, lost: 61 * time.Second, outcome: "step 0: disk full: it goes on from its beginning"},
		{name: "the step ends by itself, and its script a little later", steps: []step{{takes: time.Hour, alone: 65 * time.Second}},
			during: func(s *site, id uint32) { time.Sleep(15 * time.Second); s.w.Exit(id, 0) }, asked: []session.Kind{session.Stop},
			atLeast: 15 * time.Second, atMost: 16 * time.Second, lost: -1, outcome: "it finished in the grace time"},
		{name: "the script fails after the checkpoint", steps: []step{{takes: 3 * time.Second}},
			during: func(s *site, id uint32) {
				s.w.until(5*time.Second, "a generation", func() bool { return s.good(id) == 0 })
				s.w.Exit(id, 75)
			}, asked: []session.Kind{session.Stop},
			atLeast: 3 * time.Second, atMost: 5 * time.Second, restarts: 1, outcome: "checkpoint of 12.0 MB"},
		{name: "it cannot be requeued", fixed: true, steps: []step{{takes: time.Second}}, lead: time.Minute, asked: []session.Kind{session.Checkpoint},
			atLeast: 59 * time.Second, atMost: 62 * time.Second, lost: -1, outcome: "cannot be requeued"},
		{name: "no burst-srun", asked: nil, atLeast: 20 * time.Second, atMost: 22 * time.Second, restarts: 1, signals: []string{"USR1"}, lost: -1},
		{name: "the notice says no time", steps: []step{{takes: time.Hour}}, lead: -1, asked: []session.Kind{session.Stop},
			atLeast: 15 * time.Minute, atMost: 15*time.Minute + 2*time.Second, restarts: 1, lost: 16 * time.Minute},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, "c[1-4]", func(w *world) {
				s := newSite(w)
				s.start(ft.Config{}, 0)
				j := s.srun(1, tt.steps...)
				j.Requeue = !tt.fixed
				id := w.begin(j)[0]
				time.Sleep(time.Minute)
				told := time.Now()
				switch {
				case tt.lead < 0:
					w.fake.Announce(cloud.Notice{Instance: w.instance("c1"), Kind: cloud.SpotInterruption})
				case tt.lead > 0:
					w.evict("c1", tt.lead)
				default:
					w.evict("c1", 2*time.Minute)
				}
				if tt.during != nil {
					w.rest.Go(func() { tt.during(s, id) })
				}
				w.until(time.Hour, "the attempt ends", func() bool { i := w.info(id); return i.State != "RUNNING" || i.Restarts > 0 })
				if took := time.Since(told); took < tt.atLeast || took > tt.atMost {
					t.Errorf("it ended %s after the notice, not %s to %s", took, tt.atLeast, tt.atMost)
				}
				w.closed(20 * time.Minute)
				if i := w.info(id); i.Restarts != tt.restarts || tt.restarts > 0 && i.State != "RUNNING" || !slices.Equal(i.Signals, tt.signals) {
					t.Errorf("in the end: %+v", i)
				}
				if got := s.kinds(); !slices.Equal(got, tt.asked) {
					t.Errorf("asked %v, want %v", got, tt.asked)
				}
				w.mu.Lock()
				defer w.mu.Unlock()
				for _, e := range w.evictions {
					if !strings.Contains(e.Outcome, tt.outcome) || tt.lost < 0 != (e.Lost < 0) || e.Lost < tt.lost || e.Lost > tt.lost+3*time.Second {
						t.Errorf("the journal has %+v, want %q, lost %s", e, tt.outcome, tt.lost)
					}
				}
			})
		})
	}
}

// TestANearerDeadline: two nodes of a job go, the second sooner.
func TestANearerDeadline(t *testing.T) {
	bubble(t, "c[1-4]", func(w *world) {
		s := newSite(w)
		s.start(ft.Config{}, 0)
		id := w.begin(s.srun(2, step{takes: time.Hour}))[0]
		time.Sleep(time.Minute)
		w.evict("c1", 2*time.Minute)
		time.Sleep(5 * time.Second)
		w.evict("c2", 30*time.Second)
		w.until(26*time.Second, "it is requeued in time", func() bool { return w.info(id).Restarts == 1 })
		w.closed(3 * time.Minute)
		if got := s.kinds(); !slices.Equal(got, []session.Kind{session.Stop, session.Stop}) {
			t.Errorf("asked %v", got)
		}
	})
}

// TestRetries: a job that is evicted again and again without a new checkpoint is
// held; one that makes progress is not.
func TestRetries(t *testing.T) {
	for _, tt := range []struct {
		name  string
		every time.Duration
		held  bool
	}{{"no checkpoint ever", 0, true}, {"one in each attempt", 45 * time.Second, false}} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, "c[1-8]", func(w *world) {
				s := newSite(w)
				s.start(ft.Config{}, 0)
				id := w.begin(s.srun(1, step{hello: session.Hello{Strategy: "periodic", Retries: 2}, every: tt.every}))[0]
				for n := 1; n <= 3; n++ {
					time.Sleep(time.Minute)
					w.evict(w.info(id).Nodes[0], 2*time.Minute)
					if n < 3 || !tt.held {
						w.again(time.Minute, id, n)
					}
				}
				w.closed(5 * time.Minute)
				time.Sleep(time.Hour)
				i := w.info(id)
				if held := i.State == "PENDING" && i.Reason == "JobHeldUser"; held != tt.held || i.Restarts != 3 ||
					strings.Contains(i.AdminComment, "evicted 3 times without a new checkpoint (retries=2)") != tt.held {
					t.Errorf("%+v", i)
				}
				if tt.held {
					w.scontrol("release", "1")
					w.again(time.Minute, id, 3)
				}
			})
		})
	}
}

// TestRetriesCountOtherStepsProgress: a step that has ended had made generations.
func TestRetriesCountOtherStepsProgress(t *testing.T) {
	bubble(t, "c[1-8]", func(w *world) {
		s := newSite(w)
		s.start(ft.Config{}, 0)
		progress := step{hello: session.Hello{Strategy: "periodic"}, every: 20 * time.Second, alone: 50 * time.Second}
		id := w.begin(s.srun(1, progress, step{hello: session.Hello{Strategy: "periodic", Retries: 1}}))[0]
		for n := 1; n <= 4; n++ {
			time.Sleep(time.Minute)
			w.evict(w.info(id).Nodes[0], 2*time.Minute)
			w.again(time.Minute, id, n)
		}
		w.closed(5 * time.Minute)
	})
}

// TestOurJournalIsAway: without knowing of sessions nothing is decided.
func TestOurJournalIsAway(t *testing.T) {
	bubble(t, "c[1-4]", func(w *world) {
		s := newSite(w)
		s.start(ft.Config{Signal: "USR2"}, 0)
		id := w.begin(s.srun(1, step{takes: time.Second}))[0]
		time.Sleep(time.Minute)
		s.mu.Lock()
		s.fail = errors.New("disk I/O error")
		s.mu.Unlock()
		w.evict("c1", 2*time.Minute)
		time.Sleep(20 * time.Second)
		s.mu.Lock()
		s.fail = nil
		s.mu.Unlock()
		w.again(20*time.Second, id, 1)
		if i := w.info(id); len(i.Signals) > 0 || s.good(id) != 0 {
			t.Errorf("%+v, its generation is of attempt %d", i, s.good(id))
		}
	})
}

// TestStepsKillAtEveryPoint: whenever burstd dies, and is away for a while, the
// job's one request is answered, and it is requeued once.
func TestStepsKillAtEveryPoint(t *testing.T) {
	play := func(t *testing.T, at int) (points []string) {
		bubble(t, "c[1-4]", func(w *world) {
			s := newSite(w)
			l := s.start(ft.Config{}, at)
			id := w.begin(s.srun(1, step{takes: 10 * time.Second}))[0]
			time.Sleep(time.Minute)
			w.evict("c1", 2*time.Minute)
			if at > 0 {
				w.until(3*time.Minute, "burstd is dead", l.isDead)
				w.die()
				time.Sleep(5 * time.Second)
				s.start(ft.Config{}, 0)
			}
			w.again(3*time.Minute, id, 1)
			w.closed(3 * time.Minute)
			time.Sleep(5 * time.Minute)
			i := w.info(id)
			if i.Restarts != 1 || len(i.Signals) > 0 || !slices.Equal(s.kinds(), []session.Kind{session.Stop}) || s.done != 1 {
				t.Errorf("%+v, asked %v, done %d times", i, s.kinds(), s.done)
			}
			if n := s.good(id); n != 0 {
				t.Errorf("its generation is of attempt %d", n)
			}
			w.mu.Lock()
			for _, e := range w.evictions {
				if e.Lost != 0 || e.LostIterations != 0 || e.Ending != ft.Moved || !strings.Contains(e.Outcome, "checkpoint of 12.0 MB in 10s") {
					t.Errorf("what became of it: %+v", e)
				}
			}
			w.mu.Unlock()
			l.mu.Lock()
			points = l.points
			l.mu.Unlock()
		})
		return points
	}
	points := play(t, 0)
	for i, p := range points {
		if testing.Short() && i%36 != 0 {
			continue
		}
		t.Run(p, func(t *testing.T) { play(t, i+1) })
	}
}
