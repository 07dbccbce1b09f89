package ft_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/ft"
	"github.com/burst-hpc/burst/slurm/slurmtest"
)

// work plans a maintenance of a node's instance in so long.
func (w *world) work(node, event string, in time.Duration) cloud.Notice {
	n := cloud.Notice{Instance: w.instance(node), Kind: cloud.Maintenance, Deadline: time.Now().Add(in), Action: "system-reboot", Event: event}
	w.fake.Announce(n)
	return n
}

func (w *world) cancelled(n cloud.Notice) {
	n.Cancelled = true
	w.fake.Announce(n)
}

func TestMaintenance(t *testing.T) {
	const drained, off = "ALLOCATED+CLOUD+DRAIN", "IDLE+CLOUD+POWERED_DOWN"
	for _, tt := range []struct {
		name, rule string
		in         time.Duration
		during     func(w *world, id uint32) // after 5 s
		state      string                    // of c1 20 s after that
		reserved   bool                      // then
		restarts   int                       // in the end, after the work
	}{
		{name: "ignored", rule: ft.Ignore, in: time.Minute, state: "ALLOCATED+CLOUD"},
		{name: "the job goes on", rule: ft.Drain, in: time.Hour, state: drained, restarts: 1},
		{name: "the job ends in time", rule: ft.Drain, in: time.Hour, during: func(w *world, id uint32) { w.Exit(id, 0) }, state: off},
		{name: "the job is moved in time", rule: ft.Drain, in: 70 * time.Second, state: off, restarts: 1},
		{name: "it begins now", rule: ft.Drain, in: time.Second, state: off, restarts: 1},
		{name: "no deadline", rule: ft.Drain, in: -1, state: drained},
		{name: "reserved", rule: ft.Reserve, in: time.Hour, state: "ALLOCATED+CLOUD", reserved: true, restarts: 1},
		{name: "reserved, and begins now", rule: ft.Reserve, in: time.Second, state: off, restarts: 1},
		{name: "reserved, no deadline", rule: ft.Reserve, in: -1, state: drained},
		{name: "an interruption comes first", rule: ft.Drain, in: time.Hour, during: func(w *world, _ uint32) { w.evict("c1", 30*time.Second) },
			state: off, restarts: 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, "c[1-4]", func(w *world) {
				id := w.begin(leaves(w, 1, 75))[0]
				w.start(w.rules("c[1-4]", "", tt.rule), 0)
				if tt.in < 0 {
					w.fake.Announce(cloud.Notice{Instance: w.instance("c1"), Kind: cloud.Maintenance})
				} else {
					w.work("c1", "e1", tt.in)
				}
				time.Sleep(5 * time.Second)
				if tt.during != nil {
					tt.during(w, id)
				}
				time.Sleep(40 * time.Second)
				if got := w.Node("c1"); got != tt.state {
					t.Errorf("the node is %s, not %s\n%s", got, tt.state, w.story())
				}
				if _, ok := w.Reservations()["burst-"+w.first("c1")]; ok != tt.reserved {
					t.Errorf("reservations: %v", w.Reservations())
				}
				if tt.in < 0 {
					return // it waits
				}
				time.Sleep(2 * time.Hour)
				w.closed(time.Second)
				if i := w.info(id); i.ID != 0 && i.Restarts != tt.restarts || len(w.Reservations()) > 0 {
					t.Errorf("%+v, reservations %v\n%s", i, w.Reservations(), w.story())
				}
			})
		})
	}
}

// first is the id of a node's first instance.
func (w *world) first(node string) string { return fmt.Sprintf("i-%s-1", node) }

