package methods

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/burst-hpc/burst/ft/ckpt"
)

// criuMethod makes images of a step's processes by CRIU. The step is a program
// on the batch host, for which srun is left out: CRIU restores a process below
// the one that asks for it, and srun's tasks have another parent.
type criuMethod struct{}

var _ ckpt.Method = criuMethod{}

func newCRIU(Options) (ckpt.Method, error) { return criuMethod{}, nil }

// criuTool is the criu on PATH.
type criuTool struct {
	path    string
	version string // "4.2"
}

func (criuMethod) Name() string { return "criu" }

// Usable says why CRIU does not work on this host: it is not there, the kernel
// has something that this version does not know, or a privilege is missing.
func (criuMethod) Usable(ctx context.Context) error { return usableCRIU(ctx) }

func usableCRIU(ctx context.Context) error {
	_, err := findCRIU(ctx)
	return err
}

var criuVersion = regexp.MustCompile(`(?m)^Version: *([0-9][0-9A-Za-z.+-]*)`)

// findCRIU has CRIU itself check the kernel and the privileges.
func findCRIU(ctx context.Context) (criuTool, error) {
	path, err := exec.LookPath("criu")
	if err == nil {
		path, err = filepath.Abs(path)
	}
	if err != nil {
		return criuTool{}, errors.New("criu: criu is not on PATH: install CRIU (Debian, Fedora: criu)")
	}
	t := criuTool{path: path}
	_, out, err := t.run(ctx, "--version")
	if err != nil {
		return t, fmt.Errorf("criu: %w", err)
	}
	m := criuVersion.FindStringSubmatch(out)
	if m == nil {
		return t, fmt.Errorf("criu: criu --version does not say which: %q", lastLine(out))
	}
	t.version = m[1]
	code, out, err := t.run(ctx, append([]string{"check"}, unprivileged()...)...)
	if err == nil && code != 0 {
		err = fmt.Errorf("CRIU %s does not work for user %d on this kernel, %s: %s", t.version, os.Geteuid(), kernelRelease(), criuError(out))
	}
	if err != nil {
		return t, fmt.Errorf("criu: %w", err)
	}
	return t, nil
}

// run runs criu.
func (t criuTool) run(ctx context.Context, args ...string) (code int, out string, err error) {
	return runTool(ctx, &exec.Cmd{Path: t.path, Args: append([]string{t.path}, args...), Env: os.Environ()})
}

// unprivileged is what criu wants to hear from others than root.
func unprivileged() []string {
	if os.Geteuid() == 0 {
		return nil
	}
	return []string{"--unprivileged"}
}

// criuError is the line of criu's messages that says what failed: the first of
// its errors, as the others come of it.
func criuError(out string) string {
	for line := range strings.Lines(out) {
		if strings.Contains(line, "Error (") || strings.Contains(line, "needs to have the CAP_") {
			return lastLine(line)
		}
	}
	return lastLine(out)
}

func kernelRelease() string {
	var u unix.Utsname
	if unix.Uname(&u) != nil {
		return "unknown"
	}
	return unix.ByteSliceToString(u.Release[:])
}

// fitsAlone says why the step cannot be checkpointed by a tool that makes images of one
// program on this host.
func (l launch) fitsAlone(tool string) error {
	switch {
	case l.Program < 0 || l.Program >= len(l.Args):
		return errors.New("no program is given")
	case l.elsewhere():
		return fmt.Errorf("%s would run on this host, which is none of the job's: start it from the batch script", l.Args[l.Program])
	case l.nodes() > 1:
		return fmt.Errorf("checkpoints one node only, and the job has %d", l.nodes())
	case isMPIRun(l.Args[0]) || isMPIRun(l.Args[l.Program]):
		return fmt.Errorf("mpirun is not restored by %s: use dmtcp", tool)
	case l.Program > 0 && l.tasks() > 1:
		return fmt.Errorf("checkpoints one task, and the step has %d", l.tasks())
	}
	return l.isThere(l.Args[l.Program])
}

func (m criuMethod) Start(ctx context.Context, given ckpt.Launch) (ckpt.Step, error) {
	tool, err := findCRIU(ctx)
	if err != nil {
		return nil, err
	}
	l := launch(given)
	if err = l.madeBy(m.Name()); err == nil {
		err = l.fitsAlone("CRIU")
	}
	if err != nil {
		return nil, fmt.Errorf("criu: %w", err)
	}
	s := &criuStep{tool: tool}
	if s.work, err = os.MkdirTemp(l.Scratch, "criu-"); err != nil {
		return nil, fmt.Errorf("criu: a folder for its logs: %w", err)
	}
	if err := s.start(ctx, l); err != nil {
		os.RemoveAll(s.work)
		return nil, fmt.Errorf("criu: %w", err)
	}
	return s, nil
}

func (s *criuStep) start(ctx context.Context, l launch) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("the step is not started: %w", err)
	}
	pipes, err := newCRIUPipes(l)
	if err != nil {
		return err
	}
	s.pipes = pipes
	if l.From != nil {
		s.process, err = s.restore(ctx, l.From)
	} else {
		s.process, err = s.begin(l)
	}
	pipes.started()
	if err != nil {
		pipes.close()
	}
	return err
}

func (s *criuStep) begin(l launch) (criuProcess, error) {
	cmd, err := l.command(l.Args[l.Program:], restartEnv(l))
	if err != nil {
		return nil, err
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = s.pipes.child[0], s.pipes.child[1], s.pipes.child[2]
	return startProcess(cmd)
}
