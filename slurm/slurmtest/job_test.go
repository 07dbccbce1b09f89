package slurmtest_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/burst-hpc/burst/slurm/slurmtest"
)

func TestJobEnds(t *testing.T) {
	tests := []struct {
		name   string
		job    slurmtest.Job
		act    func(w *world, id uint32) // while it runs
		state  string
		reason string
		code   int
	}{
		{"work done", slurmtest.Job{Duration: time.Minute}, nil, "COMPLETED", "None", 0},
		{"work done, code 3", slurmtest.Job{Duration: time.Minute, ExitCode: 3}, nil, "FAILED", "NonZeroExitCode", 3},
		{"exit", slurmtest.Job{}, func(w *world, id uint32) { w.Exit(id, 0) }, "COMPLETED", "None", 0},
		{"exit 7", slurmtest.Job{}, func(w *world, id uint32) { w.Exit(id, 7) }, "FAILED", "NonZeroExitCode", 7},
		{"leaves with 75", slurmtest.Job{}, func(w *world, id uint32) { w.Leave(id, time.Second, 75) }, "FAILED", "NonZeroExitCode", 75},
		{"cancel", slurmtest.Job{}, func(w *world, id uint32) { w.Cancel(id) }, "CANCELLED", "None", 0},
		{"scancel", slurmtest.Job{}, func(w *world, id uint32) { w.must("scancel 1") }, "CANCELLED", "None", 0},
		{"requeue, then scancel", slurmtest.Job{Requeue: true}, func(w *world, id uint32) {
			w.must("scontrol requeue 1")
			w.must("scancel 1")
		}, "CANCELLED", "None", 0},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			bubble(t, slurmtest.Options{}, func(w *world) {
				id := w.Submit(test.job)
				w.pass(10 * time.Second)
				if test.act != nil {
					test.act(w, id)
					w.wantNodes(leaving)
				}
				w.pass(time.Minute)
				j, _ := w.Info(id)
				if j.State != test.state || j.Reason != test.reason || j.ExitCode != test.code {
					t.Errorf("%+v", j)
				}
				w.wantNodes(idle)
			})
		})
	}
}

func TestQueue(t *testing.T) {
	bubble(t, slurmtest.Options{OnPrem: []string{"o1"}}, func(w *world) {
		first := w.Submit(slurmtest.Job{Nodes: 2, Duration: time.Minute})
		second := w.Submit(slurmtest.Job{Nodes: 2, Duration: time.Minute})
		small := w.Submit(slurmtest.Job{Duration: time.Minute})
		local := w.Submit(slurmtest.Job{Partition: "onprem", Duration: time.Minute})
		w.pass(10 * time.Second)
		w.wantJob(first, "RUNNING", "None", 0)
		w.wantJob(second, "PENDING", "Resources", 0)
		w.wantJob(small, "RUNNING", "None", 0)
		w.wantJob(local, "RUNNING", "None", 0)
		w.pass(2 * time.Minute)
		w.wantJob(second, "COMPLETED", "None", 0)
		for _, id := range []uint32{first, small} {
			w.wantJob(id, "COMPLETED", "None", 0)
		}
	})
}

func TestUngated(t *testing.T) {
	bubble(t, slurmtest.Options{Ungated: true}, func(w *world) {
		id := w.Submit(slurmtest.Job{})
		w.pass(29 * time.Second)
		w.wantNodes(allocated)
		w.wantJob(id, "CONFIGURING", "None", 0)
		w.pass(2 * time.Second)
		w.wantJob(id, "RUNNING", "None", 0)
	})
}

// TestEviction takes one of two nodes from a running job in the ways that Burst uses.
func TestEviction(t *testing.T) {
	tests := []struct {
		name  string
		lines []string
		after string // the node's state then
	}{
		{"power_down_asap, requeue", []string{"scontrol update nodename=c2 state=power_down_asap reason=evicted", "scontrol requeue 1"},
			"IDLE+CLOUD+COMPLETING+DRAIN+POWER_DOWN"},
		{"power_down_force", []string{"scontrol update nodename=c2 state=power_down_force reason=evicted"}, "IDLE+CLOUD+COMPLETING+POWER_DOWN"},
		{"drain, requeue", []string{"scontrol update nodename=c2 state=drain reason=evicted", "scontrol requeue 1"}, "IDLE+CLOUD+COMPLETING+DRAIN"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			bubble(t, slurmtest.Options{}, func(w *world) {
				id := w.Submit(slurmtest.Job{Nodes: 2, Requeue: true})
				w.pass(10 * time.Second)
				for _, line := range test.lines {
					w.must(line)
				}
				w.wantNodes(leaving, test.after)
				w.wantJob(id, "COMPLETING", "None", 1)
				w.must("scontrol update jobid=1 starttime=now") // too early: accepted and forgotten
				w.pass(time.Second)
				w.wantJob(id, "PENDING", "BeginTime", 1)
				w.must("scontrol update jobid=1 starttime=now")
				w.pass(6 * time.Second)
				w.wantJob(id, "RUNNING", "None", 1)
				if j, _ := w.Info(id); !slices.Equal(j.Nodes, []string{"c1", "c3"}) {
					t.Errorf("the job runs on %v", j.Nodes)
				}
				if _, stderr, err := w.run("scontrol update jobid=1 starttime=now"); err == nil || stderr != "Job is no longer pending execution for job 1\n" {
					t.Errorf("too late: %v: %s", err, stderr)
				}
			})
		})
	}
}

