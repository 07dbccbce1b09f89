package methods

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// adopted is a child of this process that another program has made.
type adopted struct {
	child *os.Process
	group int // its process group; 0: it is this process's own
	ended chan struct{}
	code  int // after ended
	err   error
}

var _ criuProcess = (*adopted)(nil)
var _ criuProcess = (*process)(nil)

func adopt(pid int) (*adopted, error) {
	group, err := unix.Getpgid(pid) // its own as it was, or criu's
	if err != nil {
		return nil, fmt.Errorf("the restored process %d: %w", pid, err)
	}
	if group == unix.Getpgrp() {
		group = 0
	}
	child, err := os.FindProcess(pid)
	if err != nil {
		return nil, fmt.Errorf("the restored process %d: %w", pid, err)
	}
	a := &adopted{child: child, group: group, ended: make(chan struct{})}
	go func() {
		defer close(a.ended)
		state, err := child.Wait()
		if err != nil {
			a.err = fmt.Errorf("waiting for the restored process %d: %w", pid, err)
			return
		}
		a.code = exitCode(state)
	}()
	return a, nil
}

func (a *adopted) pid() int { return a.child.Pid }

func (a *adopted) running() bool {
	select {
	case <-a.ended:
		return false
	default:
		return true
	}
}

func (a *adopted) wait() (int, error) {
	<-a.ended
	return a.code, a.err
}

func (a *adopted) signal(s os.Signal) error { return a.child.Signal(s) }

func (a *adopted) signalGroup(s syscall.Signal) error {
	if a.group == 0 {
		return a.signal(s)
	}
	if err := unix.Kill(-a.group, s); errors.Is(err, unix.ESRCH) {
		return os.ErrProcessDone
	} else if err != nil {
		return err
	}
	return nil
}

func (a *adopted) goneWithin(ctx context.Context, d time.Duration) bool {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	select {
	case <-a.ended:
	case <-ctx.Done():
	}
	for a.running() || a.group != 0 && groupLives(a.group) {
		if !pause(ctx, 50*time.Millisecond) {
			return false
		}
	}
	return true
}
