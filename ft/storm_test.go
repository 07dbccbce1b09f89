package ft_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/burst-hpc/burst/ft"
	"github.com/burst-hpc/burst/slurm/slurmtest"
)

// TestStorm: 200 notices for 60 jobs, a few of which go sooner than the rest.
func TestStorm(t *testing.T) {
	bubble(t, "c[1-400]", func(w *world) {
		var jobs []slurmtest.Job
		for i := range 60 {
			nodes := 3
			if i%3 == 0 {
				nodes = 4
			}
			jobs = append(jobs, slurmtest.Job{Nodes: nodes, Requeue: true, Script: strings.Replace(script, "20s", "40s", 1)})
		}
		ids := w.begin(jobs...)
		w.failing(func(cmd string) error { // what a busy slurmctld takes
			if strings.HasPrefix(cmd, "squeue") || strings.Contains(cmd, " show ") {
				return &slurmtest.Fault{Delay: 50 * time.Millisecond}
			}
			return &slurmtest.Fault{Delay: 300 * time.Millisecond}
		})
		w.start(ft.Config{Parallel: 16}, 0)
		told, n := time.Now(), 0
		for k, id := range ids {
			lead := 110 * time.Second
			if k >= 55 { // last of all
				lead = 20 * time.Second
			}
			for _, node := range w.info(id).Nodes {
				w.evict(node, lead)
				n++
			}
		}
		signalled := func(ids []uint32) func() bool {
			return func() bool {
				return !slices.ContainsFunc(ids, func(id uint32) bool { return len(w.info(id).Signals) == 0 })
			}
		}
		w.until(12*time.Second, "the urgent ones are signalled", signalled(ids[55:]))
		w.until(30*time.Second, "all are signalled", signalled(ids))
		w.until(3*time.Minute, "all run again", func() bool {
			return !slices.ContainsFunc(ids, func(id uint32) bool { i := w.info(id); return i.State != "RUNNING" || i.Restarts != 1 })
		})
		t.Logf("%d notices: all run again after %s, %d commands at most at once, %d in all", n, time.Since(told), w.most, len(w.Calls()))
		w.closed(time.Minute)
		time.Sleep(5 * time.Minute)
		for _, id := range ids {
			if i := w.info(id); i.Restarts != 1 || len(i.Signals) != 1 {
				t.Errorf("job %d: %d restarts, signals %v", id, i.Restarts, i.Signals)
			}
		}
		if w.most > 16+2 { // and one reading
			t.Errorf("%d commands at once", w.most)
		}
	})
}

// TestDeathAtEveryPoint: a guard that dies before or after any commit, command
// or call, and the next one, cost the job no more than a second signal.
func TestDeathAtEveryPoint(t *testing.T) {
	for _, tt := range []struct {
		name string
		code int // -1: stays
		away time.Duration
	}{
		{"it leaves", 75, 3 * time.Second},
		{"it stays", -1, 3 * time.Second},
		{"it leaves, the guard is away for a minute", 75, time.Minute},
	} {
		play := func(t *testing.T, at int) (points []string) {
			bubble(t, "c[1-6]", func(w *world) {
				job := leaves(w, 2, tt.code)
				if tt.code < 0 {
					job.OnSignal = nil
				}
				id := w.begin(job)[0]
				l := w.start(ft.Config{}, at)
				w.evict("c1", 2*time.Minute)
				w.evict("c2", 2*time.Minute)
				for end := time.Now().Add(150 * time.Second); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
					if l.isDead() {
						w.die()
						time.Sleep(tt.away)
						l = w.start(ft.Config{}, 0)
					}
				}
				points = l.points
				w.again(time.Second, id, 1)
				w.closed(time.Second)
				i := w.info(id)
				if n := len(i.Signals); n < 1 || n > 2 {
					t.Errorf("signals %v\n%s", i.Signals, w.story())
				}
				if n := w.count("requeue"); n < 1 || n > 2 {
					t.Errorf("%d events say that it was requeued", n)
				}
			})
			return points
		}
		t.Run(tt.name, func(t *testing.T) {
			points := play(t, 0)
			tried, looks := 0, 0
			for i, p := range points {
				looks++
				if !strings.Contains(p, "squeue") && !strings.Contains(p, " show") {
					looks = 0
				}
				if looks > 4 {
					continue // one of many
				}
				if testing.Short() && i%36 > 0 {
					continue
				}
				tried++
				t.Run(fmt.Sprintf("%d %s", i+1, p), func(t *testing.T) { play(t, i+1) })
			}
			t.Logf("%d points, %d tried", len(points), tried)
		})
	}
}
