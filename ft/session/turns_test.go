package session_test

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/burst-hpc/burst/ft/session"
)

// writers counts who writes at once.
type writers struct {
	mu        sync.Mutex
	now, most int
}

func (c *writers) count(delta int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now += delta
	c.most = max(c.most, c.now)
}

// job is a burst-srun of its own job, whose checkpoints take so long. cost is what
// it says that its last one took; 0: it had none.
func (w *world) job(n uint32, takes, cost time.Duration) *step {
	s := w.run(key(n, 0, "0"), w.wire())
	s.slow(takes)
	s.costs(cost)
	time.Sleep(time.Second)
	return s
}

// costs has the step say that its last checkpoint took so long; 0: it says nothing.
func (s *step) costs(took time.Duration) {
	if took > 0 {
		s.Report(session.Answer{Generation: s.hello.Dir + "/0/attempt-0/gen-1", N: 1, Took: took, Iteration: -1})
	}
}

// asks has jobs asked at once to checkpoint and stop, each by its time.
func (w *world) asks(orders ...session.Order) []session.Asked {
	w.Helper()
	all, err := w.live().AskMany(w.ctx, orders)
	if err != nil {
		w.Fatal(err)
	}
	return all
}

// after is how long after a time the step began what it was asked; -1: it has not.
func (s *step) after(at time.Time) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.begun) == 0 {
		return -1
	}
	return s.begun[0].Sub(at)
}

// TestWhoeverCouldNotWait: with one turn, which is held by a step that never
// answers, another begins while what its checkpoint needs is still left, or when
// the turn is taken from the one that holds it.
func TestWhoeverCouldNotWait(t *testing.T) {
	const never = 24 * time.Hour
	for _, tt := range []struct {
		name        string
		holds       time.Duration // its last checkpoint; 0: none
		cost        time.Duration // of the other's; 0: none
		runs        time.Duration // that one, before it says so
		left        time.Duration
		calm        bool
		begins, yet time.Duration // the other, at the earliest and at the latest
	}{
		{"twice its cost is left", time.Hour, 20 * time.Second, 0, 110 * time.Second, false, 69 * time.Second, 72 * time.Second},
		{"it would hardly fit now", time.Hour, time.Minute, 0, 110 * time.Second, false, 0, 2 * time.Second},
		{"it has made none: it may need all that is left", time.Hour, 0, 0, 110 * time.Second, false, 0, 2 * time.Second},
		{"it has made none, and there are minutes", time.Hour, 0, 0, 12 * time.Minute, false, 179 * time.Second, 182 * time.Second},
		{"quick ones leave time for the word", time.Hour, time.Millisecond, 0, 110 * time.Second, false, 89 * time.Second, 92 * time.Second},
		{"it says that it takes a year", time.Hour, 365 * 24 * time.Hour, 0, 12 * time.Minute, false, 179 * time.Second, 182 * time.Second},
		{"it takes as long as burstd has seen", time.Hour, 5 * time.Minute, 5 * time.Minute, 12 * time.Minute, false, 119 * time.Second, 122 * time.Second},
		{"the holder's time is over", 10 * time.Second, time.Second, 0, time.Hour, false, 19 * time.Second, 22 * time.Second},
		{"and of one that has made none", 0, time.Second, 0, time.Hour, false, 59 * time.Second, 62 * time.Second},
		{"and of one that says that it takes an hour", time.Hour, time.Second, 0, time.Hour, false, 299 * time.Second, 302 * time.Second},
		{"nothing is lost if it is late", time.Hour, 20 * time.Second, 0, 110 * time.Second, true, -1, -1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, session.HubConfig{AtOnce: 1}, func(w *world) {
				holder, other := w.job(1, never, tt.holds), w.job(2, time.Second, 0)
				time.Sleep(tt.runs)
				other.costs(tt.cost)
				time.Sleep(time.Second)
				w.asks(order(holder.hello.Key, "r", session.Stop, 12*time.Hour))
				time.Sleep(time.Millisecond)
				if holder.after(time.Now()) == -1 {
					t.Fatal("the first has no turn")
				}
				o := order(other.hello.Key, "r", session.Stop, tt.left)
				o.Calm = tt.calm
				told := time.Now()
				answers, err := w.asks(o)[0].Wait(w.ctx)
				if got := other.after(told); got < tt.begins || got > tt.yet {
					t.Errorf("it began after %s, want %s to %s", got, tt.begins, tt.yet)
				}
				if tt.begins >= 0 {
					w.want(answers, err, nil, map[string]int{"0": 1})
				}
			})
		})
	}
}

