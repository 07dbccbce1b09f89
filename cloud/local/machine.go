package local

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/slurm/slurmd"
)

// The environment of a machine; slurmd and its steps inherit the latter two.
const (
	folderEnv   = "BURST_LOCAL_INSTANCE_DIR"
	instanceEnv = "BURST_LOCAL_INSTANCE"
	tokenEnv    = "BURST_LOCAL_TOKEN"
)

// mainCalled says that this program, started again, becomes a machine.
var mainCalled bool

// Main must be the first call of main, or TestMain, of every program that
// launches. In the process of an instance it is the machine, and does not
// return; in any other process it does nothing.
func Main() {
	mainCalled = true
	dir := os.Getenv(folderEnv)
	if dir == "" {
		return
	}
	// slurmd dies with the thread that started it, so that must be one that stays.
	runtime.LockOSThread()
	if err := run(dir); err != nil {
		slog.Error("the instance has failed", "instance", filepath.Base(dir), "err", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// run is the life of an instance: boot, wait for the node's name, serve, end.
func run(dir string) error {
	m := &machine{store: store{filepath.Dir(filepath.Dir(dir))}, id: filepath.Base(dir)}
	unlock, mine, err := m.store.lockInstance(m.id)
	if err != nil || !mine {
		return err // another one is this instance's machine
	}
	defer unlock()
	for _, file := range []string{machineFile, endedFile} {
		if there, err := m.store.has(m.id, file); err != nil || there {
			return err
		}
	}
	var ok bool
	if m.record, ok, err = m.store.record(m.id); err != nil || !ok {
		return errors.Join(err, errors.New("the instance has no "+instanceFile))
	}
	delay, err := time.ParseDuration(m.record.Boot)
	if err != nil && m.record.Boot != "" {
		return fmt.Errorf("boot delay of instance %s: %w", m.id, err)
	}
	// What daemonizes below becomes a child of this process, not of init.
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("becoming a subreaper: %w", err)
	}
	// Caught and dropped rather than ignored, which slurmd would inherit.
	signal.Notify(make(chan os.Signal, 1), unix.SIGHUP, unix.SIGINT)
	if err := m.setPhase(booting); err != nil {
		return err
	}
	m.booted = time.After(max(delay, slurmd.BootDelay(time.Now())))
	reason := m.live()
	slog.Info("the instance ends", "instance", m.id, "reason", reason)
	return m.end(reason)
}

type machine struct {
	store
	id       string
	record   record
	booted   <-chan time.Time
	deadline <-chan time.Time
	due      time.Time // when deadline fires
	slurmd   *exec.Cmd
}

func (m *machine) setPhase(p phase) error {
	self, err := thisProcess(p)
	if err != nil {
		return err
	}
	return writeJSON(m.path(m.id, machineFile), self)
}

// live returns why the instance must end.
func (m *machine) live() string {
	exits, term := make(chan os.Signal, 1), make(chan os.Signal, 1)
	signal.Notify(exits, unix.SIGCHLD)
	signal.Notify(term, unix.SIGTERM)
	changes := watch(m.path(m.id, ""))
	defer changes.stop()
	if m.record.Network != nil {
		if err := m.record.Network.make(); err != nil {
			return err.Error()
		}
	}
	at := booting
	for {
		next, reason := m.advance(at)
		if reason != "" {
			return reason
		}
		if next != at {
			if err := m.setPhase(next); err != nil {
				return err.Error()
			}
			if at = next; at == waiting {
				continue // the name may be there already
			}
		}
		select {
		case <-changes.c:
		case <-m.booted:
			m.booted = nil
		case <-m.deadline:
			return "evicted: its deadline has come"
		case <-term:
			return "its process got SIGTERM"
		case <-exits:
			if reason := m.reap(); reason != "" {
				return reason
			}
		}
	}
}

// advance does what the files and the time ask for.
func (m *machine) advance(at phase) (next phase, reason string) {
	if there, err := m.has(m.id, instanceFile); err != nil || !there {
		return at, "its folder is gone"
	}
	if asked, err := m.has(m.id, terminateFile); err != nil || asked {
		return at, m.reason(m.id)
	}
	m.heed()
	switch {
	case at == booting && m.booted == nil:
		return waiting, ""
	case at == waiting:
		node, err := m.node(m.id)
		if err == nil && node != "" {
			if err = m.serve(node); err == nil {
				return serving, ""
			}
		}
		if err != nil {
			return at, err.Error()
		}
	}
	return at, ""
}

// heed reads the instance's eviction, which may be brought forward.
func (m *machine) heed() {
	var n cloud.Notice
	ok, err := readJSON(m.path(m.id, noticeFile), &n)
	if err != nil {
		slog.Error("a notice cannot be read", "instance", m.id, "err", err)
	}
	if ok && err == nil && !n.Deadline.Equal(m.due) {
		m.due, m.deadline = n.Deadline, time.After(time.Until(n.Deadline))
	}
}

func (m *machine) serve(node string) error {
	o := slurmd.Options{
		Node: node, Conf: m.record.Conf, Dir: m.path(m.id, ""), Path: m.record.Slurmd, Boot: true,
		Env: []string{instanceEnv + "=" + m.id, tokenEnv + "=" + m.record.Token},
	}
	if m.record.Network != nil {
		o.NetNS = m.record.Network.Name
	}
	cmd, err := slurmd.Command(o)
	if err != nil {
		return err
	}
	out, err := os.Create(filepath.Join(o.Dir, "slurmd.out"))
	if err != nil {
		return err
	}
	defer out.Close()
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr.Pdeathsig = unix.SIGKILL
	if err := slurmd.Start(cmd); err != nil {
		return fmt.Errorf("starting slurmd of node %s: %w", node, err)
	}
	slog.Info("slurmd runs", "instance", m.id, "node", node, "pid", cmd.Process.Pid)
	m.slurmd = cmd
	return nil
}

// reap buries dead children, also the adopted ones, and says if slurmd was one.
func (m *machine) reap() (reason string) {
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG, nil)
		if err == syscall.EINTR {
			continue
		}
		if err != nil || pid <= 0 {
			return reason
		}
		if m.slurmd != nil && pid == m.slurmd.Process.Pid {
			reason = fmt.Sprintf("slurmd exited with status %d", status.ExitStatus())
			if status.Signaled() {
				reason = fmt.Sprintf("slurmd was killed by %s", unix.SignalName(status.Signal()))
			}
		}
	}
}

// end says that the instance has ended only when nothing of it is left.
func (m *machine) end(reason string) error {
	for {
		err := slurmd.KillBelow(os.Getpid())
		if err == nil {
			break
		}
		slog.Error("processes do not end", "instance", m.id, "err", err)
	}
	if m.record.Network != nil {
		if err := m.record.Network.remove(); err != nil {
			return err
		}
	}
	if there, err := m.has(m.id, instanceFile); err != nil || !there {
		return err
	}
	_, err := m.markEnded(m.id, reason)
	return err
}
