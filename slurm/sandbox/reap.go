package sandbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/burst-hpc/burst/slurm/slurmd"
)

const (
	markName   = "BURST_SANDBOX"
	recordFile = "sandbox.json"
	lockFile   = "sandbox.lock"
)

// ErrInUse says that a living process holds the sandbox in this folder.
var ErrInUse = errors.New("a running sandbox uses this folder")

// record is what lets another process clean up.
type record struct {
	ID  string `json:"id"`  // 16 hexadecimal digits
	Run string `json:"run"` // folder of sockets
}

func (r record) mark() string { return markName + "=" + r.ID }

// shortRun is a folder of sockets for a sandbox whose own path is too long.
func shortRun(id string) string {
	dir := filepath.Join(os.TempDir(), "burst-"+id)
	if len(dir) > longestRun {
		dir = "/tmp/burst-" + id
	}
	return dir
}

func writeRecord(dir string, r record) error {
	data, err := json.Marshal(r)
	if err != nil {
		return err
	}
	temp := filepath.Join(dir, recordFile+".new")
	if err := os.WriteFile(temp, append(data, '\n'), 0o600); err != nil {
		return err
	}
	return os.Rename(temp, filepath.Join(dir, recordFile))
}

// readRecord refuses a record that would have us remove a foreign folder.
func readRecord(dir string) (record, error) {
	var r record
	path := filepath.Join(dir, recordFile)
	data, err := os.ReadFile(path)
	if err != nil {
		return r, err
	}
	if err := json.Unmarshal(data, &r); err != nil {
		return r, fmt.Errorf("reading %s: %w", path, err)
	}
	if len(r.ID) != 16 || strings.Trim(r.ID, "0123456789abcdef") != "" ||
		r.Run != dir && filepath.Base(r.Run) != "burst-"+r.ID {
		return r, fmt.Errorf("%s was not written by a sandbox", path)
	}
	return r, nil
}

// lockDir marks dir as in use by this process, for as long as it lives.
func lockDir(dir string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, lockFile), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			err = ErrInUse
		}
		return nil, fmt.Errorf("locking %s: %w", dir, err)
	}
	return f, nil
}

// Reap ends and removes what a sandbox in dir left whose process died or let
// it outlive. A missing folder is no error; one that a living process holds
// is ErrInUse.
func Reap(dir string) error {
	if !exists(dir) {
		return nil
	}
	dir, err := makeDir(dir)
	if err != nil {
		return fmt.Errorf("cleaning up a sandbox: %w", err)
	}
	lock, err := lockDir(dir)
	if err != nil {
		return fmt.Errorf("cleaning up a sandbox: %w", err)
	}
	defer lock.Close()
	if err := reap(dir); err != nil {
		return fmt.Errorf("cleaning up the sandbox in %s: %w", dir, err)
	}
	return os.RemoveAll(dir)
}

// reap empties dir but for the lock, which the caller holds.
func reap(dir string) error {
	r, err := readRecord(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return onlyLock(dir)
	}
	if err != nil {
		return err
	}
	if err := killAll(filepath.Join(dir, "slurm.conf"), r.mark()); err != nil {
		return err
	}
	if r.Run != dir {
		if err := os.RemoveAll(r.Run); err != nil {
			return err
		}
	}
	return removeContents(dir)
}

func onlyLock(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.Name() != lockFile && e.Name() != recordFile+".new" {
			return fmt.Errorf("%s holds %s, which is not a sandbox's: give an empty or a new folder", dir, e.Name())
		}
	}
	return nil
}

// removeContents leaves the record to the end: until then a second attempt
// knows what it is about.
func removeContents(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.Name() == lockFile || e.Name() == recordFile {
			continue
		}
		if err := os.RemoveAll(filepath.Join(dir, e.Name())); err != nil {
			return err
		}
	}
	return os.RemoveAll(filepath.Join(dir, recordFile))
}

// killAll ends every process of the sandbox. While one is dying it can start
// another, so it looks until it finds none.
func killAll(conf, mark string) error {
	for deadline := time.Now().Add(10 * time.Second); ; {
		pids, err := members(conf, mark)
		if err != nil || len(pids) == 0 {
			return err
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("processes %v do not end", pids)
		}
		for _, pid := range pids {
			if err := slurmd.KillTree(pid); err != nil {
				return err
			}
		}
	}
}

// members lists the processes of a sandbox, as far as their environment tells:
// those with its mark, its Slurm daemons (whoever resumes a node need not
// pass the mark on), its jobs (a user's --export may drop the mark), and the
// commands that ask and the programs that serve its controller. A
// shell in which someone has set SLURM_CONF to look at the cluster is none.
func members(conf, mark string) ([]int, error) {
	pids, err := slurmd.Marked(mark)
	if err != nil {
		return nil, err
	}
	users, err := slurmd.Marked("SLURM_CONF=" + conf)
	if err != nil {
		return nil, err
	}
	for _, pid := range users {
		if isSlurmOrJob(pid) {
			pids = append(pids, pid)
		}
	}
	return pids, nil
}

// isSlurmOrJob is false for a process that is gone.
func isSlurmOrJob(pid int) bool {
	comm, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
	if err != nil {
		return false
	}
	switch strings.TrimSpace(string(comm)) {
	case "slurmctld", "slurmscriptd", "slurmd", "slurmstepd":
		return true
	case "scontrol", "squeue", "sinfo", "scancel": // of a daemon that was killed: nobody waits for them
		return true
	case "burst-resume", "burst-suspend", "burst-resume-fa": // slurmctld's, which leaves them without a mark
		return true
	}
	env, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	return err == nil && strings.Contains("\x00"+string(env), "\x00SLURM_JOB_ID=")
}

// Close ends everything that the cluster started, jobs included, and removes
// its folder, unless Keep. It may be called again.
func (c *Cluster) Close() error {
	if c.lock == nil {
		return nil
	}
	err := c.end()
	c.lock.Close()
	c.lock = nil
	if err != nil {
		return fmt.Errorf("closing the sandbox in %s: %w", c.Dir, err)
	}
	return nil
}

func (c *Cluster) end() error {
	if c.ports != nil {
		defer c.ports.release()
	}
	if c.Mark == "" { // nothing was begun, and the folder may be a foreign one
		if err := os.Remove(filepath.Join(c.Dir, lockFile)); err != nil {
			return err
		}
		if err := os.Remove(c.Dir); !errors.Is(err, unix.ENOTEMPTY) {
			return err
		}
		return nil
	}
	if err := killAll(c.Conf, c.Mark); err != nil {
		return err
	}
	for _, d := range c.daemons {
		<-d.done // no zombies
	}
	c.ctld = nil
	if c.run != c.Dir {
		if err := os.RemoveAll(c.run); err != nil {
			return err
		}
	}
	if c.o.Keep {
		return nil
	}
	return os.RemoveAll(c.Dir)
}
