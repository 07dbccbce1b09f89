package ft_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/ft"
	"github.com/burst-hpc/burst/slurm/directive"
	"github.com/burst-hpc/burst/slurm/slurmtest"
)

const script = "#!/bin/sh\n#BURST signal=USR1 grace=20s\nsrun app\n"

// leaves is a job that checkpoints on its signal and leaves a second later.
func leaves(w *world, nodes, code int) slurmtest.Job {
	return slurmtest.Job{Nodes: nodes, Requeue: true, Script: script, OnSignal: func(id uint32, _ string) {
		w.Leave(id, time.Second, code)
	}}
}

// stays is a job that checkpoints on its signal and runs on.
func stays(w *world) slurmtest.Job {
	return slurmtest.Job{Requeue: true, Script: script, OnSignal: func(id uint32, _ string) { w.Checkpoint(id) }}
}

// poolSignal are the rules of a pool with a signal of its own.
func poolSignal(string) (ft.Pool, bool) {
	return ft.Pool{Name: "p", Site: []directive.Layer{{Source: directive.Source{Kind: directive.Pool, Name: "p"},
		Settings: []directive.Setting{{Key: "signal", Value: "USR1"}, {Key: "grace", Value: "1m"}}}}}, true
}

// TestOneJob: one job, one notice.
func TestOneJob(t *testing.T) {
	tests := []struct {
		name     string
		cfg      ft.Config
		job      func(w *world) slurmtest.Job
		lead     time.Duration // of the notice; 2 min
		during   func(w *world, id uint32)
		atLeast  time.Duration // from the notice to the end of the run
		atMost   time.Duration
		state    string // in the end; RUNNING
		restarts int
		signals  []string
		comment  string
		outcome  string
	}{
		{name: "leaves with another code than 0", job: func(w *world) slurmtest.Job { return leaves(w, 1, 75) }, atLeast: time.Second, atMost: 3 * time.Second,
			restarts: 1, signals: []string{"USR1"}, comment: "burst: node c1 was taken back by the cloud; requeued", outcome: "requeued"},
		{name: "leaves with 0", job: func(w *world) slurmtest.Job { return leaves(w, 1, 0) }, atLeast: time.Second, atMost: 3 * time.Second,
			state: "COMPLETED", signals: []string{"USR1"}, outcome: "it finished in the grace time"},
		{name: "the grace is over", job: stays, atLeast: 20 * time.Second, atMost: 22 * time.Second, restarts: 1, signals: []string{"USR1"}},
		{name: "cancelled in the grace", job: stays, during: func(w *world, id uint32) { time.Sleep(5 * time.Second); w.Cancel(id) },
			atLeast: 5 * time.Second, atMost: 6 * time.Second, state: "CANCELLED", signals: []string{"USR1"}, outcome: "it ended meanwhile: CANCELLED"},
		{name: "an admin requeues it in the grace", job: stays, during: func(w *world, _ uint32) {
			time.Sleep(5 * time.Second)
			w.scontrol("requeue", "1")
		}, atLeast: 5 * time.Second, atMost: 6 * time.Second, restarts: 1, signals: []string{"USR1"}, outcome: "requeued"},
		{name: "names no signal", job: func(*world) slurmtest.Job { return slurmtest.Job{Requeue: true, Script: "#!/bin/sh\n"} },
			atMost: time.Second, restarts: 1, outcome: "requeued"},
		{name: "names no signal, and fails by itself", job: func(*world) slurmtest.Job { return slurmtest.Job{Requeue: true, Script: "#!/bin/sh\n"} },
			during: func(w *world, id uint32) { w.Exit(id, 1) }, atMost: time.Second, state: "FAILED", outcome: "it ended meanwhile: FAILED"},
		{name: "the site's default signal", cfg: ft.Config{Signal: "USR2", Grace: 7 * time.Second}, job: func(*world) slurmtest.Job { return slurmtest.Job{Requeue: true, Script: "#!/bin/sh\n"} },
			atLeast: 7 * time.Second, atMost: 9 * time.Second, restarts: 1, signals: []string{"USR2"}},
		{name: "directive in the comment", job: func(*world) slurmtest.Job {
			return slurmtest.Job{Requeue: true, Script: "#!/bin/sh\n", Comment: "burst: signal=B:USR2 grace=5s"}
		}, atLeast: 5 * time.Second, atMost: 7 * time.Second, restarts: 1, signals: []string{"USR2"}},
		{name: "another method, and no session", cfg: ft.Config{Signal: "USR2"}, job: func(*world) slurmtest.Job {
			return slurmtest.Job{Requeue: true, Script: "#!/bin/sh\n#BURST ckpt=dmtcp\n"}
		}, atMost: time.Second, restarts: 1, outcome: "requeued"},
		{name: "the comment is over the script, key by key", job: func(*world) slurmtest.Job {
			return slurmtest.Job{Requeue: true, Script: "#!/bin/sh\n#BURST signal=USR2 grace=5s\n", Comment: "burst: signal=USR1"}
		}, atLeast: 5 * time.Second, atMost: 7 * time.Second, restarts: 1, signals: []string{"USR1"}},
		{name: "the pool's signal, the job's grace", cfg: ft.Config{Signal: "USR2", Pools: poolSignal}, job: func(*world) slurmtest.Job {
			return slurmtest.Job{Requeue: true, Script: "#!/bin/sh\n#BURST grace=7s\n"}
		}, atLeast: 7 * time.Second, atMost: 9 * time.Second, restarts: 1, signals: []string{"USR1"}},
		{name: "the method signal, and no session", cfg: ft.Config{Signal: "USR2", Grace: 7 * time.Second}, job: func(*world) slurmtest.Job {
			return slurmtest.Job{Requeue: true, Script: "#!/bin/sh\n#BURST ckpt=signal strategy=both\n"}
		}, atLeast: 7 * time.Second, atMost: 9 * time.Second, restarts: 1, signals: []string{"USR2"}},
		{name: "wrong directive", cfg: ft.Config{Signal: "USR2", Grace: time.Second}, job: func(*world) slurmtest.Job {
			return slurmtest.Job{Requeue: true, Script: "#!/bin/sh\n#BURST signal=FOO\n"}
		}, atLeast: time.Second, atMost: 3 * time.Second, restarts: 1, signals: []string{"USR2"}, comment: `line 2: #BURST signal: "FOO"`},
		{name: "the deadline is nearer than the grace", job: stays, lead: 15 * time.Second, atLeast: 9 * time.Second, atMost: 11 * time.Second, restarts: 1, signals: []string{"USR1"}},
		{name: "the deadline is past", job: stays, lead: -time.Second, atMost: 2 * time.Second, restarts: 1},
		{name: "not requeueable", job: func(*world) slurmtest.Job { return slurmtest.Job{Script: script} }, lead: time.Minute, atLeast: 59 * time.Second, atMost: 62 * time.Second,
			state: "NODE_FAIL", signals: []string{"USR1"}, comment: "cannot be requeued", outcome: "cannot be requeued"},
		{name: "not requeueable, and the site's default signal", cfg: ft.Config{Signal: "USR2"}, job: func(w *world) slurmtest.Job {
			return slurmtest.Job{Script: "#!/bin/sh\n", OnSignal: func(_ uint32, s string) { w.Errorf("it gets %s", s) }}
		}, lead: time.Minute, atLeast: 59 * time.Second, atMost: 62 * time.Second, state: "NODE_FAIL", comment: "cannot be requeued", outcome: "cannot be requeued"},
		{name: "not requeueable, and its own signal", cfg: ft.Config{Signal: "USR2"}, job: func(*world) slurmtest.Job { return slurmtest.Job{Script: script} },
			lead: time.Minute, atLeast: 59 * time.Second, atMost: 62 * time.Second, state: "NODE_FAIL", signals: []string{"USR1"}, comment: "cannot be requeued", outcome: "cannot be requeued"},
		{name: "it wants none of the site's", cfg: ft.Config{Signal: "USR2"}, job: func(*world) slurmtest.Job {
			return slurmtest.Job{Requeue: true, Script: "#!/bin/sh\n#BURST ckpt=none\n"}
		}, atMost: 2 * time.Second, restarts: 1, signals: []string{}},
		{name: "not requeueable, and ends in time", job: func(w *world) slurmtest.Job { j := leaves(w, 1, 0); j.Requeue = false; return j },
			atLeast: time.Second, atMost: 3 * time.Second, state: "COMPLETED", signals: []string{"USR1"}, outcome: "it ended meanwhile: COMPLETED"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, "c[1-4]", func(w *world) {
				if tt.lead == 0 {
					tt.lead = 2 * time.Minute
				}
				if tt.state == "" {
					tt.state = "RUNNING"
				}
				id := w.begin(tt.job(w))[0]
				w.start(tt.cfg, 0)
				begun, told := w.info(id).Start, time.Now()
				if tt.lead > 0 {
					w.evict("c1", tt.lead)
				} else { // and yet it lives
					w.fake.Announce(cloud.Notice{Instance: w.instance("c1"), Kind: cloud.SpotInterruption, Deadline: time.Now().Add(tt.lead)})
				}
				if tt.during != nil {
					tt.during(w, id)
				}
				w.until(3*time.Minute, "the run ends", func() bool { i := w.info(id); return i.State != "RUNNING" || !i.Start.Equal(begun) })
				if took := time.Since(told); took < tt.atLeast || took > tt.atMost {
					t.Errorf("it ended %s after the notice, not %s to %s", took, tt.atLeast, tt.atMost)
				}
				w.until(time.Minute, "it is "+tt.state, func() bool { return w.info(id).State == tt.state })
				w.closed(3 * time.Minute)
				time.Sleep(5 * time.Minute) // nothing more may come
				i := w.info(id)
				if i.ID != 0 && (i.State != tt.state || i.Restarts != tt.restarts) {
					t.Errorf("in the end it is %s with %d restarts, want %s with %d", i.State, i.Restarts, tt.state, tt.restarts)
				}
				if i.ID != 0 && tt.signals != nil && !slices.Equal(i.Signals, tt.signals) {
					t.Errorf("signals %v, want %v", i.Signals, tt.signals)
				}
				if i.ID != 0 && !strings.Contains(i.AdminComment, tt.comment) {
					t.Errorf("its user is told %q, want %q", i.AdminComment, tt.comment)
				}
				w.mu.Lock()
				defer w.mu.Unlock()
				for _, e := range w.evictions {
					if e.Stage != ft.Done || !strings.Contains(e.Outcome, tt.outcome) {
						t.Errorf("the journal has %+v, want %q", e, tt.outcome)
					}
				}
			})
		})
	}
}