func TestHold(t *testing.T) {
	bubble(t, slurmtest.Options{Hold: time.Minute}, func(w *world) {
		id := w.Submit(slurmtest.Job{Requeue: true})
		w.pass(2 * time.Second)
		w.wantJob(id, "CONFIGURING", "None", 0)
		w.must("scontrol update nodename=c1 state=power_down_force")
		// Nothing completes, and slurmctld has not looked at the job: it is held
		// without saying so.
		w.wantJob(id, "PENDING", "None", 1)
		if j, _ := w.Info(id); time.Until(j.Begin) != time.Minute {
			t.Errorf("held for %s", time.Until(j.Begin))
		}
		w.pass(time.Second)
		w.wantJob(id, "PENDING", "BeginTime", 1)
		w.pass(58 * time.Second)
		w.wantJob(id, "PENDING", "BeginTime", 1)
		w.pass(6 * time.Second)
		w.wantJob(id, "RUNNING", "None", 1)
	})
}

// TestSeveralPartitions: a job starts in the first of its partitions that has room, and waits for all of them.
func TestSeveralPartitions(t *testing.T) {
	bubble(t, slurmtest.Options{OnPrem: []string{"o1"}, Nodes: []string{"c1"}}, func(w *world) {
		shown := func(id uint32, want string) {
			t.Helper()
			snap, err := w.client.Snapshot(t.Context())
			if err != nil || snap.Jobs[id].Partition != want {
				t.Errorf("job %d is shown in %q, want %q: %v", id, snap.Jobs[id].Partition, want, err)
			}
		}
		first := w.Submit(slurmtest.Job{Partition: "onprem,cloud", Duration: time.Minute})
		second := w.Submit(slurmtest.Job{Partition: "onprem,cloud", Duration: time.Hour})
		third := w.Submit(slurmtest.Job{Partition: "cloud,onprem", Duration: time.Minute})
		w.pass(10 * time.Second)
		w.wantJob(first, "RUNNING", "None", 0)
		w.wantJob(second, "RUNNING", "None", 0)
		w.wantJob(third, "PENDING", "Resources", 0)
		shown(first, "onprem")
		shown(second, "cloud")
		shown(third, "cloud,onprem")
		w.pass(time.Minute)
		w.wantJob(third, "RUNNING", "None", 0)
		shown(third, "onprem")
	})
}

func TestStartTime(t *testing.T) {
	bubble(t, slurmtest.Options{}, func(w *world) {
		tests := []struct {
			value string
			start time.Duration // from now
		}{
			{"now", 0},
			{"uts" + unix(time.Now().Add(time.Hour)), time.Hour},
			{time.Now().Add(2 * time.Hour).Local().Format("2006-01-02T15:04:05"), 2 * time.Hour},
		}
		for _, test := range tests {
			id := w.Submit(slurmtest.Job{Partition: "none"})
			w.must("scontrol update jobid=" + unix(time.Unix(int64(id), 0)) + " starttime=" + test.value)
			if j, _ := w.Info(id); time.Until(j.Begin) != test.start {
				t.Errorf("starttime=%s is in %s", test.value, time.Until(j.Begin))
			}
		}
	})
}

func TestSignalAndCheckpoint(t *testing.T) {
	starts := 0
	bubble(t, slurmtest.Options{}, func(w *world) {
		id := w.Submit(slurmtest.Job{
			Requeue: true, Duration: 10 * time.Minute,
			OnStart: func(uint32, int) { starts++ },
			OnSignal: func(id uint32, signal string) {
				time.Sleep(300 * time.Millisecond)
				w.Checkpoint(id)
				w.Exit(id, 3)
			},
		})
		w.pass(4 * time.Minute)
		j, _ := w.Info(id)
		started := j.Start
		w.must("scancel --signal=SIGUSR1 --batch 1")
		w.pass(time.Second)
		w.wantJob(id, "FAILED", "NonZeroExitCode", 0)
		w.must("scontrol requeue 1")
		w.wantJob(id, "PENDING", "None", 1)
		w.must("scontrol update jobid=1 starttime=now")
		w.pass(time.Second)
		w.wantJob(id, "RUNNING", "None", 1)
		saved := 4*time.Minute + 300*time.Millisecond - started.Sub(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC))
		j, _ = w.Info(id)
		if !slices.Equal(j.Signals, []string{"USR1"}) || starts != 2 {
			t.Errorf("signals %v, started %d times", j.Signals, starts)
		}
		w.pass(10*time.Minute - saved - time.Second)
		w.wantJob(id, "RUNNING", "None", 1)
		w.pass(2 * time.Second)
		w.wantJob(id, "COMPLETED", "None", 1)
	})
}

