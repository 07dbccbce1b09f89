package rig

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"
)

const (
	// stopTimeout is how long burstd may take to stop before it is killed.
	stopTimeout  = 10 * time.Second
	startTimeout = 15 * time.Second
)

// child is a process of ours.
type child struct {
	proc *os.Process
	done chan struct{} // closed at its end
	err  error         // how it ended, once done is closed
}

// spawn starts cmd. Unless it may outlive us, the kernel kills it with the
// thread that started it, so a goroutine stays on that thread.
func spawn(cmd *exec.Cmd, outlive bool) (*child, error) {
	// A session of its own: Ctrl-C is for us, who then close in order.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if !outlive {
		cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	}
	c := &child{done: make(chan struct{})}
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		c.proc = cmd.Process
		started <- err
		if err != nil {
			return
		}
		c.err = cmd.Wait()
		close(c.done)
	}()
	return c, <-started
}

func (c *child) alive() bool {
	select {
	case <-c.done:
		return false
	default:
		return true
	}
}

// signal is no error for a process that has ended.
func (c *child) signal(sig os.Signal) error {
	if err := c.proc.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return nil
}

// BurstdAlive says whether burstd runs.
func (s *Site) BurstdAlive() bool { return s.burstd != nil && s.burstd.alive() }

// BurstdPID is the process of the burstd that was started last.
func (s *Site) BurstdPID() int { return s.burstd.proc.Pid }

// SetBurstdEnv sets what the next burstd finds in its environment, as
// NAME=value, instead of Options.BurstdEnv.
func (s *Site) SetBurstdEnv(env ...string) { s.o.BurstdEnv = env }

// StartBurstd starts burstd and returns when it answers on its socket.
func (s *Site) StartBurstd(ctx context.Context) error {
	if s.BurstdAlive() {
		return errors.New("burstd is running already")
	}
	log, err := os.OpenFile(s.Log(), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o640)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command(filepath.Join(s.o.Bin, "burstd"), "--config", s.Config)
	cmd.Dir = s.Dir
	cmd.Env = append(s.Cluster.Env(), mark(s.Dir))
	cmd.Env = append(cmd.Env, s.o.BurstdEnv...)
	cmd.Stdout, cmd.Stderr = log, log
	c, err := spawn(cmd, s.o.Outlive)
	if err != nil {
		return fmt.Errorf("starting burstd: %w", err)
	}
	s.burstd = c
	return s.awaitBurstd(ctx)
}

func (s *Site) awaitBurstd(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, startTimeout, fmt.Errorf("not within %s", startTimeout))
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		_, err := s.API.Status(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-s.burstd.done:
			return fmt.Errorf("burstd ended before it answered: %w%s", s.burstd.err, tail(s.Log()))
		case <-ctx.Done():
			return fmt.Errorf("waiting for burstd: %w: %w%s", context.Cause(ctx), err, tail(s.Log()))
		case <-tick.C:
		}
	}
}

// Log is the path of burstd's log.
func (s *Site) Log() string { return filepath.Join(s.Dir, logFile) }

// KillBurstd kills burstd with SIGKILL, as a crash would, and waits until it
// is gone. It is no error that it was gone already.
func (s *Site) KillBurstd() error {
	if s.burstd == nil {
		return nil
	}
	if err := s.burstd.signal(syscall.SIGKILL); err != nil {
		return fmt.Errorf("killing burstd: %w", err)
	}
	<-s.burstd.done
	return nil
}

// StopBurstd asks burstd to stop and waits until it has; it is an error that
// it had to be killed, or stopped with another exit code than 0. It is no error
// that it was gone already.
func (s *Site) StopBurstd() error {
	if !s.BurstdAlive() {
		return nil
	}
	if err := s.burstd.signal(syscall.SIGTERM); err != nil {
		return fmt.Errorf("stopping burstd: %w", err)
	}
	select {
	case <-s.burstd.done:
	case <-time.After(stopTimeout):
		err := fmt.Errorf("burstd did not stop within %s%s", stopTimeout, tail(s.Log()))
		return errors.Join(err, s.KillBurstd())
	}
	if s.burstd.err != nil {
		return fmt.Errorf("burstd stopped with an error: %w%s", s.burstd.err, tail(s.Log()))
	}
	return nil
}

// tail quotes the end of a log, for an error.
func tail(path string) string {
	data, err := os.ReadFile(path)
	if err != nil || len(data) == 0 {
		return ""
	}
	lines := strings.Split(strings.TrimSpace(string(data)), "\n")
	lines = lines[max(0, len(lines)-3):]
	return fmt.Sprintf(" (%s ends: %s)", path, strings.Join(lines, " | "))
}
