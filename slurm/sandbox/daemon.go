package sandbox

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/burst-hpc/burst/slurm/slurmd"
)

// daemon is a child of ours that runs in the foreground.
type daemon struct {
	name string
	log  string // where it says why it ended
	proc *os.Process
	done chan struct{} // closed at its end
	err  error         // why it ended, once done is closed
}

// spawn starts cmd. Unless it may outlive us, the kernel kills it when this
// process ends; more exactly, when the thread that started it ends, which is
// why a goroutine stays on that thread until the child is gone.
func (c *Cluster) spawn(name, log string, cmd *exec.Cmd) (*daemon, error) {
	if cmd.SysProcAttr == nil {
		// A session of its own: Ctrl-C is for us, who then close in order.
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	}
	if !c.o.Outlive {
		cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	}
	d := &daemon{name: name, log: log, done: make(chan struct{})}
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := slurmd.Start(cmd)
		if err == nil {
			d.proc = cmd.Process
		}
		started <- err
		if err != nil {
			return
		}
		d.err = cmd.Wait()
		close(d.done)
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("starting %s: %w", name, err)
	}
	c.daemons = append(c.daemons, d)
	return d, nil
}

// stop asks the daemon to end, and kills it when ctx ends first.
func (d *daemon) stop(ctx context.Context) error {
	if err := d.signal(unix.SIGTERM); err != nil {
		return err
	}
	select {
	case <-d.done:
		return nil
	case <-ctx.Done():
		return errors.Join(fmt.Errorf("stopping %s: %w", d.name, ctx.Err()), d.kill())
	}
}

func (d *daemon) kill() error {
	if err := d.signal(unix.SIGKILL); err != nil {
		return err
	}
	<-d.done
	return nil
}

func (d *daemon) signal(sig os.Signal) error {
	if err := d.proc.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("ending %s: %w", d.name, err)
	}
	return nil
}

// await polls ready until it is true, the daemon ends or ctx does.
func (d *daemon) await(ctx context.Context, what string, ready func() bool) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !ready() {
		select {
		case <-d.done:
			return fmt.Errorf("%s ended before %s: %v%s", d.name, what, d.err, tail(d.log))
		case <-ctx.Done():
			return fmt.Errorf("waiting until %s: %w%s", what, context.Cause(ctx), tail(d.log))
		case <-tick.C:
		}
	}
	return nil
}

// tail quotes the end of a log, for an error.
func tail(path string) string {
	data, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	lines := strings.Split(strings.TrimSpace(string(data)), "\n")
	lines = lines[max(0, len(lines)-5):]
	return fmt.Sprintf(" (%s ends: %s)", path, strings.Join(lines, " | "))
}