// TestDeadNode fences a node whose slurmd died without slurmctld's knowledge.
func TestDeadNode(t *testing.T) {
	bubble(t, slurmtest.Options{SlurmdTimeout: 20 * time.Second}, func(w *world) {
		id := w.Submit(slurmtest.Job{Nodes: 2, Requeue: true})
		w.pass(10 * time.Second)
		w.Lost("c2")
		w.must("scontrol update nodename=c2 state=power_down_force")
		w.pass(15 * time.Second)
		w.wantNodes(idle, "IDLE+CLOUD+COMPLETING+POWER_DOWN")
		w.wantJob(id, "COMPLETING", "None", 1) // power_down_force alone waits for SlurmdTimeout
		w.must("scontrol update nodename=c2 state=down reason=dead")
		w.wantJob(id, "PENDING", "None", 1)
		w.pass(time.Second)
		w.wantNodes(idle, goingDown)
	})
	bubble(t, slurmtest.Options{SlurmdTimeout: 20 * time.Second}, func(w *world) {
		id := w.Submit(slurmtest.Job{Nodes: 2, Requeue: true})
		w.pass(10 * time.Second)
		w.Lost("c2")
		w.must("scontrol update nodename=c2 state=power_down_force")
		w.pass(42 * time.Second)
		w.wantNodes(idle, goingDown) // DOWN in between
		w.wantJob(id, "PENDING", "BeginTime", 1)
	})
	bubble(t, slurmtest.Options{}, func(w *world) {
		id := w.Submit(slurmtest.Job{Requeue: true})
		w.pass(10 * time.Second)
		w.Lost("c1")
		w.must("scontrol requeue 1")
		w.pass(time.Minute)
		w.wantJob(id, "COMPLETING", "None", 1)
		w.Register("c1") // it was only cut off
		w.pass(time.Second)
		w.wantJob(id, "PENDING", "BeginTime", 1)
	})
}

// TestSignalTooEarly sends a signal to a job that does not run: scancel tries again and again.
func TestSignalTooEarly(t *testing.T) {
	bubble(t, slurmtest.Options{}, func(w *world) {
		w.boot = 7 * time.Second
		id := w.Submit(slurmtest.Job{})
		begun := time.Now()
		w.must("scancel --signal USR1 1")
		if took := time.Since(begun); took != 11*time.Second {
			t.Errorf("the job runs after 8 s, scancel took %s", took)
		}
		if j, _ := w.Info(id); !slices.Equal(j.Signals, []string{"USR1"}) {
			t.Errorf("signals %v", j.Signals)
		}
		w.Submit(slurmtest.Job{Nodes: 9})
		begun = time.Now()
		_, stderr, err := w.run("scancel -s USR1 2")
		if took := time.Since(begun); err == nil || !strings.Contains(stderr, "Job can not be altered now, try again later") || took != 81*time.Second {
			t.Errorf("a pending job: %v after %s: %s", err, took, stderr)
		}
		ctx, cancel := context.WithTimeout(w.t.Context(), 8*time.Second)
		defer cancel()
		if _, _, err := w.Run(ctx, "scancel", "-s", "USR1", "2"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a pending job, no time: %v", err)
		}
		w.Exit(id, 0)
		w.pass(time.Second)
		if _, stderr, err := w.run("scancel -s USR1 1"); err == nil || !strings.Contains(stderr, "already completing or completed") {
			t.Errorf("an ended job: %v: %s", err, stderr)
		}
	})
}

func TestRequeue(t *testing.T) {
	bubble(t, slurmtest.Options{}, func(w *world) {
		id := w.Submit(slurmtest.Job{Requeue: true})
		w.pass(10 * time.Second)
		w.must("scontrol requeue 1")
		if _, stderr, err := w.run("scontrol requeue 1"); err == nil || !strings.Contains(stderr, "already completing") {
			t.Errorf("twice: %v: %s", err, stderr)
		}
		w.pass(time.Second)
		w.must("scontrol update jobid=1 starttime=now comment=again")
		w.pass(time.Second)
		w.Exit(id, 0)
		w.pass(time.Second)
		w.wantJob(id, "COMPLETED", "None", 1)
		w.must("scontrol requeue 1") // also runs again what has ended
		w.wantJob(id, "PENDING", "None", 2)
		w.pass(10 * time.Minute)
		w.wantJob(id, "RUNNING", "None", 2)
	})
}

// TestLeaveIsOfOneAttempt: what a signal has begun does not end the next attempt.
func TestLeaveIsOfOneAttempt(t *testing.T) {
	bubble(t, slurmtest.Options{}, func(w *world) {
		id := w.Submit(slurmtest.Job{Requeue: true})
		w.pass(10 * time.Second)
		done := make(chan struct{})
		go func() { w.Leave(id, 10*time.Minute, 75); close(done) }()
		w.pass(time.Second)
		w.must("scontrol requeue 1")
		<-done
		if i, _ := w.Info(id); i.State != "RUNNING" || i.Restarts != 1 {
			t.Errorf("%+v", i)
		}
	})
}
