package methods

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"github.com/burst-hpc/burst/ft/ckpt"
)

// shell runs the commands of the method command.
const shell = "/bin/sh"

// commands are those of the method command.
type commands struct {
	setup, run, checkpoint, restart string
	about                           string
	needs                           []string // programs, and files in /proc
	images                          string   // the tool that makes images of the program, which runs without srun; empty: none
}

// presets are commands for tools that are known.
var presets = map[string]commands{
	// BLCR 0.8.5 saves a process and its children, and no sockets: of srun it would have
	// nothing, and neither of the program below Slurm's own processes. The process ids of
	// the old node may be taken on the new one. cr_restart stays, as the program's parent.
	"blcr": {
		about:      "images of one program's processes, by BLCR, on kernels of its time",
		images:     "BLCR",
		run:        `exec cr_run "$@"`,
		checkpoint: `if [ "$BURST_STOP" = 1 ]; then set -- --term; fi; exec cr_checkpoint "$@" -f "$BURST_DIR/context" "$BURST_PID"`,
		restart:    `exec cr_restart --omit-always --no-restore-pid "$BURST_GENERATION/context"`,
		needs:      []string{"cr_run", "cr_checkpoint", "cr_restart", "/proc/checkpoint"},
	},
}

// commandMethod checkpoints by commands of the user's.
type commandMethod struct {
	commands
}

var _ ckpt.Method = (*commandMethod)(nil)

func newCommand(o Options) (ckpt.Method, error) {
	c := commands{}
	if o.Preset != "" {
		var ok bool
		if c, ok = presets[o.Preset]; !ok {
			return nil, fmt.Errorf("preset=%s is not known; there is blcr", o.Preset)
		}
	}
	for _, set := range []struct{ to, from *string }{
		{&c.setup, &o.Setup}, {&c.run, &o.Run}, {&c.checkpoint, &o.Checkpoint}, {&c.restart, &o.Restart},
	} {
		if strings.ContainsRune(*set.from, 0) {
			return nil, errors.New("a command has a zero byte in it")
		}
		if strings.TrimSpace(*set.from) != "" {
			*set.to = *set.from
		}
	}
	switch {
	case c.checkpoint == "":
		return nil, errors.New("checkpoint= is missing: the command that writes a checkpoint into $BURST_DIR")
	case c.restart == "":
		return nil, errors.New("restart= is missing: the command that starts the step from $BURST_GENERATION")
	}
	return &commandMethod{c}, nil
}

func (m *commandMethod) Name() string { return "command" }

// Usable looks for what a preset needs; of other commands nothing is known.
func (m *commandMethod) Usable(context.Context) error { return m.usable() }

func (c commands) usable() error {
	for _, need := range append([]string{shell}, c.needs...) {
		if filepath.IsAbs(need) {
			if _, err := os.Stat(need); err != nil {
				return fmt.Errorf("%s is not there", need)
			}
		} else if _, err := exec.LookPath(need); err != nil {
			return fmt.Errorf("%s is not on PATH", need)
		}
	}
	return nil
}

// Start runs setup= first, at every start: a restart is on other nodes.
func (m *commandMethod) Start(ctx context.Context, given ckpt.Launch) (ckpt.Step, error) {
	l := launch(given)
	if err := l.madeBy(m.Name()); err != nil {
		return nil, err
	}
	if m.images != "" {
		if err := l.fitsAlone(m.images); err != nil {
			return nil, fmt.Errorf("command: preset=%s: %w", strings.ToLower(m.images), err)
		}
		l.Args, l.Program = l.Args[l.Program:], 0
	}
	env := m.env(l, nil)
	if m.setup != "" {
		code, out, err := runTool(ctx, &exec.Cmd{Path: shell, Args: []string{"sh", "-c", m.setup}, Env: env, Dir: l.Dir, Stderr: l.Stderr})
		if err == nil && code != 0 {
			err = failed(code, out)
		}
		if err != nil {
			return nil, fmt.Errorf("setup=: %w", err)
		}
	}
	args := l.Args
	switch {
	case l.From != nil:
		args = append([]string{shell, "-c", m.restart, "sh"}, l.Args...)
	case m.run != "":
		args = append([]string{shell, "-c", m.run, "sh"}, l.Args...)
	}
	p, err := l.begin(ctx, args, env)
	if err != nil {
		return nil, err
	}
	return &commandStep{m: m, l: l, p: p}, nil
}

