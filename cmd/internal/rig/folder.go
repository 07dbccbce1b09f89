package rig

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/burst-hpc/burst/slurm/sandbox"
	"github.com/burst-hpc/burst/slurm/slurmd"
)

// What a site's folder holds.
const (
	lockFile   = "rig.lock"
	netnsFile  = "netns"
	slurmDir   = "slurm"
	cloudDir   = "cloud"
	stateDir   = "state"
	spoolDir   = "spool"
	runDir     = "run"
	workDir    = "work"
	configFile = "burst.toml"
	pricesFile = "prices.csv"
	logFile    = "burstd.log"
)

const (
	markName   = "BURST_RIG"
	socketFile = "burstd.sock"
	runPrefix  = "burst-rig-"
	// A unix socket's path has at most 107 bytes; burstd makes a lock beside it.
	longestSocket = 107
)

// ErrInUse says that a living process holds the site in this folder.
var ErrInUse = errors.New("a running site uses this folder")

// mark is in the environment of a site's burstd.
func mark(dir string) string { return markName + "=" + dir }

// makeDir returns the absolute folder, free of symbolic links, so that it is
// the same string in every process that names it.
func makeDir(dir string) (string, error) {
	var err error
	if dir == "" {
		dir, err = os.MkdirTemp("", "burst-site-")
	} else {
		err = os.MkdirAll(dir, 0o755)
	}
	if err != nil {
		return "", err
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return "", err
	}
	return filepath.EvalSymlinks(dir)
}

// take makes this process the holder of the site in dir, for as long as it lives.
func take(dir string) (*os.File, error) {
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

// Reap ends and removes the site in dir whose process died or let it outlive.
// A missing folder is no error; one that a living process holds is ErrInUse.
func Reap(dir string) error {
	if _, err := os.Lstat(dir); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err := tryReap(dir); err != nil {
		return fmt.Errorf("ending the site in %s: %w", dir, err)
	}
	return nil
}

func tryReap(dir string) error {
	dir, err := makeDir(dir)
	if err != nil {
		return err
	}
	if err := onlyOurs(dir); err != nil { // before the lock is written into it
		return err
	}
	lock, err := take(dir)
	if err != nil {
		return err
	}
	defer lock.Close()
	if err := reap(dir); err != nil {
		return err
	}
	return remove(dir)
}

// reap empties dir but for the lock, which the caller holds.
func reap(dir string) error {
	if err := onlyOurs(dir); err != nil {
		return err
	}
	// burstd first, so that it launches nothing more.
	if err := slurmd.KillMarked(mark(dir)); err != nil {
		return err
	}
	if err := cleanCloud(dir); err != nil {
		return err
	}
	if err := sandbox.Reap(filepath.Join(dir, slurmDir)); err != nil {
		return err
	}
	return removeContents(dir)
}

// onlyOurs refuses a folder that a site would spoil.
func onlyOurs(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		switch e.Name() {
		case lockFile, netnsFile, slurmDir, cloudDir, stateDir, spoolDir, runDir, workDir, configFile, pricesFile, logFile:
		default:
			return fmt.Errorf("it holds %s, which is not a site's: give an empty or a new folder", e.Name())
		}
	}
	return nil
}

// remove removes the folder of a site of which nothing runs.
func remove(dir string) error {
	if err := removeContents(dir); err != nil {
		return err
	}
	return os.RemoveAll(dir)
}

func removeContents(dir string) error {
	if err := removeRun(dir); err != nil {
		return err
	}
	for _, name := range []string{netnsFile, slurmDir, cloudDir, stateDir, spoolDir, workDir, configFile, pricesFile, logFile} {
		if err := os.RemoveAll(filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	return nil
}

// makeRun makes the folder of burstd's socket and returns the socket's path.
// The link to a folder elsewhere is there before that folder.
func makeRun(dir string) (socket string, err error) {
	run := filepath.Join(dir, runDir)
	if len(filepath.Join(run, socketFile)) <= longestSocket {
		return filepath.Join(run, socketFile), os.MkdirAll(run, 0o755)
	}
	id := make([]byte, 8)
	rand.Read(id) // never fails
	name := runPrefix + hex.EncodeToString(id)
	target := filepath.Join(os.TempDir(), name)
	if len(filepath.Join(target, socketFile)) > longestSocket {
		target = filepath.Join("/tmp", name)
	}
	if err := os.Symlink(target, run); err != nil {
		return "", err
	}
	return filepath.Join(target, socketFile), os.Mkdir(target, 0o755)
}

func removeRun(dir string) error {
	run := filepath.Join(dir, runDir)
	target, err := os.Readlink(run)
	if err == nil && strings.HasPrefix(filepath.Base(target), runPrefix) {
		if err := os.RemoveAll(target); err != nil {
			return err
		}
	}
	return os.RemoveAll(run)
}
