package ft_test

import (
	"strings"
	"testing"
	"time"

	"github.com/burst-hpc/burst/ft"
	"github.com/burst-hpc/burst/slurm"
)

// TestARequeueThatSlurmForgets: a slurmctld that is killed comes back with what
// it had saved before: the job runs on, and has to be requeued once more.
func TestARequeueThatSlurmForgets(t *testing.T) {
	bubble(t, "c[1-4]", func(w *world) {
		id := w.begin(stays(w))[0]
		var lost, until time.Time
		w.rewrite = func(s *slurm.Snapshot) {
			j := s.Jobs[id]
			if lost.IsZero() && j.Restarts == 1 && w.journalHas(ft.Requeued) {
				lost, until = time.Now(), time.Now().Add(3*time.Second)
			}
			if time.Now().Before(until) {
				j.State, j.Restarts, j.Nodes = "RUNNING", 0, "c1"
				s.Jobs[id] = j
			}
		}
		w.failing(func(cmd string) error { // the job is still there when we look again
			if strings.HasPrefix(cmd, "scontrol update jobid=1 starttime") && time.Now().Before(until) {
				w.Error("its hold is cleared while it runs")
			}
			return nil
		})
		w.start(ft.Config{}, 0)
		w.evict("c1", 2*time.Minute)
		w.again(40*time.Second, id, 1)
		w.closed(time.Minute)
		if lost.IsZero() {
			t.Error("the test did not happen")
		}
		for _, e := range w.evictions {
			if e.Ended.Before(until) || e.Outcome != "requeued" {
				t.Errorf("closed while it still ran: %+v", e)
			}
		}
	})
}

// journalHas says whether an eviction has reached the stage; the world is locked.
func (w *world) journalHas(s ft.Stage) bool {
	for _, e := range w.evictions {
		if e.Stage == s {
			return true
		}
	}
	return false
}

// TestAReleaseThatSlurmForgets: a slurmctld that is killed comes back with the job in
// the queue and held for two minutes, as after its requeue: the hold is cleared once
// more, and the user is told again. What a user puts off stays put off.
func TestAReleaseThatSlurmForgets(t *testing.T) {
	for _, c := range []struct {
		forgets bool
		start   time.Duration // from now
		comment string        // that the job has then; ours: as it is
	}{
		{true, 2 * time.Minute, ""}, {true, time.Minute, "another's, which was saved"}, {true, time.Hour, ""}, // by cred_expire
		{false, 2 * time.Minute, "ours"}, {false, time.Hour, "another's, in the place of ours"},
	} {
		bubble(t, "c1", func(w *world) { // which is not up again before slurmctld dies
			id := w.begin(stays(w))[0]
			w.start(ft.Config{}, 0)
			w.evict("c1", 2*time.Minute)
			const cleared, told = "scontrol update jobid=1 starttime=", "scontrol update jobid=1 admincomment="
			w.until(30*time.Second, "its hold is cleared", func() bool { return w.Count(told) == 1 })
			before := w.Count(cleared)
			again := []string{"update", "jobid=1", "starttime=" + time.Now().Add(c.start).Format("2006-01-02T15:04:05")}
			if c.comment != "ours" {
				again = append(again, "admincomment="+c.comment)
			}
			if _, stderr, err := w.Controller.Run(t.Context(), "scontrol", again...); err != nil {
				t.Fatalf("%v: %s", err, stderr)
			}
			if !c.forgets {
				w.closed(time.Minute)
				if n := w.Count(cleared) - before; n != 1 { // ours
					t.Errorf("what its user has put off was changed %d times", n-1)
				}
				return
			}
			w.again(time.Minute, id, 1)
			w.closed(time.Minute)
			if c := w.info(id).AdminComment; !strings.HasPrefix(c, "burst: node c1 was taken back") {
				t.Errorf("its user is told %q", c)
			}
		})
	}
}

// TestAStartThatSlurmForgets: a slurmctld that was killed while the job began
// has it in the queue, as it was before that attempt: its hold is cleared all
// the same.
func TestAStartThatSlurmForgets(t *testing.T) {
	bubble(t, "c[1-4]", func(w *world) {
		id := w.begin(stays(w))[0]
		over := false
		w.rewrite = func(s *slurm.Snapshot) { // the attempt counts as the first after a requeue, until it ends
			j := s.Jobs[id]
			if over = over || j.State != "RUNNING"; !over {
				j.Restarts = 1
				s.Jobs[id] = j
			}
		}
		w.start(ft.Config{}, 0)
		w.evict("c1", 2*time.Minute)
		w.again(40*time.Second, id, 1)
		w.closed(time.Minute)
	})
}