// TestCalmOnesLeaveTurns: however many are asked for what need not be, an eviction
// finds a turn; and one by one they have theirs.
func TestCalmOnesLeaveTurns(t *testing.T) {
	bubble(t, session.HubConfig{AtOnce: 4}, func(w *world) {
		var busy writers
		var orders []session.Order
		for n := range uint32(9) {
			s := w.job(n+1, 30*time.Second, 20*time.Second)
			s.mu.Lock()
			s.busy = busy.count
			s.mu.Unlock()
			o := order(s.hello.Key, "r", session.Stop, 15*time.Minute)
			o.Calm = true
			orders = append(orders, o)
		}
		urgent := w.job(20, 10*time.Second, 10*time.Second)
		asked := w.asks(orders...)
		time.Sleep(10 * time.Second)
		told := time.Now()
		answers, err := w.asks(order(urgent.hello.Key, "r", session.Stop, 110*time.Second))[0].Wait(w.ctx)
		w.want(answers, err, nil, map[string]int{"0": 1})
		if got := urgent.after(told); got < 0 || got > time.Second {
			t.Errorf("the eviction's began after %s", got)
		}
		for _, a := range asked {
			answers, err := a.Wait(w.ctx)
			w.want(answers, err, nil, map[string]int{"0": 1})
		}
		if busy.most != 3 {
			t.Errorf("%d of those with which nothing is lost wrote at once, of 4", busy.most)
		}
	})
}

// TestCalmOnesAreLast, even when their time is nearer.
func TestCalmOnesAreLast(t *testing.T) {
	bubble(t, session.HubConfig{AtOnce: 1}, func(w *world) {
		w.asks(order(w.job(1, 10*time.Second, 10*time.Second).hello.Key, "r", session.Stop, time.Hour))
		calm, urgent := w.job(2, time.Second, time.Second), w.job(3, time.Second, time.Second)
		told := time.Now()
		first := order(calm.hello.Key, "r", session.Stop, time.Minute)
		first.Calm = true
		for _, a := range w.asks(first, order(urgent.hello.Key, "r", session.Stop, 2*time.Minute)) {
			answers, err := a.Wait(w.ctx)
			w.want(answers, err, nil, map[string]int{"0": 1})
		}
		if calm.after(told) < urgent.after(told) {
			t.Error("the one with which nothing is lost was first")
		}
	})
}

// TestUsersTakeTurns: one user's many jobs do not keep another's single one waiting
// that must be ready at about the same time; what must be ready much sooner is
// first, whosever it is.
func TestUsersTakeTurns(t *testing.T) {
	bubble(t, session.HubConfig{AtOnce: 2}, func(w *world) {
		const takes = 10 * time.Second
		const jobs = 40
		for n := range uint32(jobs) {
			w.job(n+1, takes, takes)
		}
		other := w.wire()
		other.UID = user + 1
		single := w.run(key(99, 0, "0"), other)
		single.slow(takes)
		time.Sleep(time.Second)
		orders := []session.Order{order(single.hello.Key, "r", session.Stop, 10*time.Minute+15*time.Second)}
		for n := range uint32(jobs) {
			orders = append(orders, order(key(n+1, 0, ""), "r", session.Stop, 10*time.Minute+10*time.Second))
		}
		told := time.Now()
		for _, a := range w.asks(orders...) {
			answers, err := a.Wait(w.ctx)
			w.want(answers, err, nil, map[string]int{"0": 1})
		}
		if got := single.after(told); got > time.Second {
			t.Errorf("the other user's began after %s", got)
		}
	})
	bubble(t, session.HubConfig{AtOnce: 2}, func(w *world) {
		for n := range uint32(2) { // one of which writes for long
			takes := 10 * time.Minute / time.Duration(1+59*n)
			w.asks(order(w.job(n+1, takes, takes).hello.Key, "r", session.Stop, time.Hour))
		}
		mine := w.job(3, time.Second, time.Second)
		other := w.wire()
		other.UID = user + 1
		single := w.run(key(99, 0, "0"), other)
		time.Sleep(time.Millisecond)
		told := time.Now()
		for _, a := range w.asks(order(mine.hello.Key, "r", session.Stop, 2*time.Minute), order(single.hello.Key, "r", session.Stop, 5*time.Minute)) {
			answers, err := a.Wait(w.ctx)
			w.want(answers, err, nil, map[string]int{"0": 1})
		}
		if mine.after(told) > single.after(told) {
			t.Error("the one with much more time was first")
		}
	})
}

