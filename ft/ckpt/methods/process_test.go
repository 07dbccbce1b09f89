package methods

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/burst-hpc/burst/ft/ckpt"
)

func shellProcess(t *testing.T, script string) (*process, *output) {
	t.Helper()
	out := newOutput()
	p, err := startProcess(&exec.Cmd{Path: shell, Args: []string{"sh", "-c", script}, Env: os.Environ(), Stdout: out, Stderr: out})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.end(context.Background(), 0); err != nil {
			t.Error(err)
		}
	})
	return p, out
}

// The end of a process is that of all that it has started.
func TestEndTakesTheGroup(t *testing.T) {
	t.Parallel()
	for name, script := range map[string]string{
		"a child":                      "sleep 1000 & echo ready 1; wait",
		"one that ignores SIGTERM":     "trap '' TERM; echo ready 1; sleep 1000 & wait; sleep 1000",
		"a child that outlives it":     "(trap '' TERM; sleep 1000; :) & echo ready 1; exec sleep 1000",
		"a leader that is already out": "sleep 1000 & echo ready 1",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, out := shellProcess(t, script)
			out.await(t, readyLine, 0)
			if err := p.end(t.Context(), 300*time.Millisecond); err != nil {
				t.Fatal(err)
			}
			if p.running() || groupLives(p.pid()) {
				t.Error("some of it lives")
			}
			if err := p.signalGroup(syscall.SIGTERM); !errors.Is(err, os.ErrProcessDone) {
				t.Errorf("a signal to what has ended: %v", err)
			}
		})
	}
}

// What is over at a time is killed before that, however long it may take by itself.
func TestEndIsInTime(t *testing.T) {
	t.Parallel()
	p, out := shellProcess(t, "trap '' TERM; echo ready 1; sleep 1000 & wait; sleep 1000")
	out.await(t, readyLine, 0)
	ctx, cancel := context.WithTimeout(t.Context(), 2*settleTime+500*time.Millisecond)
	defer cancel()
	if err := p.end(ctx, 2*longEnough); err != nil || p.running() {
		t.Errorf("running %v, %v", p.running(), err)
	}
}

// SIGKILL, passed on, leaves nothing of the step.
func TestKillTakesTheGroup(t *testing.T) {
	t.Parallel()
	p, out := shellProcess(t, "(trap '' TERM; sleep 1000; :) & echo ready 1; sleep 1000; :")
	out.await(t, readyLine, 0)
	if err := p.pass(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if code, err := p.wait(); code != 137 || err != nil {
		t.Errorf("%d, %v; want 137", code, err)
	}
	if !p.goneWithin(t.Context(), longEnough) {
		t.Error("some of it lives")
	}
}

// A process that leaves output open to one behind it is over soon after its own end.
func TestWaitIsNotHeldUpByOutput(t *testing.T) {
	t.Parallel()
	p, _ := shellProcess(t, "sleep 1000 & exit 4")
	select {
	case <-p.ended:
	case <-time.After(drainTime + longEnough):
		t.Fatal("it waits for the output of what was left behind")
	}
	if code, err := p.wait(); code != 4 || err != nil {
		t.Errorf("%d, %v; want 4", code, err)
	}
}

func TestSharesTerminal(t *testing.T) {
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	if SharesTerminal(null) || SharesTerminal(nil) || SharesTerminal(strings.NewReader("x")) {
		t.Error("what is no terminal is taken for one")
	}
	terminal, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("no terminal here: %v", err)
	}
	defer terminal.Close()
	if !SharesTerminal(terminal) {
		t.Error("a terminal is not taken for one")
	}
}

func TestRestartEnvironment(t *testing.T) {
	env := []string{"PATH=/bin", "BURST_RESTART=1", "BURST_GENERATION=/old", "BURST_ITERATION=9", "X=BURST_RESTART=1"}
	got := restartEnv(launch{Env: env})
	if want := []string{"PATH=/bin", "X=BURST_RESTART=1", "BURST_RESTART=0"}; !slices.Equal(got, want) {
		t.Errorf("from the beginning: %q, want %q", got, want)
	}
	for iteration, said := range map[int64]string{-1: "", 0: "BURST_ITERATION=0", 40: "BURST_ITERATION=40"} {
		got := restartEnv(launch{Env: env, From: &ckpt.Generation{Dir: "/gen-2", Manifest: ckpt.Manifest{Iteration: iteration}}})
		if !slices.Contains(got, "BURST_RESTART=1") || !slices.Contains(got, "BURST_GENERATION=/gen-2") ||
			said != "" && !slices.Contains(got, said) || slices.Contains(got, "BURST_ITERATION=9") {
			t.Errorf("iteration %d: %q", iteration, got)
		}
	}
}

func TestRegistry(t *testing.T) {
	names := Names()
	for _, name := range names {
		m, err := New(name, Options{Checkpoint: "true", Restart: "true"})
		if err != nil || m.Name() != name {
			t.Errorf("%s: %v, %v", name, m, err)
		}
	}
	if !slices.Contains(names, "signal") || !slices.Contains(names, "command") {
		t.Errorf("methods %v", names)
	}
	if err := Usable(t.Context(), "signal"); err != nil {
		t.Error(err)
	}
	var all []string
	for _, k := range All(t.Context()) {
		all = append(all, k.Name+k.Preset)
		if k.About == "" || k.Name == "signal" && k.Err != nil || k.Preset == "blcr" && k.Err == nil {
			t.Errorf("%+v", k)
		}
	}
	if want := append(names, "commandblcr"); !slices.Equal(all, want) {
		t.Errorf("all are %v, want %v", all, want)
	}
	for _, err := range []error{Usable(t.Context(), "blcr"), func() error { _, err := New("blcr", Options{}); return err }()} {
		if err == nil || !strings.Contains(err.Error(), "ckpt=blcr is not known; there are "+strings.Join(names, ", ")) {
			t.Errorf("a method that is none: %v", err)
		}
	}
}
