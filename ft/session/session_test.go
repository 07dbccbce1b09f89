package session_test

import (
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/burst-hpc/burst/ft/session"
)

// TestARequestReachesEachStep whatever is lost, late or said twice: it is
// carried out once, in time by the step's own clock, and its generation is blessed.
func TestARequestReachesEachStep(t *testing.T) {
	for _, rate := range []float64{0, 0.1, 0.3} {
		for seed := range uint64(12) {
			if rate == 0 && seed > 0 {
				continue
			}
			bubble(t, session.HubConfig{}, func(w *world) {
				one, two := key(7, 0, "0"), key(7, 0, "solve")
				a, b := w.run(one, w.dice(seed, rate)), w.run(two, w.dice(seed+100, rate))
				time.Sleep(2 * time.Minute)
				o := order(one, "r1", session.Checkpoint, 115*time.Second)
				answers, err := w.ask(o)
				w.want(answers, err, nil, map[string]int{"0": 1, "solve": 1})
				w.blessed(one, 1)
				w.blessed(two, 1)
				for _, s := range []*step{a, b} {
					s.mu.Lock()
					if len(s.did) != 1 || s.did[0].By.After(o.Request.By) || s.did[0].By.Before(o.Request.By.Add(-10*time.Second)) || s.did[0].Why != o.Request.Why {
						w.Errorf("at rate %g, seed %d it did %+v, asked was %+v", rate, seed, s.did, o.Request)
					}
					s.mu.Unlock()
				}
				a.end()
				b.end()
				if open, asked := w.live().Count(); asked != 0 || rate == 0 && open != 0 {
					w.Errorf("%d sessions, %d requests are left", open, asked)
				}
				time.Sleep(3 * time.Minute)
				if left, err := w.journal.OpenSessions(w.ctx); err != nil || len(left) > 0 {
					w.Errorf("the journal has %v open, %v", left, err)
				}
			})
		}
	}
}

// TestBurstdDiesAtEachPoint: before and after each of its commits in turn. What
// was asked is done by each step, once, and burstd knows of it in the end.
func TestBurstdDiesAtEachPoint(t *testing.T) {
	passed := false
	for n := 0; !passed; n++ {
		bubble(t, session.HubConfig{}, func(w *world) {
			points, died := 0, ""
			w.journal.point = func(name string) error {
				if points++; points != n+1 || w.live() == nil {
					return nil
				}
				died = name
				w.die()
				go func() {
					time.Sleep(4 * time.Second)
					w.start()
				}()
				return errors.New("burstd dies")
			}
			one, two := key(7, 1, "0"), key(7, 1, "1")
			a, b := w.run(one, w.wire()), w.run(two, w.wire())
			b.slow(9 * time.Second)
			time.Sleep(30 * time.Second)
			answers, err := w.ask(order(one, "r1", session.Stop, 110*time.Second))
			w.want(answers, err, nil, map[string]int{"0": 1, "1": 1})
			w.blessed(one, 1)
			w.blessed(two, 1)
			a.end()
			b.end()
			for _, s := range []*step{a, b} {
				if did, said := s.doing(); did != "checkpoint-and-stop" || said != "" {
					w.Errorf("dead %s: it did %q and said %q", died, did, said)
				}
			}
			time.Sleep(5 * time.Minute)
			if left, err := w.journal.OpenSessions(w.ctx); err != nil || len(left) > 0 {
				w.Errorf("dead %s: the journal has %v open, %v", died, left, err)
			}
			passed = died == ""
		})
		if n > 40 {
			t.Fatal("there is no end of points")
		}
		if passed && n < 12 {
			t.Errorf("only %d points were passed", n)
		}
	}
}

// TestBurstdRestarts while a step works on a request, and asks for one that
// opened its session before; a step that has not come back yet is waited for.
func TestBurstdRestarts(t *testing.T) {
	bubble(t, session.HubConfig{}, func(w *world) {
		one, two := key(7, 0, "0"), key(7, 0, "1")
		var back atomic.Bool
		slow := w.wire()
		slow.Fault = func(string, bool) error {
			if !back.Load() {
				return nil
			}
			return errors.New("not back yet")
		}
		w.run(one, w.wire())
		b := w.run(two, slow)
		time.Sleep(time.Minute)
		back.Store(true)
		w.die()
		w.start()
		if s := w.live().Sessions(7, 0); len(s) != 2 || !s[0].Lost || s[1].Step != "1" {
			t.Fatalf("known of the journal: %+v", s)
		}
		go func() { time.Sleep(50 * time.Second); back.Store(false) }()
		asked := time.Now()
		answers, err := w.ask(order(one, "r1", session.Checkpoint, 110*time.Second))
		w.want(answers, err, nil, map[string]int{"0": 1, "1": 1})
		if took := time.Since(asked); took < 50*time.Second {
			t.Errorf("it did not wait for the step that was away: %s", took)
		}
		b.mu.Lock()
		defer b.mu.Unlock()
		if s := w.live().Sessions(7, 0); len(s) != 2 || s[0].Lost || s[1].Lost || s[1].UID != user || s[1].Progress.Iteration != 7 || s[1].Cost != b.takes {
			t.Errorf("%+v", s)
		}
	})
}

