package ft_test

import (
	"cmp"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/burst-hpc/burst/ft"
	"github.com/burst-hpc/burst/ft/session"
)

// TestPlannedWorkWaitsForCheckpoints: jobs begin to leave as early as their steps'
// checkpoints want it, and not earlier.
func TestPlannedWorkWaitsForCheckpoints(t *testing.T) {
	const spare = 45 * time.Second
	for _, tt := range []struct {
		name  string
		steps []step
		fixed bool          // it cannot be requeued
		in    time.Duration // the work; 2 min and the lead
		asked session.Kind
		lead  time.Duration // before the work, at which it is asked; and at most 11 s later
		lost  bool
	}{
		{name: "known", steps: []step{{hello: session.Hello{Cost: 4 * time.Minute}, takes: 7 * time.Minute}}, asked: session.Stop, lead: 8*time.Minute + spare},
		{name: "not known", steps: []step{{takes: 4 * time.Minute}}, asked: session.Stop, lead: 5*time.Minute + spare},
		{name: "quick", steps: []step{{hello: session.Hello{Cost: time.Second}, takes: time.Second}}, asked: session.Stop, lead: 20*time.Second + spare},
		{name: "the slower of two", steps: []step{{hello: session.Hello{Cost: time.Second}, takes: time.Second}, {hello: session.Hello{Cost: 10 * time.Minute, Strategy: "periodic"}, takes: 15 * time.Minute}},
			asked: session.Stop, lead: 20*time.Minute + spare},
		{name: "periodic only", in: 10 * time.Minute, steps: []step{{hello: session.Hello{Cost: time.Hour, Strategy: "periodic"}}}, asked: session.Leave, lead: 20*time.Second + spare, lost: true},
		{name: "it cannot be requeued", fixed: true, steps: []step{{hello: session.Hello{Cost: 10 * time.Minute, Strategy: "periodic"}, takes: time.Minute}}, asked: session.Checkpoint, lead: 20*time.Minute + spare, lost: true},
		{name: "beyond reason", in: 10 * time.Minute, steps: []step{{hello: session.Hello{Cost: 2400 * time.Hour}, takes: time.Minute}}, asked: session.Leave, lead: 20*time.Second + spare, lost: true},
		{name: "long", steps: []step{{hello: session.Hello{Cost: 3 * time.Hour}, takes: time.Minute}}, asked: session.Stop, lead: 4*time.Hour + spare},
		{name: "all the time there is", in: 3 * time.Minute, steps: []step{{hello: session.Hello{Cost: 2 * time.Minute}, takes: 100 * time.Second}}, asked: session.Stop, lead: 3 * time.Minute},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, "c[1-4]", func(w *world) {
				s := newSite(w)
				s.start(w.rules("c[1-4]", "", ft.Drain), 0)
				j := s.srun(1, tt.steps...)
				j.Requeue = !tt.fixed
				w.begin(j)
				time.Sleep(time.Minute)
				in := cmp.Or(tt.in, tt.lead+2*time.Minute)
				work := time.Now().Add(in)
				w.work("c1", "e1", in)
				w.until(in, "it is asked", func() bool { return len(s.kinds()) == 1 })
				if lead := time.Until(work); lead > tt.lead || lead < tt.lead-11*time.Second {
					t.Errorf("asked %s before the work, not %s", lead, tt.lead)
				}
				w.closed(in)
				if got := s.kinds(); !slices.Equal(got, []session.Kind{tt.asked}) {
					t.Errorf("asked %v", got)
				}
				w.mu.Lock()
				defer w.mu.Unlock()
				for _, e := range w.evictions {
					if lost := e.Lost != 0; lost != tt.lost {
						t.Errorf("%+v", e)
					}
				}
			})
		})
	}
}

// TestWhatHasBegunToLeaveGoes: after a restart the job's steps, which have stopped, say
// that they want little time. The work is still far by that.
func TestWhatHasBegunToLeaveGoes(t *testing.T) {
	bubble(t, "c[1-4]", func(w *world) {
		s := newSite(w)
		cfg := w.rules("c[1-4]", "", ft.Drain)
		s.start(cfg, 0)
		id := w.begin(s.srun(1, step{hello: session.Hello{Cost: 10 * time.Minute}, takes: time.Second}))[0]
		time.Sleep(time.Minute)
		w.failing(func(cmd string) error {
			if strings.HasPrefix(cmd, "scontrol requeue") {
				return errors.New("slurmctld is busy")
			}
			return nil
		})
		w.work("c1", "e1", 20*time.Minute)
		time.Sleep(10 * time.Second)
		w.die()
		time.Sleep(5 * time.Second)
		s.start(cfg, 0) // for the journal to have what the step says of itself now
		time.Sleep(time.Minute)
		w.die()
		w.failing(nil)
		s.start(cfg, 0)
		w.again(20*time.Second, id, 1)
		w.closed(time.Minute)
	})
}
