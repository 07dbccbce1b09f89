package session_test

import (
	"errors"
	"strings"
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

// peak is how many wrote at once, at most.
func (c *writers) peak() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.most
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

// counted has c count the step's writing.
func (s *step) counted(c *writers) *step {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.busy = c.count
	return s
}

// TestNobodyComesOnTop: with one turn, which another has, a step begins when that is
// free, and never before; when it would be late it is told to leave.
func TestNobodyComesOnTop(t *testing.T) {
	const never = 24 * time.Hour
	closes := func(s *step) {
		s.cancel()
		<-s.ended
		token := s.world.live().Sessions(1, 0)[0].Token
		if err := s.world.live().Close(s.world.ctx, user, session.End{Key: s.hello.Key, Token: token}); err != nil {
			s.world.Error(err)
		}
	}
	for _, tt := range []struct {
		name   string
		takes  time.Duration // the first one, whose time is an hour
		then   func(*step)   // with it, after 10 s
		cost   time.Duration // of the other's last; 0: it made none
		kind   session.Kind
		left   time.Duration
		calm   bool
		begins time.Duration // the other; -1: not at all
		does   session.Kind
		err    error
	}{
		{name: "the first has answered", takes: 30 * time.Second, cost: 20 * time.Second, kind: session.Stop, left: 110 * time.Second, begins: 30 * time.Second, does: session.Stop},
		{name: "also if it takes long", takes: 10 * time.Minute, cost: time.Second, kind: session.Stop, left: 15 * time.Minute, begins: 10 * time.Minute, does: session.Stop},
		{name: "its time is over", takes: never, cost: time.Second, kind: session.Stop, left: 2 * time.Hour, begins: time.Hour, does: session.Stop},
		{name: "its step has ended", takes: never, then: closes, kind: session.Stop, left: 110 * time.Second, begins: 10 * time.Second, does: session.Stop},
		{name: "it is dead", takes: never, then: (*step).kill, kind: session.Stop, left: 110 * time.Second, begins: 30 * time.Second, does: session.Stop},
		{name: "what it needs is not left", takes: never, cost: 20 * time.Second, kind: session.Stop, left: 110 * time.Second, begins: 90 * time.Second, does: session.Leave},
		{name: "nor when it is asked", takes: never, cost: 365 * 24 * time.Hour, kind: session.Stop, left: 110 * time.Second, does: session.Leave},
		{name: "what it needs is not known", takes: never, kind: session.Stop, left: 110 * time.Second, begins: 109 * time.Second, does: session.Leave},
		{name: "nothing is lost if it is late", takes: never, cost: 20 * time.Second, kind: session.Stop, left: 110 * time.Second, calm: true, begins: -1, err: session.ErrLate},
		{name: "it is to go on", takes: never, cost: 20 * time.Second, kind: session.Checkpoint, left: 110 * time.Second, begins: -1, err: session.ErrLate},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, session.HubConfig{AtOnce: 1}, func(w *world) {
				var busy writers
				first, other := w.job(1, tt.takes, time.Hour).counted(&busy), w.job(2, time.Second, 0).counted(&busy)
				other.costs(tt.cost)
				time.Sleep(time.Second)
				w.asks(order(first.hello.Key, "r", session.Stop, time.Hour))
				time.Sleep(time.Millisecond)
				if tt.then != nil {
					w.runs.Go(func() { time.Sleep(10 * time.Second); tt.then(first) })
				}
				o := order(other.hello.Key, "r", tt.kind, tt.left)
				o.Calm = tt.calm
				told := time.Now()
				answers, err := w.asks(o)[0].Wait(w.ctx)
				if got := other.after(told); got < 0 != (tt.begins < 0) || (got-tt.begins).Abs() > 2*time.Second {
					t.Errorf("it began after %s, want %s", got, tt.begins)
				}
				if did, _ := other.doing(); did != string(tt.does) || !errors.Is(err, tt.err) {
					t.Errorf("it did %q, %v", did, err)
				}
				a := answers["0"]
				if left := tt.does == session.Leave; left != a.Stopped && a.Generation == "" || left != strings.Contains(a.Error, "no time is left for its checkpoint") {
					t.Errorf("it answered %+v", a)
				}
				if busy.peak() > 1 {
					t.Errorf("%d wrote at once", busy.peak())
				}
			})
		})
	}
}

// TestWhoHadNoTurn: it is known which of those that were asked has had no turn at all, also when they are not asked any more.
func TestWhoHadNoTurn(t *testing.T) {
	bubble(t, session.HubConfig{AtOnce: 1}, func(w *world) {
		first, other := w.job(1, 20*time.Minute, time.Minute), w.job(2, 11*time.Minute, 11*time.Minute)
		time.Sleep(time.Second)
		waited := func(what string, want ...bool) {
			for n, s := range []*step{first, other} {
				if got := w.live().Waited(s.hello.Job, s.hello.Attempt); got != want[n] {
					t.Errorf("%s: job %d had no turn: %v, want %v", what, s.hello.Job, got, want[n])
				}
			}
		}
		waited("nobody was asked", false, false)
		calm := func(s *step, id string, kind session.Kind) session.Order {
			o := order(s.hello.Key, id, kind, 15*time.Minute)
			o.Calm = true
			return o
		}
		w.asks(calm(first, "a", session.Stop))
		time.Sleep(time.Second)
		w.asks(calm(other, "a", session.Stop)) // it gets the turn for the last second
		time.Sleep(time.Minute)
		waited("one writes", false, true)
		time.Sleep(15 * time.Minute)
		waited("their time is over", false, true)
		w.asks(calm(first, "b", session.Cancel), calm(other, "b", session.Cancel))
		waited("they are to go on", false, true)
		time.Sleep(5 * time.Minute)
		w.asks(calm(other, "c", session.Stop))
		time.Sleep(100 * time.Millisecond)
		waited("the other writes", false, false)
		w.asks(calm(other, "d", session.Cancel))
		waited("and is to go on", false, false)
	})
}

// TestCalmOnesLeaveTurns: however many are asked for what need not be, or not soon, an
// eviction finds a turn; and one by one they have theirs.
func TestCalmOnesLeaveTurns(t *testing.T) {
	for _, calm := range []bool{true, false} {
		leaveTurns(t, calm)
	}
}

func leaveTurns(t *testing.T, calm bool) {
	bubble(t, session.HubConfig{AtOnce: 4}, func(w *world) {
		var busy writers
		var orders []session.Order
		for n := range uint32(9) {
			s := w.job(n+1, 30*time.Second, 20*time.Second).counted(&busy)
			o := order(s.hello.Key, "r", session.Stop, map[bool]time.Duration{true: 15 * time.Minute, false: time.Hour}[calm])
			o.Calm = calm
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
		if busy.peak() != 3 {
			t.Errorf("%d of those with which nothing is lost wrote at once, of 4", busy.peak())
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