// TestAReservationKeepsLongJobsOff, and lets short ones in.
func TestAReservationKeepsLongJobsOff(t *testing.T) {
	bubble(t, "c1", func(w *world) {
		first := w.begin(slurmtest.Job{Duration: time.Minute})[0]
		w.start(w.rules("c1", "", ft.Reserve), 0)
		n := w.work("c1", "e1", time.Hour)
		w.until(2*time.Minute, "the first ends", func() bool { return w.info(first).State == "COMPLETED" })
		long := w.Submit(slurmtest.Job{Duration: 2 * time.Hour})
		w.begin(slurmtest.Job{Duration: 10 * time.Minute})
		if i := w.info(long); i.State != "PENDING" {
			t.Errorf("%+v", i)
		}
		w.cancelled(n)
		w.until(20*time.Minute, "the long one runs", func() bool { return w.info(long).State == "RUNNING" })
		w.closed(time.Minute)
	})
}

// TestAReservationWhoseJournalIsLost blocks its node for a day at most.
func TestAReservationWhoseJournalIsLost(t *testing.T) {
	bubble(t, "c1", func(w *world) {
		w.begin(slurmtest.Job{Duration: time.Minute})
		cfg := w.rules("c1", "", ft.Reserve)
		w.start(cfg, 0)
		w.work("c1", "e1", time.Hour)
		w.until(10*time.Second, "it is reserved", func() bool { return len(w.Reservations()) == 1 })
		w.die()
		clear(w.notices)
		clear(w.records)
		w.start(cfg, 0)
		time.Sleep(24 * time.Hour)
		id := w.Submit(slurmtest.Job{})
		w.until(2*time.Hour, "a job of any length runs", func() bool { return w.info(id).State == "RUNNING" })
	})
}

// TestACancelledMaintenanceIsUndone: at once, after a restart, before anything
// was done, and what is not ours stays.
func TestACancelledMaintenanceIsUndone(t *testing.T) {
	for _, rule := range []string{ft.Drain, ft.Reserve} {
		for _, tt := range []struct {
			name   string
			away   bool // the guard is, when it is cancelled
			before bool // it hears first that it is cancelled
			admin  bool // has drained the node
			state  string
		}{
			{name: "at once", state: "ALLOCATED+CLOUD"},
			{name: "while the guard is away", away: true, state: "ALLOCATED+CLOUD"},
			{name: "before it is announced", before: true, state: "ALLOCATED+CLOUD"},
			{name: "an admin has drained it", admin: true, state: "ALLOCATED+CLOUD+DRAIN"},
		} {
			t.Run(rule+", "+tt.name, func(t *testing.T) {
				bubble(t, "c[1-4]", func(w *world) {
					id := w.begin(stays(w))[0]
					cfg := w.rules("c[1-4]", "", rule)
					if tt.admin {
						w.scontrol("update", "nodename=c1", "state=drain", "reason=disk")
					}
					l := w.start(cfg, 0)
					n := cloud.Notice{Instance: w.instance("c1"), Kind: cloud.Maintenance, Deadline: time.Now().Add(time.Hour), Event: "e1", Received: time.Now()}
					gone := n
					gone.Cancelled = true
					if tt.before {
						n, gone = gone, n
					}
					hear := func(n cloud.Notice) {
						if err := l.guard.Hear(w.ctx, "fake", n); err != nil {
							t.Error(err)
						}
						time.Sleep(5 * time.Second)
					}
					hear(n)
					if tt.away { // it is heard, and the guard dies of it
						w.die()
						if _, err := (journal{&life{w: w}}).AddNotice(w.ctx, "fake", gone); err != nil {
							t.Error(err)
						}
						w.start(cfg, 0)
					} else {
						hear(gone)
					}
					w.closed(20 * time.Second)
					time.Sleep(2 * time.Second)
					if i := w.info(id); w.Node("c1") != tt.state || i.Restarts > 0 || len(i.Signals) > 0 || len(w.Reservations()) > 0 {
						t.Errorf("node %s, reservations %v, job %+v\n%s", w.Node("c1"), w.Reservations(), i, w.story())
					}
					if tt.before && w.Count("scontrol update") > 0 {
						t.Error("something was done for what will not be")
					}
					if tt.admin || tt.away || rule == ft.Reserve {
						return
					}
					gone.Cancelled, gone.Event = false, "e2" // another one
					hear(gone)
					if w.Node("c1") != "ALLOCATED+CLOUD+DRAIN" {
						t.Errorf("a new event does not open the key: %s", w.Node("c1"))
					}
				})
			})
		}
	}
}

