package methods

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/burst-hpc/burst/ft/ckpt"
)

// criuStep is a step that CRIU can dump.
type criuStep struct {
	tool    criuTool
	work    string // for logs
	pipes   *criuPipes
	process criuProcess

	waited  sync.Once
	busy    sync.Mutex
	mu      sync.Mutex
	stopped bool // it is ended by us, its images are safe
}

// criuProcess is one that was started here, or restored.
type criuProcess interface {
	pid() int
	running() bool
	wait() (int, error)
	signal(os.Signal) error
	signalGroup(syscall.Signal) error
	goneWithin(context.Context, time.Duration) bool
}

func (s *criuStep) Wait() (int, error) {
	code, err := s.process.wait()
	s.waited.Do(s.pipes.close)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return endedByUs, err
	}
	return code, cmp.Or(err, s.pipes.lost())
}

func (s *criuStep) Signal(sig os.Signal) error { return s.process.signal(sig) }

// Checkpoint leaves the processes running, or stopped where they are to end, and
// ends them itself when all is written: criu would end them also when it is late.
func (s *criuStep) Checkpoint(ctx context.Context, into string, stop bool) (ckpt.Made, error) {
	if !s.busy.TryLock() {
		return ckpt.Made{}, fmt.Errorf("criu: %w", ckpt.ErrBusy)
	}
	if !s.process.running() {
		s.busy.Unlock()
		return ckpt.Made{}, fmt.Errorf("criu: %w", ckpt.ErrFinishing)
	}
	done := make(chan error, 1)
	go func() { done <- s.dump(into, stop) }()
	var err error
	select {
	case err = <-done:
	case <-ctx.Done():
		// criu cannot be stopped halfway: the program has criu's code in it.
		go func() {
			<-done
			s.process.signalGroup(syscall.SIGCONT) // fails only where it has ended
			s.busy.Unlock()
		}()
		return ckpt.Made{}, fmt.Errorf("criu: the images were not complete in time: %w", ctx.Err())
	}
	defer s.busy.Unlock()
	var n int
	if err == nil {
		n, err = criuImages(into)
	}
	if err != nil {
		s.process.signalGroup(syscall.SIGCONT) // likewise
		if hasDied(s.process) {
			err = fmt.Errorf("%w: %w", ckpt.ErrFinishing, err)
		}
		return ckpt.Made{}, fmt.Errorf("criu: %w", err)
	}
	if stop {
		if err := s.stop(ctx); err != nil {
			return ckpt.Made{}, fmt.Errorf("criu: %w", err)
		}
	}
	made := ckpt.Made{Tool: "criu " + s.tool.version, Ranks: n, Iteration: -1, Extra: map[string]string{}}
	for fd, key := range criuExtra {
		if s.pipes.names[fd] != "" {
			made.Extra[key] = s.pipes.names[fd]
		}
	}
	return made, nil
}

// criuExtra are where a manifest has the names of the pipes.
var criuExtra = [3]string{"stdin", "stdout", "stderr"}

// dump runs criu dump to its end.
func (s *criuStep) dump(into string, stop bool) error {
	after := "--leave-running"
	if stop {
		after = "--leave-stopped"
	}
	args := append([]string{"dump", "-t", fmt.Sprint(s.process.pid()), "-D", into, "-W", s.work, "-o", "dump.log", "--shell-job", "--tcp-close", after}, unprivileged()...)
	code, out, err := s.tool.run(context.Background(), args...)
	if err == nil && code != 0 {
		err = fmt.Errorf("criu dump failed: %s", s.why("dump.log", out))
	}
	return err
}

// why reads criu's log, or what it printed where there is none.
func (s *criuStep) why(log, out string) string {
	text, err := os.ReadFile(filepath.Join(s.work, log))
	if err != nil || len(text) == 0 {
		return criuError(out)
	}
	return criuError(string(text))
}

// stop ends the stopped processes. They get no SIGTERM: they would act on it
// after their restart too, had it come before the dump.
func (s *criuStep) stop(ctx context.Context) error {
	s.mu.Lock()
	s.stopped = true
	s.mu.Unlock()
	err := s.process.signalGroup(syscall.SIGKILL)
	if err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("ending the step: %w", err)
	}
	if !s.process.goneWithin(context.WithoutCancel(ctx), reapTime) {
		return fmt.Errorf("the step is still there %v after SIGKILL", reapTime)
	}
	return nil
}

// criuImages counts the processes of a dump, and says no if what names them is
// not there.
func criuImages(dir string) (int, error) {
	for _, name := range []string{"inventory.img", "pstree.img"} {
		if st, err := os.Stat(filepath.Join(dir, name)); errors.Is(err, fs.ErrNotExist) || err == nil && st.Size() == 0 {
			return 0, fmt.Errorf("%s has no %s: it is no dump, or half of one", dir, name)
		} else if err != nil {
			return 0, err
		}
	}
	processes, err := filepath.Glob(filepath.Join(dir, "mm-*.img")) // of threads there are core-*.img
	if err != nil {
		return 0, err
	}
	return len(processes), nil
}

// restore starts the processes again, as this process's own child.
func (s *criuStep) restore(ctx context.Context, from *ckpt.Generation) (criuProcess, error) {
	dir, err := filepath.Abs(from.Dir)
	if err != nil {
		return nil, err
	}
	if _, err := criuImages(dir); err != nil {
		return nil, err
	}
	pidFile := filepath.Join(s.work, "pid")
	cmd := &exec.Cmd{Path: s.tool.path, Env: os.Environ()}
	cmd.Args = append([]string{
		s.tool.path, "restore", "-D", dir, "-W", s.work, "-o", "restore.log", "--shell-job", "--tcp-close",
		"--restore-detached", "--restore-sibling", "--pidfile", pidFile,
	}, unprivileged()...)
	given := map[string]bool{}
	for fd, key := range criuExtra {
		was := from.Extra[key]
		if was == "" || given[was] {
			continue // a file, or stdout's pipe that is stderr's too
		}
		if s.pipes.names[fd] == "" {
			return nil, fmt.Errorf("its %s was a pipe, and now is none", key)
		}
		given[was] = true
		cmd.ExtraFiles = append(cmd.ExtraFiles, s.pipes.child[fd])
		cmd.Args = append(cmd.Args, "--inherit-fd", fmt.Sprintf("fd[%d]:%s", 2+len(cmd.ExtraFiles), was))
	}
	said := &tail{}
	cmd.Stdout, cmd.Stderr = said, said
	criu, err := startProcess(cmd)
	if err != nil {
		return nil, err
	}
	select {
	case <-criu.ended:
	case <-ctx.Done():
		return nil, withMore(fmt.Errorf("criu restore was not done in time: %w", ctx.Err()), criu.end(context.WithoutCancel(ctx), 0))
	}
	if code, err := criu.wait(); err != nil || code != 0 {
		return nil, fmt.Errorf("criu restore failed (code %d): %s", code, s.why("restore.log", said.String()))
	}
	text, err := os.ReadFile(pidFile)
	if err != nil {
		return nil, err
	}
	pid := countOf(strings.TrimSpace(string(text)))
	if pid == 0 {
		return nil, fmt.Errorf("criu restore did not say which process it is: %q", lastLine(string(text)))
	}
	return adopt(pid)
}
