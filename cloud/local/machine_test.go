package local

import (
	"context"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/slurm/slurmd"
)

func signalTo(t *testing.T, pid int, sig syscall.Signal) {
	t.Helper()
	if pid <= 1 {
		t.Fatalf("no pid: %d", pid)
	}
	if err := unix.Kill(pid, sig); err != nil {
		t.Fatal(err)
	}
}

func reason(t *testing.T, cfg Config, id string) string {
	t.Helper()
	all, err := Control{cfg.Dir}.List()
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range all {
		if m.ID == id {
			return m.Reason
		}
	}
	return "not listed"
}

func machineOf(t *testing.T, p *Provider, id string) process {
	t.Helper()
	var m process
	if ok, err := readJSON(p.store.path(id, machineFile), &m); err != nil || !ok {
		t.Fatalf("reading %s of %s: %t, %v", machineFile, id, ok, err)
	}
	return m
}

// TestEndsOfAMachine lets an instance end in every way. Its step, in a
// session of its own, must never outlive it.
func TestEndsOfAMachine(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		end    func(t *testing.T, p *Provider, id string)
		reason string
		asked  bool // by Terminate: the end is not announced
	}{
		"terminated": {func(t *testing.T, p *Provider, id string) {
			if err := p.Terminate(t.Context(), []string{id}); err != nil {
				t.Fatal(err)
			}
		}, "terminated", true},
		"killed by its admin": {func(t *testing.T, p *Provider, id string) {
			if err := (Control{p.cfg.Dir}).Kill("n1"); err != nil {
				t.Fatal(err)
			}
		}, "killed by its admin", false},
		"evicted": {func(t *testing.T, p *Provider, id string) {
			if err := (Control{p.cfg.Dir}).Evict("n1", 20*time.Millisecond); err != nil {
				t.Fatal(err)
			}
		}, "evicted: its deadline has come", false},
		"SIGTERM": {func(t *testing.T, p *Provider, id string) {
			signalTo(t, machineOf(t, p, id).PID, unix.SIGTERM)
		}, "its process got SIGTERM", false},
		"SIGKILL": {func(t *testing.T, p *Provider, id string) {
			signalTo(t, machineOf(t, p, id).PID, unix.SIGKILL)
		}, "its process died", false},
		"SIGSTOP and terminated": {func(t *testing.T, p *Provider, id string) {
			signalTo(t, machineOf(t, p, id).PID, unix.SIGSTOP)
			if err := p.Terminate(t.Context(), []string{id}); err != nil {
				t.Fatal(err)
			}
		}, "killed: it did not end by itself", true},
		"slurmd dies": {func(t *testing.T, p *Provider, id string) {
			signalTo(t, number(t, p, id, "stub.pid"), unix.SIGKILL)
		}, "slurmd was killed by SIGKILL", false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // they wait
			cfg := configure(t)
			p := open(t, cfg)
			id := start(t, p, "t", "n1")
			step := number(t, p, id, "stub.step")
			daemon := number(t, p, id, "stub.pid")
			for _, sig := range []syscall.Signal{unix.SIGHUP, unix.SIGINT} { // dropped
				signalTo(t, machineOf(t, p, id).PID, sig)
			}
			if s := state(t, p, id); s != cloud.Running {
				t.Fatalf("state is %s", s)
			}
			told := make(chan cloud.Notice, 1)
			ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
			defer cancel()
			go p.Notices(ctx, func(_ context.Context, n cloud.Notice) error { // its error is ctx's
				if n.Kind == cloud.StateChange {
					told <- n
				}
				return nil
			})
			tt.end(t, p, id)
			if !tt.asked { // nobody has looked at it meanwhile
				select {
				case n := <-told:
					if n.Instance != id || n.Action != "terminated" || n.Source != "local" {
						t.Errorf("told of %+v", n)
					}
				case <-ctx.Done():
					t.Error("nobody was told")
				}
			}
			awaitState(t, p, id, cloud.Terminated)
			if announced, _ := filepath.Glob(filepath.Join(cfg.Dir, "notices", "*.end.json")); tt.asked && len(announced)+len(told) > 0 {
				t.Errorf("told of an end that was asked for")
			}
			if !gone(step) || !gone(daemon) {
				t.Errorf("terminated, but slurmd %d or its step %d still runs", daemon, step)
			}
			if got := reason(t, cfg, id); got != tt.reason {
				t.Errorf("reason is %q, want %q", got, tt.reason)
			}
		})
	}
}

