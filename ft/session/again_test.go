package session_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/burst-hpc/burst/ft/session"
	"github.com/burst-hpc/burst/ft/session/sessiontest"
)

// TestAStepThatEndedUnheard, while burstd was away, is not waited for when another of
// its job has come back, however long the request has.
func TestAStepThatEndedUnheard(t *testing.T) {
	bubble(t, session.HubConfig{}, func(w *world) {
		one, two := key(7, 0, "0"), key(7, 0, "1")
		w.run(one, w.wire())
		unheard := w.run(two, w.wire())
		alone := w.run(key(8, 0, "0"), w.wire())
		time.Sleep(time.Minute)
		w.die()
		unheard.kill()
		alone.kill()
		w.start()
		go func() {
			time.Sleep(10 * time.Minute)
			if open := w.live().Sessions(8, 0); len(open) != 1 {
				t.Errorf("of the job of which no step has come back %d sessions are known while it is asked", len(open))
			}
		}()
		asked := w.asks(order(one, "r1", session.Stop, 15*time.Minute), order(key(8, 0, ""), "r1", session.Stop, 15*time.Minute))
		at := time.Now()
		answers, err := asked[0].Wait(w.ctx)
		w.want(answers, err, nil, map[string]int{"0": 1})
		if took := time.Since(at); took < time.Minute || took > 80*time.Second {
			t.Errorf("it was over after %s", took)
		}
		if open := w.live().Sessions(7, 0); len(open) != 1 || open[0].Step != "0" {
			t.Errorf("known are %+v", open)
		}
		answers, err = asked[1].Wait(w.ctx)
		w.want(answers, err, session.ErrLate, nil)
	})
}

// gated is a journal that is slow, or fails, at what the test wants.
type gated struct {
	*sessiontest.Memory
	gate func(c session.Change, written bool) error
}

func (g gated) CommitSession(ctx context.Context, c session.Change) error {
	if err := g.gate(c, false); err != nil {
		return err
	}
	return errors.Join(g.Memory.CommitSession(ctx, c), g.gate(c, true))
}

// TestForgottenAndBack: a session that is opened again by the client that was silent
// stays in the journal, whenever that has its end.
func TestForgottenAndBack(t *testing.T) {
	const long = 5 * time.Second
	for _, tt := range []struct {
		name   string
		fails  bool // what is written at first of its end
		closes time.Duration
		opens  time.Duration // to have it when it is written
		left   int
	}{
		{"while its end is written", false, long, 0, 1},
		{"before its end is written", true, 0, 0, 1},
		{"while both are", true, 0, long, 1},
		{"and not", true, 0, -1, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, end := context.WithCancel(t.Context())
				defer end()
				closing := make(chan struct{})
				closes, opens := 0, 0
				j := gated{sessiontest.NewMemory(), func(c session.Change, written bool) error {
					switch {
					case len(c.Closed) > 0 && !written:
						if closes++; closes == 1 {
							close(closing)
						}
						time.Sleep(tt.closes)
						if tt.fails && closes == 1 {
							return errors.New("disk full")
						}
					case len(c.Opened) > 0 && written:
						if opens++; opens == 2 {
							time.Sleep(tt.opens)
						}
					}
					return nil
				}}
				h := session.NewHub(session.HubConfig{}, j, slog.New(slog.DiscardHandler))
				go h.Run(ctx)
				hello := session.Hello{Key: key(7, 0, "0"), Token: "t"}
				open := func() {
					if _, err := h.Open(ctx, user, hello); err != nil {
						t.Error(err)
					}
				}
				open()
				<-closing
				if tt.opens >= 0 {
					open()
				}
				time.Sleep(10 * time.Second)
				left, err := j.OpenSessions(ctx)
				if n, _ := h.Count(); err != nil || len(left) != tt.left || n != tt.left {
					t.Errorf("the journal has %v, %v; %d are open", left, err, n)
				}
			})
		})
	}
}

// TestManyOrders: with so many under way turns are not given at each change, but
// within a moment.
func TestManyOrders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, _ := newHub()
		var orders []session.Order
		for n := range uint32(600) {
			k := key(n+1, 0, "0")
			if _, err := h.Open(t.Context(), user, session.Hello{Key: k, Token: "t", Cost: time.Second}); err != nil {
				t.Fatal(err)
			}
			orders = append(orders, order(k, "r", session.Stop, time.Hour))
		}
		asks := func(some []session.Order) {
			if _, err := h.AskMany(t.Context(), some); err != nil {
				t.Fatal(err)
			}
		}
		poll := func(n uint32, q session.Question) string {
			q.Key, q.Token, q.Wait = key(n, 0, "0"), "t", 20*time.Second
			at := time.Now()
			w, err := h.Poll(t.Context(), user, q)
			if err != nil || w.Request == nil {
				t.Fatalf("%+v, %v", w, err)
			}
			return fmt.Sprintf("held=%t after %s", w.Request.Held, time.Since(at))
		}
		time.Sleep(time.Second)
		asks(orders[:599])
		if got := poll(1, session.Question{}); got != "held=false after 0s" {
			t.Errorf("the first is %s", got)
		}
		asks(orders[599:])
		if got := poll(600, session.Question{}); got != "held=true after 0s" {
			t.Errorf("the last is %s", got)
		}
		if got := poll(600, session.Question{Have: "r", Held: true}); got != "held=false after 50ms" {
			t.Errorf("then it is %s", got)
		}
	})
}