// TestOfTwoEventsOneIsCancelled: the other holds, whichever was the sooner; when
// both are cancelled all is undone.
func TestOfTwoEventsOneIsCancelled(t *testing.T) {
	for _, first := range []string{"soon", "late"} {
		bubble(t, "c[1-4]", func(w *world) {
			id := w.begin(stays(w))[0]
			w.start(w.rules("c[1-4]", "", ft.Reserve), 0)
			w.work("c1", "x", time.Minute*90)
			events := map[string]cloud.Notice{"soon": w.work("c1", "soon", time.Hour), "late": w.work("c1", "late", 2*time.Hour)}
			w.cancelled(w.work("c1", "x", time.Minute*90))
			time.Sleep(5 * time.Second)
			gone := events[first]
			delete(events, first)
			w.cancelled(gone)
			time.Sleep(5 * time.Second)
			for _, left := range events {
				if r, ok := w.Reservations()["burst-i-c1-1"]; !ok || r.Start.Unix() != left.Deadline.Unix() {
					t.Errorf("%s cancelled: reservations %v, want one from %s on\n%s", first, w.Reservations(), left.Deadline, w.story())
				}
				w.cancelled(left)
			}
			w.closed(20 * time.Second)
			if i := w.info(id); len(w.Reservations()) > 0 || i.Restarts > 0 || w.Node("c1") != "ALLOCATED+CLOUD" {
				t.Errorf("%v, node %s", w.Reservations(), w.Node("c1"))
			}
		})
	}
}

// TestTheReasonSaysWhatAndWhen, for the admin who finds a drained node.
func TestTheReasonSaysWhatAndWhen(t *testing.T) {
	bubble(t, "c[1-4]", func(w *world) {
		w.begin(stays(w))
		w.start(w.rules("c[1-4]", "", ft.Drain), 0)
		w.work("c1", "e1", time.Hour)
		time.Sleep(time.Second)
		for _, c := range w.Calls() {
			if line := strings.Join(c.Args, " "); strings.Contains(line, "state=drain") &&
				strings.Contains(line, "reason=burst: maintenance (system-reboot): work begins at 2000-01-01 01:00:") && strings.Contains(line, "i-c1-1") {
				return
			}
		}
		t.Error(w.story())
	})
}

// TestAMaintenanceAtEveryPoint: reserved, cancelled, and all is undone.
func TestAMaintenanceAtEveryPoint(t *testing.T) {
	for _, rule := range []string{ft.Drain, ft.Reserve} {
		play := func(t *testing.T, at int) (points []string) {
			bubble(t, "c[1-4]", func(w *world) {
				id := w.begin(stays(w))[0]
				cfg := w.rules("c[1-4]", "", rule)
				l := w.start(cfg, at)
				n := w.work("c1", "e1", time.Hour)
				for i := range 2 {
					for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
						if l.isDead() {
							w.die()
							time.Sleep(time.Second)
							l = w.start(cfg, 0)
						}
					}
					if i == 0 {
						w.cancelled(n)
					}
				}
				points = l.points
				w.closed(time.Second)
				if i := w.info(id); w.Node("c1") != "ALLOCATED+CLOUD" || i.Restarts > 0 || len(w.Reservations()) > 0 {
					t.Errorf("node %s, reservations %v\n%s", w.Node("c1"), w.Reservations(), w.story())
				}
			})
			return points
		}
		points := play(t, 0)
		for i, p := range points {
			t.Run(fmt.Sprintf("%s %d %s", rule, i+1, p), func(t *testing.T) { play(t, i+1) })
		}
	}
}
