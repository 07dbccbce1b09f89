package session_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/burst-hpc/burst/ft/session"
)

func TestOrders(t *testing.T) {
	k := key(7, 0, "0")
	for _, tt := range []struct {
		name string
		cfg  session.HubConfig
		test func(w *world)
	}{
		{"before the session is opened", session.HubConfig{}, func(w *world) {
			go func() { time.Sleep(30 * time.Second); w.run(k, w.wire()) }()
			answers, err := w.ask(order(k, "r1", session.Stop, time.Minute))
			w.want(answers, err, nil, map[string]int{"0": 1})
		}},
		{"nobody comes", session.HubConfig{}, func(w *world) {
			answers, err := w.ask(order(k, "r1", session.Stop, time.Minute))
			w.want(answers, err, session.ErrLate, nil)
			if open, asked := w.live().Count(); open != 0 || asked != 0 {
				w.Errorf("%d sessions, %d requests are left", open, asked)
			}
		}},
		{"a step that starts after all have stopped is to stop too", session.HubConfig{}, func(w *world) {
			first := w.run(k, w.wire())
			time.Sleep(time.Second)
			answers, err := w.ask(order(k, "r1", session.Stop, time.Minute))
			w.want(answers, err, nil, map[string]int{"0": 1})
			next := w.run(key(7, 0, "1"), w.wire())
			time.Sleep(10 * time.Second)
			first.end()
			next.end()
			last := w.run(key(7, 0, "2"), w.wire()) // the attempt had no session for a moment
			time.Sleep(10 * time.Second)
			for _, s := range []*step{next, last} {
				if did, _ := s.doing(); did != "checkpoint-and-stop" {
					w.Errorf("step %s did %q", s.hello.Step, did)
				}
			}
		}},
		{"one that starts after all have written a checkpoint is not asked", session.HubConfig{}, func(w *world) {
			w.run(k, w.wire())
			time.Sleep(time.Second)
			answers, err := w.ask(order(k, "r1", session.Checkpoint, time.Minute))
			w.want(answers, err, nil, map[string]int{"0": 1})
			next := w.run(key(7, 0, "1"), w.wire())
			time.Sleep(10 * time.Second)
			if did, _ := next.doing(); did != "" {
				w.Errorf("it did %q", did)
			}
		}},
		{"a step that starts meanwhile is waited for", session.HubConfig{}, func(w *world) {
			w.run(k, w.wire())
			go func() { time.Sleep(time.Second); w.run(key(7, 0, "1"), w.wire()).slow(20 * time.Second) }()
			answers, err := w.ask(order(k, "r1", session.Checkpoint, time.Minute))
			w.want(answers, err, nil, map[string]int{"0": 1, "1": 1})
		}},
		{"the step ends by itself", session.HubConfig{}, func(w *world) {
			s := w.run(k, w.wire())
			s.slow(time.Hour)
			go func() {
				time.Sleep(5 * time.Second)
				s.cancel()
				end := session.End{Key: k, Token: w.live().Sessions(7, 0)[0].Token}
				if err := w.live().Close(w.ctx, user, end); err != nil {
					w.Error(err)
				}
			}()
			answers, err := w.ask(order(k, "r1", session.Checkpoint, time.Minute))
			w.want(answers, err, session.ErrEnded, nil)
		}},
		{"the same again asks nothing anew", session.HubConfig{}, func(w *world) {
			s := w.run(k, w.wire())
			o := order(k, "r1", session.Checkpoint, time.Minute)
			for range 3 {
				answers, err := w.ask(o)
				w.want(answers, err, nil, map[string]int{"0": 1})
			}
			if did, _ := s.doing(); did != "checkpoint" {
				w.Errorf("it did %q", did)
			}
		}},
		{"again after another one", session.HubConfig{}, func(w *world) {
			s := w.run(k, w.wire())
			first := order(k, "r1", session.Checkpoint, time.Minute)
			for _, o := range []session.Order{first, order(k, "r2", session.Checkpoint, time.Minute), first} {
				n := map[string]int{"r1": 1, "r2": 2}[o.Request.ID]
				answers, err := w.ask(o)
				w.want(answers, err, nil, map[string]int{"0": n})
			}
			if did, _ := s.doing(); did != "checkpoint checkpoint" {
				w.Errorf("it did %q", did)
			}
		}},
		{"an earlier deadline takes the place of a later one", session.HubConfig{}, func(w *world) {
			s := w.run(k, w.wire())
			s.slow(30 * time.Second)
			time.Sleep(time.Second)
			first := order(k, "r1", session.Checkpoint, time.Hour)
			go func() {
				time.Sleep(5 * time.Second)
				answers, err := w.ask(order(k, "r2", session.Stop, time.Minute))
				w.want(answers, err, nil, map[string]int{"0": 1})
			}()
			answers, err := w.ask(first)
			w.want(answers, err, session.ErrReplaced, nil)
			time.Sleep(time.Minute)
			if did, _ := s.doing(); did != "checkpoint checkpoint-and-stop" || !errors.Is(s.firstEnd(), session.ErrReplaced) {
				w.Errorf("it did %q, %v", did, s.firstEnd())
			}
		}},
		{"called off under way", session.HubConfig{}, func(w *world) {
			s := w.run(k, w.wire())
			s.slow(time.Hour)
			go func() {
				time.Sleep(10 * time.Second)
				answers, err := w.ask(order(k, "r2", session.Cancel, time.Minute))
				w.want(answers, err, nil, nil)
			}()
			answers, err := w.ask(order(k, "r1", session.Stop, time.Minute))
			w.want(answers, err, session.ErrReplaced, nil)
			time.Sleep(time.Minute)
			if did, _ := s.doing(); did != "checkpoint-and-stop" || !errors.Is(s.firstEnd(), session.ErrCancelled) {
				w.Errorf("it did %q, %v", did, s.firstEnd())
			}
		}},
		{"no time for a checkpoint", session.HubConfig{}, func(w *world) {
			w.run(k, w.wire())
			answers, err := w.ask(order(k, "r1", session.Leave, 10*time.Second))
			w.want(answers, err, nil, nil)
			if !answers["0"].Stopped {
				w.Errorf("answers: %+v", answers)
			}
		}},
		{"it takes too long", session.HubConfig{}, func(w *world) {
			s := w.run(k, w.wire())
			s.slow(time.Hour)
			// As on a real host, what is given up ends a moment after its time: here both
			// clocks are one, and the answer would else come now before it, now after it.
			s.busy = func(delta int) {
				if delta < 0 {
					time.Sleep(time.Millisecond)
				}
			}
			answers, err := w.ask(order(k, "r1", session.Checkpoint, time.Minute))
			w.want(answers, err, session.ErrLate, nil)
			time.Sleep(time.Second)
			if err := s.firstEnd(); !errors.Is(err, session.ErrLate) {
				w.Errorf("it ended with %v", err)
			}
			w.blessed(k, 0)
		}},
		{"clocks are wrong by hours", session.HubConfig{}, func(w *world) {
			for i, by := range []time.Duration{5 * time.Hour, -5 * time.Hour} {
				k := key(uint32(20+i), 0, "0")
				s := w.run(k, skewed{w.wire(), by})
				o := order(k, "r1", session.Checkpoint, time.Minute)
				answers, err := w.ask(o)
				w.want(answers, err, nil, map[string]int{"0": 1})
				if d := s.first().By.Sub(o.Request.By).Abs(); d > time.Second {
					w.Errorf("with a clock wrong by %s it was to be done by %s later", by, d)
				}
			}
		}},
		{"what cannot be asked", session.HubConfig{}, func(w *world) {
			for name, o := range map[string]session.Order{
				"the time is over":     order(k, "r1", session.Stop, 0),
				"there is none":        order(key(0, 0, ""), "r1", session.Stop, time.Minute),
				"is no request's ID":   order(k, "", session.Stop, time.Minute),
				"is no kind":           order(k, "r1", "jump", time.Minute),
				"attempt -1 of job 7:": order(key(7, -1, ""), "r1", session.Stop, time.Minute),
			} {
				if _, err := w.live().AskMany(w.ctx, []session.Order{order(key(8, 0, ""), "r1", session.Stop, time.Minute), o}); err == nil || !strings.Contains(err.Error(), name) {
					w.Errorf("%s: %v", name, err)
				}
			}
			if _, asked := w.live().Count(); asked != 0 {
				w.Errorf("%d are asked", asked)
			}
		}},
	} {
		t.Run(tt.name, func(t *testing.T) { bubble(t, tt.cfg, tt.test) })
	}
}

