package session_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/burst-hpc/burst/ft/session"
)

// TestThe257thStep of a job at once has no session: the log says so once, its user is
// told, a request to the job does not wait for it, and when another step has ended
// it is let in.
func TestThe257thStep(t *testing.T) {
	bubble(t, session.HubConfig{}, func(w *world) {
		const most = 256
		open := func(n int) (session.Hello, error) {
			h := session.Hello{Key: key(7, 0, fmt.Sprint(n)), Token: "t", Dir: "/shared/7"}
			_, err := w.live().Open(w.ctx, user, h)
			return h, err
		}
		var all []session.Hello
		for n := range most {
			h, err := open(n)
			if err != nil {
				t.Fatalf("step %d: %v", n, err)
			}
			all = append(all, h)
		}
		if _, err := open(most); !errors.Is(err, session.ErrFull) || !strings.Contains(err.Error(), "256 steps of job 7") {
			t.Errorf("one more: %v", err)
		}
		last := w.run(key(7, 0, "last"), w.wire())
		time.Sleep(time.Minute)
		log := w.log.String()
		if strings.Count(log, "has no session") != 1 || !strings.Contains(log, "job=7 step=256") {
			t.Errorf("the log has %q", log)
		}
		const told = "burstd has too many sessions: 256 steps of job 7, the most of one job at once: until it has room this step is not asked for a checkpoint before its node goes"
		if _, said := last.doing(); said != told {
			t.Errorf("it said %q", said)
		}
		if open, _ := w.live().Count(); open != most {
			t.Errorf("%d sessions", open)
		}

		asked := w.asks(order(last.hello.Key, "r", session.Stop, time.Minute))[0]
		for n, h := range all {
			a := session.Answer{ID: "r", Generation: fmt.Sprintf("/shared/7/%d/gen-1", n), N: 1, Took: time.Second, Iteration: -1, Stopped: true}
			if err := w.live().Answer(w.ctx, user, session.Given{Key: h.Key, Token: h.Token, Answer: a}); err != nil {
				t.Fatal(err)
			}
		}
		if answers, err := asked.Wait(w.ctx); err != nil || len(answers) != most {
			t.Errorf("%d answers, %v", len(answers), err)
		}
		if err := w.live().Close(w.ctx, user, session.End{Key: all[0].Key, Token: all[0].Token}); err != nil {
			t.Error(err)
		}
		time.Sleep(20 * time.Second)
		if did, said := last.doing(); did != "checkpoint-and-stop" || said != told+"\nburstd answers: the job is protected from now on" {
			t.Errorf("let in, it did %q and said %q", did, said)
		}
	})
}

// TestNoRoom for sessions of all, or of a user, is logged now and then.
func TestNoRoom(t *testing.T) {
	bubble(t, session.HubConfig{User: 1}, func(w *world) {
		w.run(key(7, 0, "0"), w.wire())
		for n := range uint32(20) {
			w.run(key(8+n, 0, "0"), w.wire())
		}
		time.Sleep(10*time.Minute - time.Second)
		if n := strings.Count(w.log.String(), "has no session"); n < 8 || n > 10 {
			t.Errorf("the log was told %d times in 10 minutes", n)
		}
	})
}
