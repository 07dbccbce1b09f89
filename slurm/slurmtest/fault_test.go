package slurmtest_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/burst-hpc/burst/slurm/slurmtest"
)

func TestFaults(t *testing.T) {
	broken := errors.New("broken")
	tests := []struct {
		name    string
		fault   error
		timeout time.Duration // of the caller
		err     error
		took    time.Duration
		done    bool
	}{
		{"none", nil, time.Minute, nil, 0, true},
		{"refused", broken, time.Minute, broken, 0, false},
		{"slow", &slurmtest.Fault{Delay: 5 * time.Second}, time.Minute, nil, 5 * time.Second, true},
		{"slow, then an error", &slurmtest.Fault{Delay: 5 * time.Second, Err: broken}, time.Minute, broken, 5 * time.Second, false},
		{"too slow", &slurmtest.Fault{Delay: time.Hour}, time.Minute, context.DeadlineExceeded, time.Minute, false},
		{"lost answer", &slurmtest.Fault{After: true, Err: broken}, time.Minute, broken, 0, true},
		{"too slow, after the effect", &slurmtest.Fault{Delay: time.Hour, After: true}, time.Minute, context.DeadlineExceeded, time.Minute, true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			asked := ""
			o := slurmtest.Options{Fail: func(cmd string) error { asked = cmd; return test.fault }}
			bubble(t, o, func(w *world) {
				begun := time.Now()
				ctx, cancel := context.WithTimeout(w.t.Context(), test.timeout)
				defer cancel()
				_, _, err := w.Run(ctx, "scontrol", "update", "nodename=c1", "state=drain", "reason=x")
				if !errors.Is(err, test.err) || time.Since(begun) != test.took {
					t.Errorf("%v after %s, want %v after %s", err, time.Since(begun), test.err, test.took)
				}
				if asked != "scontrol update nodename=c1 state=drain reason=x" {
					t.Errorf("asked about %q", asked)
				}
				if done := strings.Contains(w.Node("c1"), "DRAIN"); done != test.done {
					t.Errorf("done is %t", done)
				}
			})
		})
	}
}

func TestCalls(t *testing.T) {
	bubble(t, slurmtest.Options{}, func(w *world) {
		w.must("scontrol update nodename=c1 state=drain reason=x")
		w.pass(time.Second)
		w.must("scontrol update nodename=c1,c2 state=undrain")
		ctx, cancel := context.WithCancel(w.t.Context())
		cancel()
		if _, _, err := w.Run(ctx, "scontrol", "ping"); !errors.Is(err, context.Canceled) {
			t.Errorf("a cancelled command: %v", err)
		}
		calls := w.Calls()
		if len(calls) != 3 || calls[1].Name != "scontrol" || calls[1].Args[1] != "nodename=c1,c2" || calls[1].At.Sub(calls[0].At) != time.Second {
			t.Errorf("%v", calls)
		}
		if n := w.Count("scontrol update nodename=c1"); n != 2 {
			t.Errorf("counted %d", n)
		}
	})
}

func TestDown(t *testing.T) {
	bubble(t, slurmtest.Options{SuspendTime: time.Hour}, func(w *world) {
		w.boot = -1
		first := w.Submit(slurmtest.Job{Duration: time.Minute})
		w.pass(2 * time.Second)
		w.Register("c1")
		second := w.Submit(slurmtest.Job{})
		w.pass(2 * time.Second)
		w.Down()
		for _, line := range []string{"scontrol -o show nodes", "scontrol -o show jobs", "scontrol -o show partitions", "scontrol show config",
			"squeue -h -O JobID:@", "scancel 1", "scontrol write batch_script 1 -", "scontrol update nodename=c1 state=idle"} {
			if _, stderr, err := w.run(line); (err == nil) != strings.Contains(line, "batch_script") || !strings.Contains(stderr, "Unable to contact slurm controller") {
				t.Errorf("%s: %v: %q", line, err, stderr)
			}
		}
		for _, line := range []string{"scontrol requeue 1", "scontrol update jobid=1 admincomment=x"} {
			if _, stderr, err := w.run(line); err == nil || stderr != "Unexpected message received for job 1\n" {
				t.Errorf("%s: %v: %q", line, err, stderr)
			}
		}
		if err := w.client.Ping(w.t.Context()); err == nil {
			t.Error("ping says that it is up")
		}
		if w.Register("c2") {
			t.Error("a node was registered while the controller is down")
		}
		w.Exit(second, 0) // is CONFIGURING: nothing
		w.pass(10 * time.Minute)
		w.wantNodes(allocated, booting)
		w.wantJob(first, "RUNNING", "None", 0)
		w.Up()
		w.pass(0)
		w.wantJob(second, "RUNNING", "None", 0)
		w.pass(time.Second)
		w.wantJob(first, "COMPLETED", "None", 0)
		w.Down()
		w.Exit(second, 4)
		w.pass(time.Second)
		w.wantJob(second, "RUNNING", "None", 0)
		w.Up()
		w.pass(time.Second)
		w.wantJob(second, "FAILED", "NonZeroExitCode", 0)
		if err := w.client.Ping(w.t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func TestLoseResume(t *testing.T) {
	bubble(t, slurmtest.Options{}, func(w *world) {
		w.LoseResume()
		w.Submit(slurmtest.Job{})
		w.pass(30 * time.Second)
		w.wantCalls()
		w.wantNodes(booting)
		w.Submit(slurmtest.Job{})
		w.pass(2 * time.Second)
		w.wantCalls(`resume c2 {"jobs":[{"job_id":2,"nodes":"c2"}],"all_nodes":"c2"}`)
	})
}

func manyNodes(n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("n%05d", i)
	}
	return names
}

// TestManyNodes takes 10,000 nodes up and down again.
func TestManyNodes(t *testing.T) {
	bubble(t, slurmtest.Options{Nodes: manyNodes(10000)}, func(w *world) {
		id := w.Submit(slurmtest.Job{Nodes: 10000, Duration: time.Minute})
		w.pass(10 * time.Second)
		w.wantJob(id, "RUNNING", "None", 0)
		if s, err := w.client.Snapshot(w.t.Context()); err != nil || len(s.Nodes) != 10000 || s.Jobs[id].Nodes != "n[00000-09999]" {
			t.Errorf("snapshot: %v", err)
		}
		w.pass(15 * time.Minute)
		if got := w.Node("n09999"); got != off {
			t.Errorf("a node is %s", got)
		}
	})
}

func BenchmarkShowNodes10k(b *testing.B) {
	c := slurmtest.New(slurmtest.Options{Nodes: manyNodes(10000)})
	for b.Loop() {
		if _, _, err := c.Run(b.Context(), "scontrol", "-o", "show", "nodes"); err != nil {
			b.Fatal(err)
		}
	}
}