// TestTurns: two may write at once, those first that must be ready first. One
// that is dead holds no turn, and one that is called off takes none.
func TestTurns(t *testing.T) {
	bubble(t, session.HubConfig{AtOnce: 2}, func(w *world) {
		var mu sync.Mutex
		now, most := 0, 0
		busy := func(delta int) {
			mu.Lock()
			defer mu.Unlock()
			now += delta
			most = max(most, now)
		}
		const jobs = 6
		var steps []*step
		var orders []session.Order
		dead := w.run(key(99, 0, "0"), w.wire())
		for n := range uint32(jobs) {
			s := w.job(n+1, 10*time.Second, 10*time.Second)
			s.mu.Lock()
			s.busy = busy
			s.mu.Unlock()
			steps = append(steps, s)
			orders = append(orders, order(s.hello.Key, "r1", session.Stop, time.Duration(100+10*(jobs-n))*time.Second)) // the last first
		}
		time.Sleep(time.Minute)
		dead.kill()
		orders = append(orders, order(dead.hello.Key, "r1", session.Stop, 90*time.Second))
		off := w.run(key(98, 0, "0"), w.wire())
		orders = append(orders, order(off.hello.Key, "r1", session.Stop, 10*time.Minute))
		asked, err := w.live().AskMany(w.ctx, orders)
		if err != nil {
			t.Fatal(err)
		}
		answers, err := w.ask(order(off.hello.Key, "r2", session.Cancel, time.Minute))
		w.want(answers, err, nil, nil)
		for i, a := range asked[:jobs] {
			answers, err := a.Wait(w.ctx)
			w.want(answers, err, nil, map[string]int{"0": 1})
			w.blessed(steps[i].hello.Key, 1)
		}
		if did, _ := off.doing(); did != "" || most != 2 {
			t.Errorf("the one that was called off did %q; %d wrote at once", did, most)
		}
		for i := range steps[1:] {
			if early, late := steps[i+1].begun[0], steps[i].begun[0]; early.After(late) {
				t.Errorf("job %d, which has more time, began %s before job %d", i+1, early.Sub(late), i+2)
			}
		}
		answers, err = asked[jobs].Wait(w.ctx)
		w.want(answers, err, session.ErrLate, nil)
		answers, err = asked[jobs+1].Wait(w.ctx)
		w.want(answers, err, session.ErrReplaced, nil)
	})
}

