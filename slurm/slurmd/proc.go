package slurmd

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// killTimeout bounds a kill: a process may hang in the kernel.
const killTimeout = 10 * time.Second

type process struct {
	parent  int
	started uint64 // clock ticks after the host's boot
	dead    bool   // a zombie
}

// KillTree kills root and every process below it with SIGKILL, and returns
// when all are gone or zombies. Root is stopped first, so that it starts
// nothing more, and killed last: as long as it lives it adopts its
// descendants' orphans, if it is a subreaper.
func KillTree(root int) error {
	if p, err := status(root); err != nil || p.dead {
		return ignoreGone(err)
	}
	if err := signal(root, unix.SIGSTOP); err != nil {
		return err
	}
	if err := KillBelow(root); err != nil {
		return err
	}
	return killUntilNone(fmt.Sprintf("process %d", root), func() ([]int, error) {
		p, err := status(root)
		if err != nil || p.dead {
			return nil, ignoreGone(err)
		}
		return []int{root}, nil
	})
}

// KillBelow kills every process below root with SIGKILL, but not root, and
// returns when all are gone or zombies.
func KillBelow(root int) error {
	return killUntilNone(fmt.Sprintf("processes below %d", root), func() ([]int, error) {
		all, err := processes()
		return below(all, root), err
	})
}

// KillMarked kills every process whose environment has entry (NAME=value),
// every step of a slurmd that was started with one of dirs as its Options.Dir,
// and all below these, and returns when all are gone or zombies. It does not
// find what else changed its environment and lost its parent.
func KillMarked(entry string, dirs ...string) error {
	return killUntilNone("processes with "+entry, func() ([]int, error) {
		pids, err := Marked(entry)
		if err != nil || len(dirs) == 0 {
			return pids, err
		}
		of, err := steps(dirs)
		return append(pids, of...), err
	})
}

// steps lists the slurmstepds in dirs. That of Slurm 24.11 has its title written
// over its environment, but stays in the folder of its slurmd.
func steps(dirs []string) ([]int, error) {
	all, err := processes()
	if err != nil {
		return nil, err
	}
	real := make([]string, len(dirs))
	for i, d := range dirs {
		if real[i], err = filepath.Abs(d); err != nil {
			return nil, err
		}
		if to, err := filepath.EvalSymlinks(real[i]); err == nil { // one that is gone may have steps, too
			real[i] = to
		}
	}
	var pids []int
	for pid, p := range all {
		comm, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
		if err != nil || p.dead || string(comm) != "slurmstepd\n" {
			continue
		}
		cwd, err := os.Readlink(fmt.Sprintf("/proc/%d/cwd", pid))
		if err == nil && slices.Contains(real, strings.TrimSuffix(cwd, " (deleted)")) {
			pids = append(pids, pid)
		}
	}
	return pids, nil
}

// Marked lists the processes, other than the caller, that were started with
// entry (NAME=value) in their environment. Those of other users are not seen
// by an ordinary user.
func Marked(entry string) ([]int, error) {
	all, err := processes()
	if err != nil {
		return nil, err
	}
	var pids []int
	for pid, p := range all {
		if p.dead || pid == os.Getpid() {
			continue
		}
		env, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
		if err != nil {
			continue // gone, or another user's
		}
		if bytes.Contains(append([]byte{0}, env...), []byte("\x00"+entry+"\x00")) {
			pids = append(pids, pid)
		}
	}
	return pids, nil
}

// Started returns when a living process began, in clock ticks after the
// host's boot. With the pid it names a process for good. The error is
// fs.ErrNotExist for one that is gone or a zombie.
func Started(pid int) (uint64, error) {
	p, err := status(pid)
	if err != nil {
		return 0, err
	}
	if p.dead {
		return 0, fmt.Errorf("process %d is a zombie: %w", pid, fs.ErrNotExist)
	}
	return p.started, nil
}

// alive adds those of killed that still live, and what is below them, and notes
// all as killed. One whose parent has died first is found in no tree any more.
func alive(killed map[int]uint64, pids []int) ([]int, error) {
	if len(pids)+len(killed) == 0 {
		return nil, nil
	}
	all, err := processes()
	if err != nil {
		return nil, err
	}
	for pid, began := range killed {
		if p, ok := all[pid]; ok && !p.dead && p.started == began && !slices.Contains(pids, pid) {
			pids = append(pids, pid)
		}
	}
	for _, pid := range below(all, pids...) {
		if !slices.Contains(pids, pid) {
			pids = append(pids, pid)
		}
	}
	for _, pid := range pids {
		killed[pid] = all[pid].started
	}
	return pids, nil
}

// killUntilNone kills what find returns, and what is below that, until it returns
// nothing and all are gone.
func killUntilNone(what string, find func() ([]int, error)) error {
	deadline := time.Now().Add(killTimeout)
	killed := map[int]uint64{} // when each began
	for pause := time.Millisecond; ; pause = min(2*pause, 50*time.Millisecond) {
		pids, err := find()
		if err != nil {
			return fmt.Errorf("looking for %s: %w", what, err)
		}
		if pids, err = alive(killed, pids); err != nil {
			return fmt.Errorf("looking for %s: %w", what, err)
		}
		if len(pids) == 0 {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("killing %s: %v still there after %s", what, pids, killTimeout)
		}
		for _, pid := range pids {
			if err := signal(pid, unix.SIGKILL); err != nil {
				return err
			}
		}
		time.Sleep(pause)
	}
}

func signal(pid int, sig unix.Signal) error {
	if err := unix.Kill(pid, sig); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("sending %s to process %d: %w", unix.SignalName(sig), pid, err)
	}
	return nil
}

// below lists the living processes below roots, parents first.
func below(all map[int]process, roots ...int) []int {
	children := map[int][]int{}
	for pid, p := range all {
		children[p.parent] = append(children[p.parent], pid)
	}
	var found []int
	seen := map[int]bool{}
	for _, r := range roots {
		seen[r] = true
	}
	for queue := roots; len(queue) > 0; queue = queue[1:] {
		for _, pid := range children[queue[0]] {
			if seen[pid] {
				continue
			}
			seen[pid] = true
			queue = append(queue, pid)
			if !all[pid].dead {
				found = append(found, pid)
			}
		}
	}
	return found
}

// processes reads all processes of this host.
func processes() (map[int]process, error) {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil, fmt.Errorf("reading /proc: %w", err)
	}
	all := make(map[int]process, len(names))
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		p, err := status(pid)
		if ignoreGone(err) != nil {
			return nil, err
		}
		if err == nil {
			all[pid] = p
		}
	}
	return all, nil
}

func status(pid int) (process, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return process{}, err
	}
	return parseStat(string(data))
}

// parseStat reads a line of /proc/PID/stat (proc_pid_stat(5)). The command's
// name, in parentheses, may hold anything.
func parseStat(line string) (process, error) {
	fields := strings.Fields(line[strings.LastIndexByte(line, ')')+1:])
	if len(fields) < 20 {
		return process{}, fmt.Errorf("a line of /proc/PID/stat is too short: %q", line)
	}
	parent, err := strconv.Atoi(fields[1])
	if err != nil {
		return process{}, fmt.Errorf("parent in a line of /proc/PID/stat: %w", err)
	}
	started, err := strconv.ParseUint(fields[19], 10, 64)
	if err != nil {
		return process{}, fmt.Errorf("start time in a line of /proc/PID/stat: %w", err)
	}
	return process{parent, started, fields[0] == "Z" || fields[0] == "X"}, nil
}

// ignoreGone drops the errors of reading a process that has just ended.
func ignoreGone(err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) {
		return nil
	}
	return err
}
