package slurmtest_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/burst-hpc/burst/slurm/slurmtest"
)

func TestLifecycle(t *testing.T) {
	bubble(t, slurmtest.Options{OnPrem: []string{"o1"}, SuspendTime: 20 * time.Second, SuspendTimeout: 6 * time.Second}, func(w *world) {
		begun := time.Now()
		id := w.Submit(slurmtest.Job{Nodes: 2, Duration: 10 * time.Second})
		w.pass(time.Hour)
		want := []string{off, offAlloc, booting, allocated, leaving, idle, goingDown, off}
		if got := w.states("c1"); !slices.Equal(got, want) {
			t.Errorf("node c1 was\n%s, want\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
		w.wantCalls(`resume c[1-2] {"jobs":[{"job_id":1,"nodes":"c[1-2]"}],"all_nodes":"c[1-2]"}`, "suspend c[1-2]")
		if got := w.states("c3"); len(got) != 1 {
			t.Errorf("node c3 was touched: %v", got)
		}
		if got := w.states("o1"); !slices.Equal(got, []string{"IDLE"}) {
			t.Errorf("the on-prem node was touched: %v", got)
		}
		if _, ok := w.Info(id); ok {
			t.Error("the job is remembered after MinJobAge")
		}
		history := w.History("c1")
		if took := history[2].At.Sub(begun); took > time.Second {
			t.Errorf("ResumeProgram was called after %s", took)
		}
		last := history[len(history)-1].At.Sub(history[len(history)-2].At)
		if last != 7*time.Second {
			t.Errorf("POWERING_DOWN for %s, want SuspendTimeout and a second", last)
		}
	})
}

func TestResumeFile(t *testing.T) {
	tests := []struct {
		name string
		o    slurmtest.Options
		want string
	}{
		{"22.05", slurmtest.Options{}, `{"jobs":[{"job_id":1,"nodes":"c[2-3]"}],"all_nodes":"c[2-3]"}`},
		{"23.02", slurmtest.Options{NewResumeFile: true}, `{"all_nodes_resume":"c[2-3]","jobs":[{"extra":null,"features":null,"job_id":1,` +
			`"nodes_alloc":"c[1-3]","nodes_resume":"c[2-3]","oversubscribe":"NO","partition":"cloud","reservation":null}]}`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			bubble(t, test.o, func(w *world) {
				w.must("scontrol update nodename=c1 state=power_up")
				w.wantNodes("IDLE+CLOUD+POWER_UP+POWERED_DOWN")
				w.pass(5 * time.Second)
				w.mu.Lock()
				w.calls = nil
				w.mu.Unlock()
				w.Submit(slurmtest.Job{Nodes: 3})
				w.pass(5 * time.Second)
				w.wantCalls("resume c[2-3] " + test.want)
			})
		})
	}
}

func TestPowerUpWithoutJob(t *testing.T) {
	bubble(t, slurmtest.Options{}, func(w *world) {
		w.must("scontrol update nodename=c1,c3 state=power_up")
		w.wantNodes("IDLE+CLOUD+POWER_UP+POWERED_DOWN", off)
		w.pass(time.Second)
		w.wantNodes(idleBoot, off, idleBoot)
		w.pass(3 * time.Second)
		w.wantNodes(idle, off, idle)
		w.wantCalls(`resume c[1,3] {"jobs":[],"all_nodes":"c[1,3]"}`)
		w.must("scontrol update nodename=c1 state=power_up") // is up: nothing
		w.pass(3 * time.Second)
		w.wantCalls()
	})
}

func TestResumeTimeout(t *testing.T) {
	bubble(t, slurmtest.Options{ResumeTimeout: 20 * time.Second}, func(w *world) {
		w.boot = -1
		id := w.Submit(slurmtest.Job{Nodes: 2, Requeue: true})
		w.pass(5 * time.Second)
		w.Register("c1")
		w.wantNodes(allocated, booting)
		w.wantJob(id, "CONFIGURING", "None", 0)
		w.pass(18 * time.Second)
		w.wantNodes(idle, timedOut)
		j, _ := w.Info(id)
		if j.State != "PENDING" || j.Restarts != 1 || time.Until(j.Begin) < 110*time.Second {
			t.Errorf("the job is not requeued and held: %+v", j)
		}
		w.wantCalls(`resume c[1-2] {"jobs":[{"job_id":1,"nodes":"c[1-2]"}],"all_nodes":"c[1-2]"}`, "fail c2")
		out, _, _ := w.run("scontrol -o show nodes c2")
		if !strings.Contains(out, " Reason=ResumeTimeout reached [root@") {
			t.Errorf("no reason: %s", out)
		}
		w.pass(30 * time.Second)
		w.wantJob(id, "PENDING", "BeginTime", 1) // slurmctld has looked at it
		w.pass(3 * time.Minute)
		w.wantNodes(idle, timedOut, timedOut) // the job tried c1 and c3
	})
}

func TestCancelledBoot(t *testing.T) {
	bubble(t, slurmtest.Options{}, func(w *world) {
		w.boot = -1
		id := w.Submit(slurmtest.Job{})
		w.pass(3 * time.Second)
		w.must("scancel 1")
		w.wantJob(id, "CANCELLED", "None", 0)
		w.wantNodes(idleBoot)
		w.must("scontrol update nodename=c1 state=power_down") // waits for the boot
		w.pass(3 * time.Second)
		w.wantNodes("IDLE+CLOUD+POWER_DOWN+NOT_RESPONDING+POWERING_UP")
		w.must("scontrol update nodename=c1 state=power_down_force")
		w.pass(time.Second)
		w.wantNodes(goingDown)
		w.pass(32 * time.Second)
		w.wantNodes(off)
	})
}

func TestSuspension(t *testing.T) {
	o := slurmtest.Options{SuspendTime: time.Hour, SuspendTimeout: 6 * time.Second}
	address := "scontrol update nodename=c1 nodeaddr=10.0.0.7 nodehostname=ip-7"
	for name, reset := range map[string]bool{"the address stays": false, "the address is reset": true} {
		t.Run(name, func(t *testing.T) {
			o.ResetAddr = reset
			bubble(t, o, func(w *world) {
				w.must("scontrol update nodename=c1 state=power_up")
				w.must(address)
				w.pass(5 * time.Second)
				w.must("scontrol update nodename=c1 state=power_down")
				w.wantNodes("IDLE+CLOUD+POWER_DOWN")
				w.pass(time.Second)
				w.wantNodes(goingDown)
				w.must("scontrol update nodename=c1 state=power_down_force") // ignored
				w.must("scontrol update nodename=c1 state=power_up")         // ignored
				if w.Register("c1") {
					t.Error("a node that powers down was registered")
				}
				w.pass(7 * time.Second)
				w.wantNodes(off)
				if got := w.Addr("c1"); (got == "c1") != reset {
					t.Errorf("address %s", got)
				}
			})
		})
	}
}

func TestRegister(t *testing.T) {
	const bootTimedOut = "times out"
	tests := []struct {
		name    string
		returns int    // ReturnToService
		begin   string // how the node comes into its state
		old     bool   // the host booted before
		want    bool
		state   string
	}{
		{"asked for", 0, "power_up", false, true, idle},
		{"booted before the request", 0, "power_up", true, false, idleBoot},
		{"late, 2", 2, bootTimedOut, false, true, idle},
		{"late, 1", 1, bootTimedOut, false, false, timedOut},
		{"late, 0", 0, bootTimedOut, false, false, timedOut},
		{"unasked, 2", 2, "", false, true, idle},
		{"unasked, 1", 1, "", false, false, off},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			bubble(t, slurmtest.Options{ReturnToService: test.returns}, func(w *world) {
				w.boot = -1
				boot := time.Now()
				switch test.begin {
				case "power_up":
					w.must("scontrol update nodename=c1 state=power_up")
					w.pass(3 * time.Second)
				case bootTimedOut:
					w.must("scontrol update nodename=c1 state=power_up")
					w.pass(2 * time.Minute)
				}
				if !test.old {
					boot = time.Now()
				}
				if got := w.RegisterBooted("c1", boot); got != test.want {
					t.Errorf("usable is %t", got)
				}
				w.wantNodes(test.state)
			})
		})
	}
	bubble(t, slurmtest.Options{}, func(w *world) {
		if w.Register("nobody") {
			t.Error("an unknown node was registered")
		}
	})
}

