package methods

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/burst-hpc/burst/ft/ckpt"
)

// byCommand is the method command with the test program, whose checkpoints its
// commands ask for, wait for and put back.
func byCommand() candidate {
	return candidate{
		name: "command",
		options: Options{
			Setup:      `echo prepared >> setup`,
			Checkpoint: askAndCopy,
			Restart:    `cp "$BURST_GENERATION/state" state && exec "$@"`,
		},
		program: []string{os.Args[0]}, count: []string{"-state=state"}, wipe: wipeState,
	}
}

// askAndCopy is a checkpoint= for a program that writes its state when it gets
// SIGUSR1. The program must catch the signal before it is sent.
const askAndCopy = `
rm -f state
kill -s USR1 "$BURST_PID" || exit 1
until [ -s state ]; do
	kill -0 "$BURST_PID" || exit 1
	sleep 0.05
done
cut -d ' ' -f 1 state > "$BURST_DIR/iteration"
exec cp state "$BURST_DIR/state"`

func TestCommandConforms(t *testing.T) {
	t.Parallel()
	conform(t, byCommand())
}

// commandCount starts the test program's count by the method command with these options.
func commandCount(t *testing.T, o Options) (*place, *running) {
	t.Helper()
	c := byCommand()
	c.options = o
	p := newPlace(t, c)
	r := p.counting(1_000_000, nil)
	r.awaitAt(3)
	return p, r
}

func TestCommandOptions(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]struct {
		Options
		want string
	}{
		"nothing":       {Options{}, "checkpoint= is missing"},
		"no restart":    {Options{Checkpoint: "true", Restart: " "}, "restart= is missing"},
		"unknown":       {Options{Preset: "condor"}, "preset=condor is not known"},
		"zero byte":     {Options{Checkpoint: "a\x00b", Restart: "true"}, "zero byte"},
		"blcr":          {Options{Preset: "blcr"}, ""},
		"blcr and more": {Options{Preset: "blcr", Restart: "exec my_restart"}, ""},
	} {
		_, err := New("command", o.Options)
		if got := fmt.Sprint(err); o.want == "" && err != nil || !strings.Contains(got, o.want) {
			t.Errorf("%s: %v, want %q", name, err, o.want)
		}
	}
}

// setup= runs at every start, and one that fails starts nothing.
func TestCommandSetup(t *testing.T) {
	t.Parallel()
	p, r := commandCount(t, byCommand().options)
	p.restart(r.out.last()+200, p.checkpoint(r, true))
	if text, err := os.ReadFile(filepath.Join(p.dir, "setup")); err != nil || string(text) != "prepared\nprepared\n" {
		t.Errorf("setup= was run otherwise than twice: %q, %v", text, err)
	}
	bad := newPlace(t, candidate{name: "command", program: []string{os.Args[0]},
		options: Options{Setup: "echo the licence server is away; exit 3", Checkpoint: "true", Restart: "true"}})
	m, err := New("command", bad.c.options)
	if err != nil {
		t.Fatal(err)
	}
	_, err = m.Start(t.Context(), bad.launch("exit", "0"))
	if err == nil || !strings.Contains(err.Error(), "setup=: exit code 3: the licence server is away") {
		t.Errorf("a setup= that fails: %v", err)
	}
}

func TestCommandSays(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ checkpoint, want string }{
		"exit code":  {`echo no room; exit 4`, "checkpoint=: exit code 4: no room"},
		"no file":    {`true`, "exit code 0, but in $BURST_DIR: no file with content"},
		"empty file": {`touch "$BURST_DIR/x"`, "exit code 0, but in $BURST_DIR: no file with content"},
		"hangs":      {`echo x > "$BURST_DIR/x"; sleep 1000 & sleep 1000`, "was not done in time"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, r := commandCount(t, Options{Checkpoint: c.checkpoint, Restart: "true"})
			for _, stop := range []bool{false, true} {
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				began := time.Now()
				_, err := r.step.Checkpoint(ctx, p.folder(), stop)
				cancel()
				if err == nil || !strings.Contains(err.Error(), c.want) || errors.Is(err, ckpt.ErrFinishing) {
					t.Errorf("stop %v: %v, want %q", stop, err, c.want)
				}
				if took := time.Since(began); took > 4*time.Second {
					t.Errorf("stop %v: took %v", stop, took)
				}
				r.awaitAt(r.out.last() + 1) // the step goes on
			}
		})
	}
}

