package methods

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// drainTime is how long output is waited for that a process left behind holds open.
	drainTime = 2 * time.Second
	// reapTime is how long a killed process may take to be gone.
	reapTime = 10 * time.Second
)

// settleTime is what srun's helper gets to end the tasks on other nodes after
// srun itself was killed: killed with it, they would run on. A variable for the tests.
var settleTime = time.Second

// process is a command that runs: a step, or a tool of a method.
//
// It leads a process group of its own, so that all of it can be ended; but not
// where its standard input is a terminal: there only the foreground group may
// read, and Ctrl-C must reach the step as it reaches srun.
//
// When this process dies, by kill -9 too, the command gets SIGTERM, on which
// srun ends its tasks. So a step does not outlive the command that the batch
// script waits for, as with srun itself, whose helper ends the step of a srun
// that was killed; else it would compute beside the script's next line.
type process struct {
	cmd   *exec.Cmd
	owns  bool // its process group
	ended chan struct{}
	code  int // after ended
	err   error
}

// SharesTerminal says whether a step with this standard input runs in the
// process group of its caller. Then the terminal itself sends the step SIGINT,
// SIGQUIT and SIGTSTP, and the caller must not pass them on: srun takes a second
// SIGINT within a second as the order to abort.
func SharesTerminal(stdin io.Reader) bool {
	f, ok := stdin.(*os.File)
	if !ok {
		return false
	}
	raw, err := f.SyscallConn()
	if err != nil {
		return false
	}
	terminal := false
	err = raw.Control(func(fd uintptr) {
		_, err := unix.IoctlGetTermios(int(fd), unix.TCGETS)
		terminal = err == nil
	})
	return err == nil && terminal
}

// startProcess starts the command. Files among its stdin, stdout and stderr are
// its own; for any other reader or writer bytes are copied, until two seconds
// after its end.
func startProcess(cmd *exec.Cmd) (*process, error) {
	p := &process{cmd: cmd, owns: !SharesTerminal(cmd.Stdin), ended: make(chan struct{})}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: p.owns, Pdeathsig: syscall.SIGTERM}
	cmd.WaitDelay = drainTime
	started := make(chan error, 1)
	go p.run(started)
	if err := <-started; err != nil {
		return nil, fmt.Errorf("starting %s: %w", filepath.Base(cmd.Path), err)
	}
	return p, nil
}

// run starts the process and waits for it on one thread: Pdeathsig goes by the
// death of the thread that started it.
func (p *process) run(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := p.cmd.Start()
	started <- err
	if err != nil {
		return
	}
	err = p.cmd.Wait()
	state := p.cmd.ProcessState
	var exit *exec.ExitError
	switch {
	case state == nil:
		p.err = fmt.Errorf("waiting for %s: %w", filepath.Base(p.cmd.Path), err)
	case err == nil, errors.As(err, &exit), errors.Is(err, exec.ErrWaitDelay):
		p.code = exitCode(state)
	default: // its output could not be copied
		p.code, p.err = exitCode(state), fmt.Errorf("output of %s: %w", filepath.Base(p.cmd.Path), err)
	}
	close(p.ended)
}

// exitCode is a shell's and srun's: 128 and the signal's number for a death by signal.
func exitCode(s *os.ProcessState) int {
	if w, ok := s.Sys().(syscall.WaitStatus); ok && w.Signaled() {
		return 128 + int(w.Signal())
	}
	return s.ExitCode()
}

func (p *process) pid() int { return p.cmd.Process.Pid }

// wait returns the exit code; it may be called any number of times.
func (p *process) wait() (int, error) {
	<-p.ended
	return p.code, p.err
}

// running is false as soon as wait returns at once.
func (p *process) running() bool {
	select {
	case <-p.ended:
		return false
	default:
		return true
	}
}

// hasDied says whether the process has ended, at once: what runs may have seen it
// before wait returns, which waits for the last of its output.
func hasDied(p criuProcess) bool {
	if !p.running() || errors.Is(p.signal(syscall.Signal(0)), os.ErrProcessDone) {
		return true
	}
	state, _ := statOf(fmt.Sprintf("/proc/%d/stat", p.pid()))
	return state == "Z" || state == "X"
}