// env is a command's environment.
func (m *commandMethod) env(l launch, more map[string]string) []string {
	vars := map[string]string{"BURST_PID": "", "BURST_DIR": "", "BURST_STOP": "", "BURST_JOB": ""}
	for _, kv := range l.Env {
		if job, ok := strings.CutPrefix(kv, "SLURM_JOB_ID="); ok {
			vars["BURST_JOB"] = job
		}
	}
	for k, v := range more {
		vars[k] = v
	}
	return setEnv(restartEnv(l), vars)
}

func failed(code int, out string) error {
	if line := lastLine(out); line != "" {
		return fmt.Errorf("exit code %d: %s", code, line)
	}
	return fmt.Errorf("exit code %d", code)
}

// commandStep is a step of commandMethod.
type commandStep struct {
	m    *commandMethod
	l    launch
	p    *process
	busy sync.Mutex
}

func (s *commandStep) Wait() (int, error) { return s.p.wait() }

// Signal goes to the process group if it is one that ends: a shell that dies of
// it takes nothing with it. Others go to the command alone, for a shell in the
// group would die of them.
func (s *commandStep) Signal(sig os.Signal) error {
	switch n, _ := sig.(syscall.Signal); n {
	case syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT:
		return s.p.signalGroup(n)
	}
	return s.p.pass(sig)
}

// Checkpoint runs checkpoint=; exit code 0 is its word that the checkpoint is
// complete, and it must have left a file.
func (s *commandStep) Checkpoint(ctx context.Context, into string, stop bool) (ckpt.Made, error) {
	if !s.busy.TryLock() {
		return ckpt.Made{}, ckpt.ErrBusy
	}
	defer s.busy.Unlock()
	if !s.p.running() {
		return ckpt.Made{}, ckpt.ErrFinishing
	}
	stops := "0"
	if stop {
		stops = "1"
	}
	env := s.m.env(s.l, map[string]string{"BURST_PID": strconv.Itoa(s.p.pid()), "BURST_DIR": into, "BURST_STOP": stops})
	code, out, err := runTool(ctx, &exec.Cmd{Path: shell, Args: []string{"sh", "-c", s.m.checkpoint}, Env: env, Dir: s.l.Dir, Stderr: s.l.Stderr})
	if err == nil && code != 0 {
		err = failed(code, out)
	}
	if err == nil {
		if err = hasContent(into); err != nil {
			err = fmt.Errorf("exit code 0, but in $BURST_DIR: %w", err)
		}
	}
	if err != nil {
		if hasDied(s.p) {
			return ckpt.Made{}, fmt.Errorf("%w; checkpoint=: %v", ckpt.ErrFinishing, err)
		}
		return ckpt.Made{}, fmt.Errorf("checkpoint=: %w", err)
	}
	if stop && !s.p.goneWithin(ctx, leaveTime) {
		if err := s.p.end(ctx, killWait); err != nil {
			return ckpt.Made{}, err
		}
	}
	return ckpt.Made{Tool: "command", Iteration: saidIteration(into)}, nil
}

// saidIteration is the number in the file iteration, which checkpoint= may write
// into its folder; -1 without one.
func saidIteration(folder string) int64 {
	f, err := os.Open(filepath.Join(folder, "iteration"))
	if err != nil {
		return -1
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, 64))
	if err != nil {
		return -1
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	if err != nil || n < 0 {
		return -1
	}
	return n
}