// TestPeriodic checkpoints are blessed, and what they cost makes the advice.
func TestPeriodic(t *testing.T) {
	advise := func(h session.Hello) time.Duration { return 100 * h.Cost }
	bubble(t, session.HubConfig{Interval: advise}, func(w *world) {
		k := key(7, 0, "0")
		s := w.run(k, w.wire())
		for n, takes := range []time.Duration{4, 1, 1, 1, 2} {
			s.mu.Lock()
			s.takes = takes * time.Second
			a := s.made(false)
			s.mu.Unlock()
			s.Report(a)
			time.Sleep(time.Minute)
			given := session.Given{Key: k, Token: w.live().Sessions(7, 0)[0].Token, Answer: a}
			if err := w.live().Answer(w.ctx, user, given); err != nil { // twice, as when the answer was lost
				t.Error(err)
			}
			w.blessed(k, n+1)
			if cost := w.live().Sessions(7, 0)[0].Cost; n < 3 && cost != 4*time.Second {
				t.Errorf("of the last %d the longest took %s", n+1, cost)
			}
		}
		w.die()
		w.start()
		time.Sleep(time.Minute)
		s.mu.Lock()
		defer s.mu.Unlock()
		if got := fmt.Sprint(s.told); got != "[6m40s 1m40s 3m20s]" {
			t.Errorf("advised was %s", got)
		}
		if open := w.live().Sessions(7, 0); len(open) != 1 || open[0].Cost != 2*time.Second {
			t.Errorf("after the restart: %+v", open)
		}
	})
}