func TestOneSession(t *testing.T) {
	k := key(7, 0, "0")
	for _, tt := range []struct {
		name string
		cfg  session.HubConfig
		test func(w *world)
	}{
		{"a later burst-srun takes the step over", session.HubConfig{}, func(w *world) {
			old := w.run(k, w.wire())
			time.Sleep(10 * time.Second)
			w.run(k, w.wire())
			time.Sleep(time.Second)
			answers, err := w.ask(order(k, "r1", session.Checkpoint, time.Minute))
			w.want(answers, err, nil, map[string]int{"0": 1})
			did, said := old.doing()
			if did != "" || said != "burstd refuses this step (a later burst-srun has taken the session over): it is not protected against evictions" {
				w.Errorf("the old one did %q and said %q", did, said)
			}
		}},
		{"and the old one has it again when that is gone", session.HubConfig{}, func(w *world) {
			old := w.run(k, w.wire())
			time.Sleep(10 * time.Second)
			w.run(k, w.wire()).end()
			time.Sleep(10 * time.Minute)
			answers, err := w.ask(order(k, "r1", session.Checkpoint, time.Minute))
			w.want(answers, err, nil, map[string]int{"0": 1})
			if did, _ := old.doing(); did != "checkpoint" {
				w.Errorf("the old one did %q", did)
			}
		}},
		{"a later attempt takes the job over", session.HubConfig{}, func(w *world) {
			old := w.run(k, w.wire())
			time.Sleep(10 * time.Second)
			go func() { time.Sleep(time.Second); w.run(key(7, 1, "0"), w.wire()) }()
			old.slow(time.Hour)
			answers, err := w.ask(order(k, "r1", session.Stop, time.Minute))
			w.want(answers, err, session.ErrReplaced, nil)
			_, err = w.ask(order(k, "r2", session.Stop, time.Minute))
			w.want(nil, err, session.ErrReplaced, nil)
			next := order(key(7, 1, "0"), "r3", session.Checkpoint, time.Minute)
			answers, err = w.ask(next)
			w.want(answers, err, nil, map[string]int{"0": 1})
			w.mu.Lock()
			h := w.hub
			w.mu.Unlock()
			err = h.Answer(w.ctx, user, session.Given{Key: k, Token: "x", Answer: session.Answer{Generation: "/shared/7/gen-99", N: 99}})
			w.want(nil, err, session.ErrReplaced, nil)
			w.blessed(key(7, 1, "0"), 1)
			if left, err := w.journal.OpenSessions(w.ctx); err != nil || len(left) != 1 {
				w.Errorf("the journal has %v open, %v", left, err)
			}
		}},
		{"a request for the next attempt ends this one", session.HubConfig{}, func(w *world) {
			w.run(k, w.wire())
			time.Sleep(10 * time.Second)
			go w.run(key(7, 1, "0"), w.wire())
			answers, err := w.ask(order(key(7, 1, "0"), "r1", session.Checkpoint, time.Minute))
			w.want(answers, err, nil, map[string]int{"0": 1})
		}},
		{"another user's", session.HubConfig{}, func(w *world) {
			mine := w.run(k, w.wire())
			time.Sleep(time.Second)
			other := w.wire()
			other.UID = 1001
			thief := w.run(k, other)
			time.Sleep(time.Second)
			if _, said := thief.doing(); said != "burstd refuses this step (the job is another user's): it is not protected against evictions" {
				w.Errorf("the other said %q", said)
			}
			h, token := w.live(), w.live().Sessions(7, 0)[0].Token
			_, polled := h.Poll(w.ctx, 1001, session.Question{Key: k, Token: token})
			answered := h.Answer(w.ctx, 1001, session.Given{Key: k, Token: token, Answer: session.Answer{ID: "r1"}})
			closed := h.Close(w.ctx, 1001, session.End{Key: k, Token: token})
			for _, err := range []error{polled, answered, closed} {
				w.want(nil, err, session.ErrNotYours, nil)
			}
			answers, err := w.ask(order(k, "r1", session.Checkpoint, time.Minute))
			w.want(answers, err, nil, map[string]int{"0": 1})
			if did, _ := mine.doing(); did != "checkpoint" {
				w.Errorf("the owner did %q", did)
			}
		}},
		{"silent for long", session.HubConfig{}, func(w *world) {
			var lost atomic.Bool
			wire := w.wire()
			wire.Fault = func(string, bool) error {
				if lost.Load() {
					return errors.New("cut off")
				}
				return nil
			}
			s := w.run(k, wire)
			time.Sleep(time.Second)
			lost.Store(true)
			time.Sleep(100 * time.Second)
			if open, _ := w.live().Count(); open != 1 {
				w.Errorf("%d sessions after less than two minutes", open)
			}
			time.Sleep(time.Minute)
			if left, err := w.journal.OpenSessions(w.ctx); err != nil || len(left) > 0 {
				w.Errorf("the journal has %v open, %v", left, err)
			}
			lost.Store(false)
			time.Sleep(20 * time.Second)
			if open, _ := w.live().Count(); open != 1 {
				w.Errorf("%d sessions after it has come back", open)
			}
			if _, said := s.doing(); said != "" {
				w.Errorf("it said %q", said)
			}
		}},
		{"killed, and silent while it is asked", session.HubConfig{}, func(w *world) {
			s := w.run(k, w.wire())
			time.Sleep(time.Second)
			s.kill()
			go func() {
				time.Sleep(4 * time.Minute)
				if open, asked := w.live().Count(); open != 1 || asked != 1 {
					w.Errorf("%d sessions, %d requests meanwhile", open, asked)
				}
			}()
			answers, err := w.ask(order(k, "r1", session.Checkpoint, 5*time.Minute))
			w.want(answers, err, session.ErrLate, nil)
			time.Sleep(2 * time.Second)
			if open, asked := w.live().Count(); open != 0 || asked != 0 {
				w.Errorf("%d sessions, %d requests are left", open, asked)
			}
		}},
		{"silent, and the journal cannot be written for a while", session.HubConfig{}, func(w *world) {
			w.run(k, w.wire()).kill()
			fails := 5
			w.journal.mu.Lock()
			w.journal.point = func(string) error {
				if fails--; fails >= 0 {
					return errors.New("disk full")
				}
				return nil
			}
			w.journal.mu.Unlock()
			time.Sleep(3 * time.Minute)
			w.journal.mu.Lock()
			defer w.journal.mu.Unlock()
			if left, err := w.journal.OpenSessions(w.ctx); err != nil || len(left) > 0 || fails >= 0 {
				w.Errorf("the journal has %v open, %v", left, err)
			}
		}},
		{"too many of a job", session.HubConfig{Steps: 2}, func(w *world) {
			for n := range 3 {
				w.run(key(7, 0, fmt.Sprint(n)), w.wire())
			}
			w.run(key(8, 0, "0"), w.wire())
			w.full(3)
		}},
		{"too many of a user", session.HubConfig{User: 2}, func(w *world) {
			w.run(key(7, 0, "0"), w.wire())
			w.run(key(8, 0, "0"), w.wire())
			w.run(key(9, 0, "0"), w.wire())
			other := w.wire()
			other.UID = 1001
			w.run(key(10, 0, "0"), other)
			w.full(3)
		}},
		{"too many", session.HubConfig{Most: 2, User: 9}, func(w *world) {
			for n := range uint32(3) {
				w.run(key(7+n, 0, "0"), w.wire())
			}
			w.full(2)
		}},
	} {
		t.Run(tt.name, func(t *testing.T) { bubble(t, tt.cfg, tt.test) })
	}
}

// full waits until one who is too many has been told so; when another ends, it is let in.
func (w *world) full(most int) {
	w.Helper()
	time.Sleep(20 * time.Second)
	open, _ := w.live().Count()
	_, err := w.live().Open(w.ctx, user, session.Hello{Key: key(7, 0, "more"), Token: "t"})
	if open != most || !errors.Is(err, session.ErrFull) {
		w.Errorf("%d sessions are open, want %d; one more: %v", open, most, err)
	}
}
