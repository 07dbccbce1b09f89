package srun

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"os/exec"
	"syscall"
	"time"

	"github.com/burst-hpc/burst/cmd/internal/cli"
	"github.com/burst-hpc/burst/ft/ckpt"
)

// plainMethod runs a step that is not protected, but whose end is of interest.
type plainMethod struct{}

// Start runs srun, or what stands in its place, as its caller would: in this process's
// group.
func (plainMethod) Start(_ context.Context, l ckpt.Launch) (*plainStep, error) {
	cmd := exec.Command(l.Args[0], l.Args[1:]...)
	if l.Program > 0 {
		cmd.Args[0] = "srun"
	}
	cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = l.Env, l.Stdin, l.Stdout, l.Stderr
	cmd.WaitDelay = leftTime // of a watched launcher's words
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return &plainStep{cmd}, nil
}

// leftTime is how long words are waited for that a process which the step has left holds open.
const leftTime = 2 * time.Second

type plainStep struct{ cmd *exec.Cmd }

func (s *plainStep) Signal(sig os.Signal) error { return s.cmd.Process.Signal(sig) }

// Wait returns the exit code as a shell has it.
func (s *plainStep) Wait() (int, error) {
	err := s.cmd.Wait()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) && !errors.Is(err, exec.ErrWaitDelay) {
		return 1, err
	}
	if w, ok := s.cmd.ProcessState.Sys().(syscall.WaitStatus); ok && w.Signaled() {
		return 128 + int(w.Signal()), nil
	}
	return s.cmd.ProcessState.ExitCode(), nil
}

// recorded runs a step of --once that is not protected.
func (p *program) recorded(ctx context.Context, k known, d plan, e recorded) int {
	l := p.launch(k, "")
	line, launcher, err := p.plainly(k, l.Args[1:])
	if err != nil {
		return p.wrong(err)
	}
	l.Args, l.Env = line, k.put.Environ(l.Env)
	if launcher {
		l.Program, l.Env = 0, k.put.Environ(p.marked(k.job))
	}
	p.notProtected(k, d.Why)
	l, loss := p.watched(k, l)
	signals := listen()
	s, err := plainMethod{}.Start(ctx, l)
	if err != nil {
		p.say("error: %v", err)
		return cli.Failed
	}
	go func() {
		for sig := range signals {
			_ = s.Signal(sig) // it may have ended
		}
	}()
	go p.sweep(ctx, k) // the end of this process ends it
	code, err := s.Wait()
	if err != nil {
		p.say("%v", err)
	}
	code, lost := loss.judge(code, k.job)
	if lost != "" {
		p.say("%s", lost)
	}
	e.Ended, e.Done, e.Ran = time.Now().UTC(), code == 0 && err == nil, e.Ran+time.Since(e.Began)
	e.note(e.Step)
	return code
}

// pause waits about d, and says false when ctx ended first.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d/2 + rand.N(d))
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
