package ft_test

import (
	"strings"
	"testing"
	"time"

	"github.com/burst-hpc/burst/ft"
	"github.com/burst-hpc/burst/slurm"
)

// TestARequeueIsForgottenAfterItsEnd: a slurmctld that is killed within seconds
// of a job's release has nothing of it on disk. It comes back with the attempt
// that was evicted, which ends, or has ended.
func TestARequeueIsForgottenAfterItsEnd(t *testing.T) {
	for _, state := range []string{"RUNNING", "FAILED", "COMPLETED"} {
		for _, dies := range []bool{false, true} {
			bubble(t, "c[1-4]", func(w *world) {
				id := w.begin(leaves(w, 1, 75))[0]
				var released time.Time
				requeues := 0
				w.rewrite = func(s *slurm.Snapshot) {
					if j := s.Jobs[id]; requeues == 1 && !released.IsZero() && time.Since(released) > 3*time.Second {
						j.State, j.Restarts, j.Nodes, j.ExitCode = state, 0, "c1", 75
						s.Jobs[id] = j
						w.nodes["i-c1-1"] = "c1" // nobody was told to end it
					}
				}
				w.failing(func(cmd string) error {
					w.mu.Lock()
					defer w.mu.Unlock()
					switch {
					case strings.HasPrefix(cmd, "scontrol requeue"):
						requeues++
					case strings.HasPrefix(cmd, "scontrol update jobid=1 starttime"):
						released = time.Now()
					}
					return nil
				})
				w.start(ft.Config{}, 0)
				w.evict("c1", 2*time.Minute)
				w.until(time.Minute, "its hold is cleared", func() bool {
					w.mu.Lock()
					defer w.mu.Unlock()
					return !released.IsZero()
				})
				if dies {
					w.die()
					time.Sleep(time.Minute)
					w.start(ft.Config{}, 0)
				}
				w.closed(time.Minute)
				want, outcome := 2, "requeued"
				if state == "COMPLETED" { // it has ended well after all
					want, outcome = 1, "it finished in the grace time"
				}
				for _, e := range w.evictions {
					if e.Outcome != outcome && e.Outcome != "it has been restarted since" {
						t.Errorf("%s: %s", state, e.Outcome)
					}
				}
				drains := 0
				for _, c := range w.Calls() {
					if strings.Contains(strings.Join(c.Args, " "), "state=power_down_asap") {
						drains++
					}
				}
				if drains < want {
					t.Errorf("%s: the node's drain is forgotten too, and is not made again", state)
				}
				if requeues != want || len(w.info(id).Signals) > 2 {
					t.Errorf("%s: %d requeues, want %d; signals %v\n%s", state, requeues, want, w.info(id).Signals, w.story())
				}
			})
		}
	}
}