func TestLostNode(t *testing.T) {
	const dead = "DOWN+CLOUD+NOT_RESPONDING"
	for _, requeue := range []bool{true, false} {
		bubble(t, slurmtest.Options{SlurmdTimeout: 20 * time.Second, SuspendTime: time.Hour}, func(w *world) {
			id := w.Submit(slurmtest.Job{Nodes: 2, Requeue: requeue})
			w.pass(5 * time.Second)
			w.Lost("c2")
			w.pass(21 * time.Second)
			w.wantNodes(allocated, "ALLOCATED+CLOUD+NOT_RESPONDING")
			w.wantJob(id, "RUNNING", "None", 0)
			w.pass(20 * time.Second)
			w.wantNodes(idle, dead)
			if requeue {
				w.wantJob(id, "PENDING", "BeginTime", 1)
			} else {
				w.wantJob(id, "NODE_FAIL", "None", 0)
			}
		})
	}
}

func TestLostAndBack(t *testing.T) {
	bubble(t, slurmtest.Options{SlurmdTimeout: 20 * time.Second, SuspendTime: time.Hour}, func(w *world) {
		id := w.Submit(slurmtest.Job{})
		w.pass(5 * time.Second)
		w.Lost("c1")
		w.pass(30 * time.Second)
		w.Register("c1")
		w.pass(time.Minute)
		w.wantNodes(allocated)
		w.wantJob(id, "RUNNING", "None", 0)
	})
}