func TestSlurmdExits(t *testing.T) {
	t.Parallel()
	cfg := configure(t)
	write(t, cfg.Slurmd, "#!/bin/sh\nexit 3\n")
	p := open(t, cfg)
	got, err := p.Launch(t.Context(), request("t", 1))
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Assign(t.Context(), map[string]string{got[0].ID: "n1"}); err != nil {
		t.Fatal(err)
	}
	awaitState(t, p, got[0].ID, cloud.Terminated)
	if got := reason(t, cfg, got[0].ID); got != "slurmd exited with status 3" {
		t.Errorf("reason is %q", got)
	}
}

func TestFolderRemoved(t *testing.T) {
	t.Parallel()
	p := open(t, configure(t))
	id := start(t, p, "t", "n1")
	pid, step := machineOf(t, p, id).PID, number(t, p, id, "stub.step")
	if err := os.RemoveAll(p.store.path(id, "")); err != nil {
		t.Fatal(err)
	}
	await(t, "end of a machine without a folder", func() bool { return gone(pid) && gone(step) })
}

// TestEnvironment: slurmd carries id and token, is told its node and -b, and
// cannot become a machine itself.
func TestEnvironment(t *testing.T) {
	t.Parallel()
	cfg := configure(t)
	p := open(t, cfg)
	id := start(t, p, "the-token", "n1")
	for _, entry := range []string{instanceEnv + "=" + id, tokenEnv + "=the-token"} {
		pids, err := slurmd.Marked(entry)
		if err != nil || len(pids) < 3 { // machine, slurmd, step
			t.Errorf("%s marks %v, %v", entry, pids, err)
		}
	}
	pids, err := slurmd.Marked(folderEnv + "=" + p.store.path(id, "."))
	if err != nil || len(pids) > 1 {
		t.Errorf("%s is inherited: %v, %v", folderEnv, pids, err)
	}
	args, err := os.ReadFile(p.store.path(id, "stub.args"))
	if want := "-D -N n1 -f " + cfg.Conf + " -L " + p.store.path(id, slurmd.LogFile) + " -b\n"; err != nil || string(args) != want {
		t.Errorf("slurmd's arguments are %q, %v, want %q", args, err, want)
	}
}

func TestBootDelay(t *testing.T) {
	t.Parallel()
	cfg := configure(t)
	p := open(t, cfg)
	if err := (Control{cfg.Dir}).SetBoot(1200 * time.Millisecond); err != nil {
		t.Fatal(err)
	}
	begun := time.Now()
	id := start(t, p, "t", "n1")
	if d := time.Since(begun); d < 1200*time.Millisecond {
		t.Errorf("slurmd ran after %s, with a boot delay of 1.2 s", d)
	}
	awaitState(t, p, id, cloud.Running)
	if err := (Control{cfg.Dir}).SetBoot(time.Hour); err != nil {
		t.Fatal(err)
	}
	got, err := p.Launch(t.Context(), request("t2", 1))
	if err != nil {
		t.Fatal(err)
	}
	if s := state(t, p, got[0].ID); s != cloud.Pending {
		t.Errorf("a booting instance is %s", s)
	}
	if err := p.Terminate(t.Context(), []string{got[0].ID}); err != nil {
		t.Fatal(err)
	}
	awaitState(t, p, got[0].ID, cloud.Terminated)
}

func TestNotAMachine(t *testing.T) {
	p := open(t, configure(t))
	mainCalled = false
	defer func() { mainCalled = true }()
	if _, err := p.Launch(t.Context(), request("t", 1)); cloud.KindOf(err) != cloud.Invalid {
		t.Errorf("a launch by a program without Main: %v", err)
	}
}

func TestBootLatency(t *testing.T) {
	t.Parallel()
	p := open(t, configure(t))
	launched := time.Now()
	id := start(t, p, "t", "n1")
	took := time.Unix(0, int64(number(t, p, id, "stub.time"))).Sub(launched)
	t.Logf("launch to slurmd: %s", took)
	if took > 3*time.Second { // up to one of them is slurmd.BootDelay
		t.Errorf("launch to slurmd took %s", took)
	}
}
