package session_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/burst-hpc/burst/ft/session"
)

// hung is a transport that does not answer.
type hung struct{}

func (hung) Do(ctx context.Context, _ string, _, _ any) error {
	<-ctx.Done()
	return context.Cause(ctx)
}

// TestBurstdIsAway: the step ends no later for it, and its user is told once.
func TestBurstdIsAway(t *testing.T) {
	away := errors.New("connection refused")
	refused := func(w *world) session.Transport {
		wire := w.wire()
		wire.Fault = func(string, bool) error { return away }
		return wire
	}
	const nobody = "burstd does not answer (connection refused): until it does, this job is not protected against evictions"
	for _, tt := range []struct {
		name      string
		transport func(w *world) session.Transport
		runs      time.Duration
		said      string
	}{
		{"for long", refused, time.Hour, nobody},
		{"a short step", refused, time.Second, "burstd has not answered: this step was not protected against evictions"},
		{"it hangs", func(*world) session.Transport { return hung{} }, time.Hour,
			"burstd does not answer (burstd does not answer in time): until it does, this job is not protected against evictions"},
		{"a step that ends before it could answer", func(*world) session.Transport { return hung{} }, time.Millisecond, ""},
		{"it comes back", func(w *world) session.Transport {
			wire, began := w.wire(), time.Now()
			wire.Fault = func(string, bool) error {
				if time.Since(began) < 10*time.Minute {
					return away
				}
				return nil
			}
			return wire
		}, time.Hour, nobody + "\nburstd answers: the job is protected from now on"},
		{"it takes nothing", func(w *world) session.Transport {
			wire := w.wire()
			wire.Fault = func(string, bool) error { return session.ErrInvalid }
			return wire
		}, time.Hour, "burstd refuses this step (burstd does not take this): it is not protected against evictions"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, session.HubConfig{}, func(w *world) {
				s := w.run(key(7, 0, "0"), tt.transport(w))
				time.Sleep(tt.runs)
				begun := time.Now()
				s.end()
				if took := time.Since(begun); took > 0 {
					t.Errorf("it ended %s later", took)
				}
				if _, said := s.doing(); said != tt.said {
					t.Errorf("it said %q, want %q", said, tt.said)
				}
			})
		})
	}
}

// TestClose delivers what is under way, but does not wait for ever.
func TestClose(t *testing.T) {
	k := key(7, 0, "0")
	for _, tt := range []struct {
		name    string
		takes   time.Duration
		away    bool // burstd, from the moment at which the step ends
		blessed int
		within  time.Duration
	}{
		{"a request under way is finished", 20 * time.Second, false, 1, 20 * time.Second},
		{"burstd is away", 20 * time.Second, true, 0, time.Minute},
		{"the method hangs", time.Hour, false, 0, time.Minute},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, session.HubConfig{}, func(w *world) {
				s := w.run(k, w.wire())
				s.slow(tt.takes)
				if _, err := w.live().Ask(w.ctx, order(k, "r1", session.Stop, 110*time.Second)); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Second)
				if tt.away {
					w.die()
				}
				begun := time.Now()
				s.end()
				if took := time.Since(begun); took > tt.within {
					t.Errorf("it ended %s later", took)
				}
				w.blessed(k, tt.blessed)
			})
		})
	}
}
