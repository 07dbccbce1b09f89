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

// then has a script's next step begin so long after the job's start.
func (s *site) then(j slurmtest.Job, after time.Duration, st step) slurmtest.Job {
	first := j.OnStart
	st.hello = session.Hello{Key: session.Key{Step: "1"}, Method: "signal", Strategy: "both", Host: "c1", Dir: "/ckpt", Retries: 1, Cost: st.hello.Cost}
	j.OnStart = func(id uint32, restarts int) {
		first(id, restarts)
		s.w.rest.Go(func() {
			time.Sleep(after)
			s.run(id, restarts, st)
		})
	}
	return j
}

// TestTheNextStepIsWaitedFor: the step that was asked ends while it waits for its turn;
// the script's next one stops for the same request, and the job is requeued then.
func TestTheNextStepIsWaitedFor(t *testing.T) {
	quick := session.Hello{Cost: 5 * time.Second}
	for kind, most := range map[cloud.NoticeKind]time.Duration{cloud.Rebalance: 4 * time.Minute, cloud.SpotInterruption: 110 * time.Second} {
		t.Run(string(kind), func(t *testing.T) {
			bubble(t, "c[1-4]", func(w *world) {
				s := newSite(w)
				s.cfg.AtOnce = 1
				s.start(w.rules("c[1-4]", ft.Replace, ""), 0)
				id := w.begin(s.then(s.srun(1, step{hello: quick, alone: 90 * time.Second}), 100*time.Second, step{hello: quick, takes: 3 * time.Second}),
					s.srun(1, step{hello: session.Hello{Cost: time.Minute}, takes: time.Minute}))[0]
				time.Sleep(time.Minute)
				w.announce("c2", cloud.Rebalance)
				w.until(time.Minute, "another job writes", func() bool { return len(s.kinds()) == 1 })
				time.Sleep(time.Second)
				if kind == cloud.Rebalance {
					w.announce("c1", kind)
				} else {
					w.evict("c1", 2*time.Minute)
				}
				w.again(most, id, 1)
				w.closed(20 * time.Minute)
				w.mu.Lock()
				defer w.mu.Unlock()
				for _, e := range w.evictions {
					if e.Job == id && (e.Lost != 0 || !strings.Contains(e.Outcome, "checkpoint of 12.0 MB in 3s")) {
						t.Errorf("%+v", e)
					}
				}
			})
		})
	}
}

// TestANextStepThatNeverComes: a rebalance leaves the job where it is.
func TestANextStepThatNeverComes(t *testing.T) {
	bubble(t, "c[1-4]", func(w *world) {
		s := newSite(w)
		s.cfg.AtOnce = 1
		s.start(w.rules("c[1-4]", ft.Replace, ""), 0)
		id := w.begin(s.srun(1, step{hello: session.Hello{Cost: time.Second}, alone: 90 * time.Second}),
			s.srun(1, step{hello: session.Hello{Cost: 2 * time.Minute}, takes: 3 * time.Minute}))[0]
		time.Sleep(time.Minute)
		w.announce("c2", cloud.Rebalance)
		w.until(time.Minute, "another job writes", func() bool { return len(s.kinds()) == 1 })
		time.Sleep(time.Second)
		w.announce("c1", cloud.Rebalance)
		w.closed(20 * time.Minute)
		w.mu.Lock()
		defer w.mu.Unlock()
		for _, e := range w.evictions {
			if e.Job == id && e.Outcome != "left where it is: the step has ended by itself" {
				t.Errorf("%+v", e)
			}
		}
	})
}

// lately has a job's steps write for a rebalance whose time is over 30 s from now, and
// then evicts its node: it has longer.
func (s *site) lately(takes time.Duration) uint32 {
	s.w.Helper()
	id := s.w.begin(s.srun(1, step{takes: takes}))[0]
	time.Sleep(time.Minute)
	s.w.announce("c1", cloud.Rebalance)
	s.w.until(time.Minute, "it is asked", func() bool { return len(s.kinds()) == 1 })
	time.Sleep(14*time.Minute + 30*time.Second)
	s.w.evict("c1", 2*time.Minute)
	return id
}