// signal goes to the process alone: srun passes it on to its tasks. It is never
// sent to another process that got the number later.
func (p *process) signal(s os.Signal) error { return p.cmd.Process.Signal(s) }

// signalGroup sends to the whole group, also when its leader has ended; to the
// process alone where the group is not its own.
func (p *process) signalGroup(s syscall.Signal) error {
	if !p.owns {
		return p.signal(s)
	}
	if !p.running() && !groupLives(p.pid()) {
		return os.ErrProcessDone
	}
	if err := unix.Kill(-p.pid(), s); err != nil {
		if errors.Is(err, unix.ESRCH) {
			return os.ErrProcessDone
		}
		return err
	}
	return nil
}

// pass gives the step a signal of its user's. After SIGKILL what is left of the
// group is killed too, a moment later: see settleTime.
func (p *process) pass(s os.Signal) error {
	err := p.signal(s)
	if err == nil && s == syscall.SIGKILL {
		go func() {
			if !p.goneWithin(context.Background(), settleTime) {
				p.signalGroup(syscall.SIGKILL) // fails only where it has ended
			}
		}()
	}
	return err
}

// end ends the process and its group: SIGTERM, and SIGKILL to what is left after
// killWait, or so early that all is over when ctx is. An error means that it
// lives on all the same.
func (p *process) end(ctx context.Context, killWait time.Duration) error {
	if err := p.signalGroup(syscall.SIGTERM); errors.Is(err, os.ErrProcessDone) && !p.running() {
		return nil
	}
	if deadline, ok := ctx.Deadline(); ok {
		killWait = min(killWait, time.Until(deadline)-2*settleTime)
	}
	ctx, cancel := context.WithTimeout(ctx, killWait)
	defer cancel()
	if p.gone(ctx) {
		return nil
	}
	// The rest is not for ctx to cut short: it is over.
	hard := context.WithoutCancel(ctx)
	p.signal(syscall.SIGKILL) // fails only where it has ended
	if p.goneWithin(hard, settleTime) {
		return nil
	}
	p.signalGroup(syscall.SIGKILL) // likewise
	if !p.goneWithin(hard, reapTime) {
		return fmt.Errorf("process %d is still there %v after SIGKILL", p.pid(), reapTime)
	}
	return nil
}

func (p *process) goneWithin(ctx context.Context, d time.Duration) bool {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	return p.gone(ctx)
}

// gone waits until the process and all of its group have ended, and says whether
// they have when ctx is over.
func (p *process) gone(ctx context.Context) bool {
	select {
	case <-p.ended:
	case <-ctx.Done():
		return !p.running() && !(p.owns && groupLives(p.pid()))
	}
	for p.owns && groupLives(p.pid()) {
		if !pause(ctx, 50*time.Millisecond) {
			return false
		}
	}
	return true
}

// groupLives says whether a process of the group runs; zombies do not.
func groupLives(pgid int) bool {
	if errors.Is(unix.Kill(-pgid, 0), unix.ESRCH) {
		return false // and there is no zombie either
	}
	group := strconv.Itoa(pgid)
	for _, pid := range processes() {
		if state, of := statOf(filepath.Join("/proc", pid, "stat")); of == group && state != "Z" && state != "X" {
			return true
		}
	}
	return false
}

// processes are the ids of all. filepath.Glob would read the folder of each.
func processes() []string {
	proc, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer proc.Close()
	names, _ := proc.Readdirnames(-1) // what it has read counts
	return slices.DeleteFunc(names, func(name string) bool { return name[0] < '0' || name[0] > '9' })
}

// statOf reads a process's state and group; empty: it is gone.
func statOf(path string) (state, group string) {
	text, err := os.ReadFile(path)
	if err != nil {
		return "", ""
	}
	// "pid (name) state ppid pgrp …", and a name may hold anything.
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	if len(fields) < 3 {
		return "", ""
	}
	return fields[0], fields[2]
}
