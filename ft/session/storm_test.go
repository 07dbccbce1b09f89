package session_test

import (
	"context"
	"testing"
	"time"

	"github.com/burst-hpc/burst/ft/session"
	"github.com/burst-hpc/burst/ft/session/sessiontest"
)

// TestWithoutALimit nobody waits.
func TestWithoutALimit(t *testing.T) {
	bubble(t, session.HubConfig{}, func(w *world) {
		var busy writers
		var jobs []*step
		for n := range uint32(50) {
			jobs = append(jobs, w.job(n+1, 100*time.Second, time.Hour)) // what they take, whoever asks has judged
		}
		if saved := w.storm(jobs, &busy); saved != 50 || busy.peak() != 50 {
			t.Errorf("%d are saved, and %d wrote at once", saved, busy.peak())
		}
	})
}

// storm is many jobs that are asked at once to checkpoint and stop within 110 s.
func (w *world) storm(jobs []*step, busy *writers) (saved int) {
	var orders []session.Order
	for _, s := range jobs {
		s.counted(busy)
		orders = append(orders, order(s.hello.Key, "r", session.Stop, 110*time.Second))
	}
	for _, a := range w.asks(orders...) {
		if answers, _ := a.Wait(w.ctx); answers["0"].Generation != "" {
			saved++
		}
	}
	return saved
}

// TestAStormWithoutCosts: of 300 jobs that have made no checkpoint yet never more than
// at_once write, and as many are saved as can be.
func TestAStormWithoutCosts(t *testing.T) {
	bubble(t, session.HubConfig{AtOnce: 32}, func(w *world) {
		var busy writers
		var jobs []*step
		for n := range uint32(300) {
			jobs = append(jobs, w.job(n+1, 20*time.Second, 0))
		}
		if saved := w.storm(jobs, &busy); saved != 5*32 || busy.peak() != 32 {
			t.Errorf("%d are saved, and %d wrote at once", saved, busy.peak())
		}
	})
}

// TestTheQuickestOfAStorm are first: so the most are saved. One whose cost is not known
// is taken for one of those that have been made.
func TestTheQuickestOfAStorm(t *testing.T) {
	bubble(t, session.HubConfig{AtOnce: 2}, func(w *world) {
		var busy writers
		var jobs []*step
		for n := range uint32(4) {
			jobs = append(jobs, w.job(n+1, time.Minute, time.Minute))
		}
		unknown := w.job(5, 30*time.Second, 0)
		jobs = append(jobs, unknown)
		for n := range uint32(14) {
			jobs = append(jobs, w.job(n+10, 12*time.Second, 12*time.Second))
		}
		told := time.Now()
		if saved := w.storm(jobs, &busy); saved != 15 {
			t.Errorf("%d are saved", saved)
		}
		if got := unknown.after(told); got > time.Second { // taken for 10 s
			t.Errorf("the one without a cost began after %s", got)
		}
		for _, s := range jobs[:4] {
			if did, _ := s.doing(); did != "stop" || s.after(told) < 50*time.Second || s.after(told) > 52*time.Second {
				t.Errorf("job %d did %q after %s", s.hello.Job, did, s.after(told))
			}
		}
	})
}

// closing is a way to burstd that ends with it.
type closing struct {
	*world
	sessiontest.Wire
}

func (c closing) Do(ctx context.Context, path string, in, out any) error {
	c.mu.Lock()
	life := c.life
	c.mu.Unlock()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(life, cancel)()
	return c.Wire.Do(ctx, path, in, out)
}

// TestAStormOutlivesBurstd: those that write are known again before others do.
func TestAStormOutlivesBurstd(t *testing.T) {
	bubble(t, session.HubConfig{AtOnce: 2}, func(w *world) {
		var busy writers
		var orders []session.Order
		for n := range uint32(6) {
			s := w.run(key(n+1, 0, "0"), closing{w, w.wire()}).counted(&busy)
			s.slow(25 * time.Second)
			left := 110 * time.Second
			if n >= 4 { // who is asked first, and has more time
				left *= 2
			}
			orders = append(orders, order(s.hello.Key, "r", session.Stop, left))
		}
		time.Sleep(time.Second)
		w.asks(orders[4:]...)
		time.Sleep(time.Second)
		w.asks(orders[:4]...)
		time.Sleep(5 * time.Second)
		w.die()
		time.Sleep(time.Second)
		w.start()
		for _, a := range w.asks(orders...) {
			answers, err := a.Wait(w.ctx)
			w.want(answers, err, nil, map[string]int{"0": 1})
		}
		if busy.peak() != 2 {
			t.Errorf("%d wrote at once", busy.peak())
		}
	})
}

// TestStepsOfAJobTakeTurns, and one that starts when the others have stopped takes one.
func TestStepsOfAJobTakeTurns(t *testing.T) {
	bubble(t, session.HubConfig{AtOnce: 1}, func(w *world) {
		var busy writers
		for _, name := range []string{"0", "1"} {
			s := w.run(key(1, 0, name), w.wire()).counted(&busy)
			s.slow(20 * time.Second)
		}
		time.Sleep(time.Second)
		all := w.asks(order(key(1, 0, ""), "r", session.Stop, 110*time.Second))
		answers, err := all[0].Wait(w.ctx)
		w.want(answers, err, nil, map[string]int{"0": 1, "1": 1})
		w.asks(order(w.job(2, 20*time.Second, 0).counted(&busy).hello.Key, "r", session.Stop, 40*time.Second))
		next := w.run(key(1, 0, "2"), w.wire()).counted(&busy)
		time.Sleep(time.Minute)
		if did, _ := next.doing(); did != "checkpoint-and-stop" || busy.peak() != 1 {
			t.Errorf("the next step did %q; %d wrote at once", did, busy.peak())
		}
	})
}