// TestAnInterruptionIsAboveARebalance: the steps wait for their turn as for what is
// sure, at once, and have the interruption's time, though that ends later.
func TestAnInterruptionIsAboveARebalance(t *testing.T) {
	bubble(t, "c[1-4]", func(w *world) {
		s := newSite(w)
		s.start(w.rules("c[1-4]", ft.Replace, ""), 0)
		id := s.lately(20 * time.Minute)
		by := time.Now().Add(115 * time.Second)
		w.until(5*time.Second, "it is asked again", func() bool { return len(s.kinds()) == 2 })
		w.until(3*time.Minute, "it is requeued", func() bool { return w.info(id).Restarts == 1 })
		if time.Now().Before(by) {
			t.Errorf("its steps had %s left", time.Until(by))
		}
		w.closed(5 * time.Minute)
		s.mu.Lock()
		defer s.mu.Unlock()
		if len(s.asks) != 2 || s.asks[1].Calm || !s.asks[1].Request.By.Equal(by) {
			t.Errorf("asked %+v, not last by %s", s.asks, by)
		}
	})
}

// TestARebalanceThatAsksFirstAfterARestart asks what the interruption has asked.
func TestARebalanceThatAsksFirstAfterARestart(t *testing.T) {
	bubble(t, "c[1-4]", func(w *world) {
		s := newSite(w)
		cfg := w.rules("c[1-4]", ft.Replace, "")
		s.start(cfg, 0)
		id := s.lately(20 * time.Minute)
		w.until(5*time.Second, "it is asked again", func() bool { return len(s.kinds()) == 2 })
		w.die()
		w.scontrol("update", "nodename=c1", "state=drain", "reason=disk") // then a rebalance leaves it as it is
		w.failing(func(cmd string) error {
			if strings.HasPrefix(cmd, "scontrol update nodename=c1") {
				return errors.New("slurmctld is busy")
			}
			return nil
		})
		s.mu.Lock()
		s.asks = nil
		s.mu.Unlock()
		s.start(cfg, 0)
		time.Sleep(10 * time.Second)
		s.mu.Lock()
		if len(s.asks) == 0 {
			t.Errorf("nothing is asked")
		}
		for _, o := range s.asks {
			if o.Calm || o.Request.ID != s.asked[1].Request.ID {
				t.Errorf("asked %+v, not %+v", o, s.asked[1])
			}
		}
		s.mu.Unlock()
		w.failing(nil)
		w.again(3*time.Minute, id, 1)
		w.closed(5 * time.Minute)
	})
}

// TestADeadlineThatIsOver: the cloud says so while the steps write.
func TestADeadlineThatIsOver(t *testing.T) {
	bubble(t, "c[1-4]", func(w *world) {
		s := newSite(w)
		s.start(ft.Config{}, 0)
		id := w.begin(s.srun(1, step{takes: time.Hour}))[0]
		time.Sleep(time.Minute)
		w.evict("c1", 2*time.Minute)
		time.Sleep(5 * time.Second)
		w.fake.Announce(cloud.Notice{Instance: w.instance("c1"), Kind: cloud.SpotInterruption, Deadline: time.Now().Add(4 * time.Second)})
		w.until(3*time.Second, "it is requeued", func() bool { return w.info(id).Restarts == 1 })
		w.closed(5 * time.Minute)
	})
}

// TestStepsThatHaveStoppedAreNotAskedAgain, for a nearer deadline: what they have saved counts.
func TestStepsThatHaveStoppedAreNotAskedAgain(t *testing.T) {
	bubble(t, "c[1-4]", func(w *world) {
		s := newSite(w)
		s.start(ft.Config{}, 0)
		id := w.begin(s.srun(1, step{takes: 3 * time.Second}))[0]
		time.Sleep(time.Minute)
		w.failing(func(cmd string) error {
			if strings.HasPrefix(cmd, "scontrol requeue") {
				return errors.New("slurmctld is busy")
			}
			return nil
		})
		w.evict("c1", 2*time.Minute)
		time.Sleep(10 * time.Second)
		w.fake.Announce(cloud.Notice{Instance: w.instance("c1"), Kind: cloud.SpotInterruption, Deadline: time.Now().Add(time.Minute)})
		time.Sleep(10 * time.Second)
		w.failing(nil)
		w.again(30*time.Second, id, 1)
		w.closed(5 * time.Minute)
		if got := s.kinds(); !slices.Equal(got, []session.Kind{session.Stop}) {
			t.Errorf("asked %v", got)
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		for _, e := range w.evictions {
			if e.Lost != 0 || !strings.Contains(e.Outcome, "checkpoint of 12.0 MB") {
				t.Errorf("%+v", e)
			}
		}
	})
}