// TestLateOnesOfOneUser keep another user's waiting for half of the turns at most,
// and each other for all.
func TestLateOnesOfOneUser(t *testing.T) {
	bubble(t, session.HubConfig{AtOnce: 4}, func(w *world) {
		for n := range uint32(10) {
			s := w.job(n+1, 90*time.Second, 0)
			w.asks(order(s.hello.Key, "r", session.Stop, 110*time.Second))
		}
		same := w.job(11, time.Second, time.Second)
		wire := w.wire()
		wire.UID = user + 1
		other := w.run(key(99, 0, "0"), wire)
		other.costs(time.Second)
		time.Sleep(time.Second)
		told := time.Now()
		w.asks(order(same.hello.Key, "r", session.Stop, 55*time.Second), order(other.hello.Key, "r", session.Stop, time.Minute))
		time.Sleep(40 * time.Second)
		if got := other.after(told); got < 0 || got > time.Second {
			t.Errorf("the other user's began after %s", got)
		}
		if got := same.after(told); got < 30*time.Second {
			t.Errorf("the same user's began after %s", got)
		}
	})
}

// TestTheSameAgainGoesOn: a request of the same kind does not begin anew what is
// being written; its time can only become nearer.
func TestTheSameAgainGoesOn(t *testing.T) {
	for _, tt := range []struct {
		name  string
		left  time.Duration // of the second
		err   error
		made  map[string]int
		takes time.Duration // from the first to the second's end
	}{
		{"nearer, and it fits", time.Minute, nil, map[string]int{"0": 1}, 30 * time.Second},
		{"nearer, and it does not", 10 * time.Second, session.ErrLate, nil, 15 * time.Second},
		{"later", 2 * time.Hour, nil, map[string]int{"0": 1}, 30 * time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, session.HubConfig{AtOnce: 1}, func(w *world) {
				s := w.job(1, 30*time.Second, 0)
				k, told := s.hello.Key, time.Now()
				first := order(k, "r1", session.Stop, time.Hour)
				go func() {
					answers, err := w.ask(first)
					w.want(answers, err, session.ErrReplaced, nil)
				}()
				time.Sleep(5 * time.Second)
				other := w.job(2, time.Second, time.Second) // would take the turn
				w.asks(order(other.hello.Key, "r", session.Stop, time.Minute))
				answers, err := w.ask(order(k, "r2", session.Stop, tt.left-time.Second))
				if tt.err != nil && answers["0"].Error != "" {
					err = tt.err // that it was late has come at the very moment
				}
				w.want(answers, err, tt.err, tt.made)
				if took := time.Since(told); took < tt.takes-time.Second || took > tt.takes+2*time.Second {
					t.Errorf("it took %s", took)
				}
				time.Sleep(2 * time.Second)
				if got := other.after(told); got < tt.takes-time.Second || got > tt.takes+2*time.Second {
					t.Errorf("another took the turn after %s", got)
				}
				if did, _ := s.doing(); did != "checkpoint-and-stop" || !errors.Is(s.firstEnd(), tt.err) {
					t.Errorf("it did %q, and ended with %v", did, s.firstEnd())
				}
				answers, err = w.ask(first) // what was the first is done as well
				w.want(answers, err, nil, tt.made)
				if did, _ := s.doing(); did != "checkpoint-and-stop" {
					t.Errorf("it did %q", did)
				}
			})
		})
	}
}
