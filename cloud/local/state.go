package local

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/slurm/slurmd"
)

// How an instance's state is read from its folder, first match wins. Only
// what is in brackets is done by whoever looks; all else by the machine.
//
//	ended                                   Terminated
//	process lives, no terminate             Pending while booting, then Running
//	process lives, terminate                Terminating [killed after a second]
//	process has died                        [kill what it left]  -> ended
//	never had a process, recent             Pending: it is about to start
//	never had a process, terminate or old   [mark it]            -> ended

// terminateTime is how long a machine may take to end itself.
const terminateTime = time.Second

// phase is how far a machine has come.
type phase string

const (
	booting phase = "booting"
	waiting phase = "waiting" // for its node's name
	serving phase = "serving" // slurmd runs
)

// process is a machine.json. Pid, start and boot id name a process for good.
type process struct {
	PID     int    `json:"pid"`
	Started uint64 `json:"started"` // clock ticks after the host's boot
	BootID  string `json:"boot_id"`
	Phase   phase  `json:"phase"`
}

// thisProcess names the caller.
func thisProcess(p phase) (process, error) {
	boot, err := bootID()
	if err != nil {
		return process{}, err
	}
	started, err := slurmd.Started(os.Getpid())
	return process{os.Getpid(), started, boot, p}, err
}

func (p process) alive() (bool, error) {
	boot, err := bootID()
	if err != nil || boot != p.BootID {
		return false, err
	}
	started, err := slurmd.Started(p.PID)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) {
		return false, nil
	}
	return started == p.Started, err
}

// bootID is different after each boot of the host.
func bootID() (string, error) {
	data, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return string(bytes.TrimSpace(data)), err
}

// look returns the instance as it is now.
func (s store) look(r record) (cloud.Instance, error) {
	i := cloud.Instance{
		ID: r.ID, Token: r.Token, Cluster: r.Cluster, Pool: r.Pool, Offering: r.Offering,
		Launched: r.Launched, Addr: r.Addr, Hostname: r.Hostname,
	}
	var err error
	if i.Node, err = s.node(r.ID); err != nil {
		return i, err
	}
	var e end
	ended, err := readJSON(s.path(r.ID, endedFile), &e)
	if err == nil && !ended {
		i.State, e, err = s.unended(r)
	}
	if err != nil {
		return i, err
	}
	if !e.Time.IsZero() {
		i.State, i.Ended = cloud.Terminated, e.Time
	}
	return i, nil
}

// unended returns the state of an instance that has not ended, or its end.
func (s store) unended(r record) (cloud.State, end, error) {
	terminate, err := os.Stat(s.path(r.ID, terminateFile))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", end{}, err
	}
	asked := err == nil
	var p process
	begun, err := readJSON(s.path(r.ID, machineFile), &p)
	if err != nil {
		return "", end{}, err
	}
	if !begun {
		return s.unbegun(r, asked)
	}
	alive, err := p.alive()
	switch {
	case err != nil:
		return "", end{}, err
	case !alive:
		e, err := s.bury(r, "its process died")
		return "", e, err
	case asked && time.Since(terminate.ModTime()) > terminateTime:
		if err := slurmd.KillTree(p.PID); err != nil {
			return "", end{}, err
		}
		e, err := s.bury(r, "killed: it did not end by itself")
		return "", e, err
	case asked:
		return cloud.Terminating, end{}, nil
	case p.Phase == booting:
		return cloud.Pending, end{}, nil
	}
	return cloud.Running, end{}, nil
}

// unbegun returns the state of an instance that has had no process yet. Its
// lock decides against one that begins at this moment.
func (s store) unbegun(r record, asked bool) (cloud.State, end, error) {
	if !asked && time.Since(r.Launched) < grace {
		return cloud.Pending, end{}, nil
	}
	unlock, ok, err := s.lockInstance(r.ID)
	if err != nil || !ok {
		return cloud.Pending, end{}, err
	}
	defer unlock()
	if begun, err := s.has(r.ID, machineFile); err != nil || begun {
		return cloud.Pending, end{}, err // the next look sees it
	}
	reason := "its process was never started"
	if asked {
		reason = s.reason(r.ID)
	}
	e, err := s.markEnded(r.ID, reason)
	return "", e, err
}

// lockInstance takes the lock that a machine holds for life, if it is free.
func (s store) lockInstance(id string) (unlock func(), ok bool, err error) {
	f, err := os.OpenFile(s.path(id, lockFile), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, false, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		f.Close()
		if err == unix.EWOULDBLOCK {
			err = nil
		}
		return nil, false, err
	}
	return func() { f.Close() }, true, nil
}

// bury ends what a dead machine has left behind, and only then says that the
// instance has ended.
func (s store) bury(r record, reason string) (end, error) {
	if err := slurmd.KillMarked(instanceEnv+"="+r.ID, s.path(r.ID, "")); err != nil {
		return end{}, err
	}
	if r.Network != nil {
		if err := r.Network.remove(); err != nil {
			return end{}, err
		}
	}
	return s.markEnded(r.ID, reason)
}

// markEnded writes the instance's end, or reads it if someone was faster.
func (s store) markEnded(id, reason string) (end, error) {
	e := end{time.Now(), reason}
	data, err := json.Marshal(e)
	if err != nil {
		return e, err
	}
	created, err := createOnce(s.path(id, endedFile), data)
	switch {
	case err == nil && created:
		err = s.changed(id)
	case err == nil:
		_, err = readJSON(s.path(id, endedFile), &e)
	}
	return e, err
}

// byTerminate is the reason of an end that Terminate was asked for.
const byTerminate = "terminated"

// reason reads why the instance was asked to end, "" if it was not.
func (s store) reason(id string) string {
	data, err := os.ReadFile(s.path(id, terminateFile))
	if errors.Is(err, fs.ErrNotExist) {
		return ""
	}
	return cmp.Or(string(bytes.TrimSpace(data)), byTerminate)
}
