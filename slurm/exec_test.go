package slurm

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// script puts a program of that name into a new folder.
func script(t *testing.T, name, text string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+text+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestExecNoShell(t *testing.T) {
	dir := script(t, "scontrol", `for a in "$@"; do echo "[$a]"; done; cat; echo oops >&2`)
	var log bytes.Buffer
	e := Exec{BinDir: dir, Log: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))}
	out, errOut, err := e.Run(context.Background(), "scontrol", "a b", "$(reboot)", "`x`;y", "")
	if want := "[a b]\n[$(reboot)]\n[`x`;y]\n[]\n"; err != nil || string(out) != want || string(errOut) != "oops\n" {
		t.Errorf("printed %q and %q, %v; want %q", out, errOut, err, want)
	}
	if !strings.Contains(log.String(), "command=scontrol") || !strings.Contains(log.String(), "took=") {
		t.Errorf("log %q", log.String())
	}
}

func TestExecEnvironment(t *testing.T) {
	t.Setenv("PATH", "") // as slurmctld calls its programs
	t.Setenv("SQUEUE_FORMAT", "%i")
	t.Setenv("SLURM_CONF", "/etc/other.conf")
	dir := script(t, "squeue", `PATH=/usr/bin:/bin; env`)
	for conf, want := range map[string]string{"/srv/slurm.conf": "/srv/slurm.conf", "": "/etc/other.conf"} {
		out, _, err := Exec{Conf: conf, BinDir: dir}.Run(context.Background(), "squeue")
		if err != nil || !strings.Contains(string(out), "SLURM_CONF="+want+"\n") || !strings.Contains(string(out), "SCONTROL_ALL=") || strings.Contains(string(out), "SQUEUE_FORMAT") {
			t.Errorf("environment with Conf %q: %s, %v", conf, out, err)
		}
	}
	if _, err := (Exec{}).find("sh"); err != nil {
		t.Errorf("without a PATH: %v", err)
	}
	if _, _, err := (Exec{BinDir: dir}).Run(context.Background(), "scancel"); !errors.Is(err, exec.ErrNotFound) || exited(err) {
		t.Errorf("a missing command: %v", err)
	}
}

func TestExecExitCode(t *testing.T) {
	_, errOut, err := Exec{BinDir: script(t, "scontrol", "echo no >&2; exit 3")}.Run(context.Background(), "scontrol")
	if !exited(err) || string(errOut) != "no\n" {
		t.Errorf("%v, stderr %q", err, errOut)
	}
	_, _, err = Exec{BinDir: script(t, "scontrol", "kill -9 $$")}.Run(context.Background(), "scontrol")
	if err == nil || exited(err) {
		t.Errorf("a command that was killed did not exit on its own: %v", err)
	}
}

// A command that hangs, with a child that holds its output open, ends with the
// timeout or with ctx, and so does the child.
func TestExecHangs(t *testing.T) {
	t.Parallel()
	pidFile := filepath.Join(t.TempDir(), "pid")
	dir := script(t, "scontrol", `sleep 300 & echo $! > `+pidFile+`; wait`)
	ended := func(run func() error) error {
		t.Helper()
		start := time.Now()
		err := run()
		if took := time.Since(start); took > 10*time.Second {
			t.Errorf("took %s", took)
		}
		text, readErr := os.ReadFile(pidFile)
		if readErr != nil {
			t.Fatal(readErr)
		}
		pid, _ := strconv.Atoi(strings.TrimSpace(string(text)))
		deadline := time.Now().Add(5 * time.Second)
		for syscall.Kill(pid, 0) == nil && !zombie(pid) {
			if time.Now().After(deadline) {
				t.Fatalf("the child %d still runs", pid)
			}
			<-time.After(10 * time.Millisecond)
		}
		return err
	}
	err := ended(func() error {
		_, _, err := Exec{BinDir: dir, Timeout: 750 * time.Millisecond}.Run(context.Background(), "scontrol")
		return err
	})
	if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "no answer within 750ms") {
		t.Errorf("timeout: %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	if err := os.Remove(pidFile); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer cancel()
		for deadline := time.Now().Add(5 * time.Second); time.Now().Before(deadline); <-time.After(10 * time.Millisecond) {
			if text, err := os.ReadFile(pidFile); err == nil && len(text) > 1 {
				return // the child runs
			}
		}
	}()
	err = ended(func() error {
		_, _, err := Exec{BinDir: dir}.Run(ctx, "scontrol")
		return err
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// zombie says whether the process is dead, and only init has not noticed yet.
func zombie(pid int) bool {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	return err != nil || strings.Contains(string(stat), ") Z ")
}
