package local

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/burst-hpc/burst/cloud"
)

// TestCrashedLaunch takes up launches that a crash has cut off.
func TestCrashedLaunch(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		age    time.Duration
		folder bool
		kill   bool // terminate it before the replay
		want   cloud.State
	}{
		"before the folder":                       {folder: false, want: cloud.Running},
		"before the process":                      {folder: true, want: cloud.Running},
		"before the process, then terminated":     {folder: true, kill: true, want: cloud.Terminated},
		"before the process, and listed too late": {folder: true, age: time.Minute, want: cloud.Terminated},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			cfg := configure(t)
			p := open(t, cfg)
			r := request("t", 1)
			id := "i-0123456789"
			if err := writeJSON(p.store.launchPath("t"), launch{r, []string{id}}); err != nil {
				t.Fatal(err)
			}
			if tt.folder {
				if err := os.Mkdir(p.store.path(id, ""), 0o755); err != nil {
					t.Fatal(err)
				}
				rec := record{ID: id, Token: "t", Cluster: "c", Launched: time.Now().Add(-tt.age), Conf: cfg.Conf, Slurmd: cfg.Slurmd}
				if err := writeJSON(p.store.path(id, instanceFile), rec); err != nil {
					t.Fatal(err)
				}
			}
			if tt.kill {
				if err := p.Terminate(t.Context(), []string{id}); err != nil {
					t.Fatal(err)
				}
			}
			before := map[bool]cloud.State{false: "", true: cloud.Pending}[tt.folder]
			if tt.want == cloud.Terminated {
				before = cloud.Terminated
			}
			if s := state(t, p, id); s != before {
				t.Errorf("before the replay it is %q, want %q", s, before)
			}
			got, err := open(t, cfg).Launch(t.Context(), r)
			if (err == nil) != (tt.want == cloud.Running) {
				t.Errorf("the replay returns %v, %v", got, err)
			}
			awaitState(t, p, id, tt.want)
			if _, err := os.Stat(p.store.path(id, machineFile)); (err == nil) != (tt.want == cloud.Running) {
				t.Errorf("a process has been started: %t", err == nil)
			}
		})
	}
}

// TestLauncherKilled kills the launcher, with its process group, at once.
func TestLauncherKilled(t *testing.T) {
	t.Parallel()
	cfg := configure(t)
	open(t, cfg)
	text, err := json.Marshal(cfg)
	if err != nil {
		t.Fatal(err)
	}
	launcher := exec.Command("/proc/self/exe")
	launcher.Env = append(os.Environ(), launcherEnv+"="+string(text))
	launcher.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := launcher.Start(); err != nil {
		t.Fatal(err)
	}
	p := open(t, cfg)
	var id string
	await(t, "an instance", func() bool {
		found, err := p.List(t.Context(), cloud.Filter{Cluster: "c"})
		if err != nil {
			t.Fatal(err)
		}
		if len(found) == 1 && found[0].State == cloud.Running {
			id = found[0].ID
		}
		return id != ""
	})
	signalTo(t, launcher.Process.Pid, unix.SIGKILL)
	_ = unix.Kill(-launcher.Process.Pid, unix.SIGKILL)
	if err := launcher.Wait(); err == nil || !strings.Contains(err.Error(), "killed") {
		t.Fatalf("the launcher: %v", err)
	}
	if got := start(t, p, "t", "n1"); got != id {
		t.Errorf("the replay launched %s beside %s", got, id)
	}
	awaitState(t, p, id, cloud.Running)
}

const launcherEnv = "BURST_TEST_LAUNCHER"

// launcherMain is a program that launches an instance and then hangs.
func launcherMain(text string) {
	var cfg Config
	if err := json.Unmarshal([]byte(text), &cfg); err != nil {
		panic(err)
	}
	p, err := New(cfg)
	if err == nil {
		_, err = p.Launch(context.Background(), request("t", 1))
	}
	if err != nil {
		panic(err)
	}
	select {}
}

func TestForgets(t *testing.T) {
	t.Parallel()
	cfg := configure(t)
	p := open(t, cfg)
	old, recent := start(t, p, "old", "n1"), start(t, p, "recent", "n2")
	for _, id := range []string{old, recent} {
		if err := (Control{cfg.Dir}).Evict(id, 0); err != nil {
			t.Fatal(err)
		}
		awaitState(t, p, id, cloud.Terminated)
	}
	await(t, "the machine's last step", func() bool { return gone(machineOf(t, p, old).PID) })
	if err := writeJSON(p.store.path(old, endedFile), end{time.Now().Add(-keep - time.Minute), "long ago"}); err != nil {
		t.Fatal(err)
	}
	if s := state(t, p, old); s != "" {
		t.Errorf("what ended long ago is listed: %s", s)
	}
	for _, path := range []string{p.store.path(old, ""), p.store.noticePath(cloud.Notice{Instance: old}), p.store.launchPath("old")} {
		if _, err := os.Stat(path); !os.IsNotExist(err) {
			t.Errorf("%s is still there: %v", filepath.Base(path), err)
		}
	}
	if s := state(t, p, recent); s != cloud.Terminated {
		t.Errorf("what ended just now is %q", s)
	}
}