// checkpoint= has seen the program's end, while its output, which another process holds
// open, is still waited for.
func TestCommandEndsBeforeItsOutput(t *testing.T) {
	t.Parallel()
	c := byCommand()
	c.options = Options{Checkpoint: `kill -9 "$BURST_PID"; while kill -0 "$BURST_PID" 2>/dev/null; do sleep 0.01; done; exit 1`, Restart: "true"}
	p := newPlace(t, c)
	l := p.launch("count", "-to=1000000", "-pace=10ms")
	l.Args = append([]string{"sh", "-c", `sleep 1 & exec "$@"`, "sh"}, l.Args...)
	r := p.start(l)
	r.awaitAt(3)
	if _, err := r.step.Checkpoint(t.Context(), p.folder(), false); !errors.Is(err, ckpt.ErrFinishing) {
		t.Errorf("%v, want ErrFinishing", err)
	}
}

// The environment of checkpoint= is what the page says.
func TestCommandEnvironment(t *testing.T) {
	t.Parallel()
	p, r := commandCount(t, Options{
		Checkpoint: `echo "$BURST_PID $BURST_STOP $BURST_JOB $BURST_DIR $PWD" > "$BURST_DIR/said"; echo 41 > "$BURST_DIR/iteration"`, Restart: "true",
	})
	into := p.folder()
	made, err := r.step.Checkpoint(t.Context(), into, false)
	if err != nil || made.Iteration != 41 {
		t.Fatalf("iteration %d, %v", made.Iteration, err)
	}
	dir, err := filepath.EvalSymlinks(p.dir)
	if err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf("%d 0  %s %s\n", r.pid(), into, dir)
	if text, err := os.ReadFile(filepath.Join(into, "said")); err != nil || string(text) != want {
		t.Errorf("%q, %v; want %q", text, err, want)
	}
}

// The preset's commands, with stand-ins for BLCR's programs: no kernel of today
// has it.
func TestCommandBLCR(t *testing.T) {
	bin := t.TempDir()
	for name, script := range map[string]string{
		"cr_run":        `exec "$@"`,
		"cr_checkpoint": `echo "$@" > "$BURST_DIR/arguments"; for f; do last=$f; done; kill -s USR1 $last; until [ -s state ]; do sleep 0.05; done; [ "$1" != --term ] || kill $last; exec cp state "$BURST_DIR/context"`,
		"cr_restart":    `[ "$1 $2" = "--omit-always --no-restore-pid" ] && cp "$3" state && exec ` + os.Args[0] + ` count -to=300 -state=state`,
		"srun":          `echo "srun is imaged, and not the program"; exit 9`,
	} {
		if err := os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\n"+script+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	c := byCommand()
	c.options, c.program = Options{Preset: "blcr"}, append([]string{"srun", "-n1", "--mpi=none"}, c.program...)
	p := newPlace(t, c)
	p.at = 3
	m, err := New("command", c.options)
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Usable(t.Context()); err == nil || !strings.Contains(err.Error(), "/proc/checkpoint") {
		t.Errorf("usable without BLCR's module: %v", err)
	}
	r := p.counting(300, nil)
	r.awaitAt(3)
	g := p.checkpoint(r, true)
	if text, err := os.ReadFile(filepath.Join(g.Dir, "arguments")); err != nil || string(text) != fmt.Sprintf("--term -f %s/context %d\n", g.Dir, r.pid()) {
		t.Errorf("cr_checkpoint %s: %v", text, err)
	}
	r.wait()
	if r.code != 143 {
		t.Errorf("exit code %d, want 143 of --term", r.code)
	}
	p.restart(300, g)
	for args, want := range map[string]string{
		"srun -n2 -- /bin/true":     "command: preset=blcr: checkpoints one task, and the step has 2",
		"srun -n1 -- mpirun ./true": "mpirun is not restored by BLCR: use dmtcp",
	} {
		l := p.launch()
		l.Args, l.Program = strings.Fields(args), 3
		if _, err := m.Start(t.Context(), l); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", args, err, want)
		}
	}
}