func (w *world) scontrol(args ...string) {
	w.Helper()
	if _, errOut, err := w.Controller.Run(w.Context(), "scontrol", args...); err != nil {
		w.Errorf("scontrol %q: %v: %s", args, err, errOut)
	}
}

func TestAConfiguringJobIsRequeuedAtOnce(t *testing.T) {
	bubble(t, "c[1-4]", func(w *world) {
		w.boot = 20 * time.Second
		w.start(ft.Config{Signal: "USR1"}, 0)
		id := w.Submit(slurmtest.Job{Nodes: 2, Requeue: true, Script: script})
		w.until(10*time.Second, "instances", func() bool { w.mu.Lock(); defer w.mu.Unlock(); return len(w.nodes) == 2 })
		w.evict("c1", 2*time.Minute)
		w.until(3*time.Second, "the job is requeued", func() bool { return w.info(id).Restarts == 1 })
		w.again(time.Minute, id, 1)
		if i := w.info(id); len(i.Signals) > 0 || slices.Contains(i.Nodes, "c1") {
			t.Errorf("%+v", i)
		}
		w.closed(time.Minute)
	})
}

// TestNoticesForNodesOfOneJob: it is signalled and requeued once, however many
// of its nodes go, at once or one after the other.
func TestNoticesForNodesOfOneJob(t *testing.T) {
	for _, tt := range []struct {
		name  string
		nodes []string
		gap   time.Duration
		code  int // -1: the job stays to the end of its grace
	}{
		{"two at once", []string{"c1", "c2"}, 0, 75},
		{"two, 1 s apart", []string{"c1", "c2"}, time.Second, -1},
		{"two, 500 ms apart", []string{"c1", "c2"}, 500 * time.Millisecond, 75},
		{"all at once", []string{"c1", "c2", "c3", "c4"}, 0, -1},
		{"all, and it finishes", []string{"c1", "c2", "c3", "c4"}, 100 * time.Millisecond, 0},
		{"all, 8 s apart", []string{"c1", "c2", "c3", "c4"}, 8 * time.Second, -1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, "c[1-8]", func(w *world) {
				job := leaves(w, 4, tt.code)
				if tt.code < 0 {
					job.OnSignal = nil
				}
				id := w.begin(job)[0]
				w.start(ft.Config{}, 0)
				told := time.Now()
				for _, n := range tt.nodes {
					if w.info(id).Restarts > 0 {
						break // it has left
					}
					w.evict(n, 2*time.Minute)
					time.Sleep(tt.gap)
				}
				restarts, state := 1, "RUNNING"
				if tt.code == 0 {
					restarts, state = 0, "COMPLETED"
				}
				w.until(time.Minute, "it is "+state, func() bool { i := w.info(id); return i.State == state && i.Restarts == restarts })
				if took := time.Since(told); took > 27*time.Second {
					t.Errorf("it took %s: the grace counts from the first signal", took)
				}
				w.closed(3 * time.Minute)
				i := w.info(id)
				if len(i.Signals) != 1 || i.Restarts != restarts {
					t.Errorf("signals %v, %d restarts\n%s", i.Signals, i.Restarts, w.story())
				}
				if n := w.Count("scontrol requeue"); n != restarts {
					t.Errorf("%d requeues were asked for", n)
				}
				if n := w.Count("scontrol write batch_script"); n != 1 {
					t.Errorf("its script was read %d times", n)
				}
			})
		})
	}
}
