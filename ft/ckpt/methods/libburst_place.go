package methods

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// libTemp is where sockets are: on this host, at a path that is short enough for one,
// and that containers see. A variable for the tests.
var libTemp = "/tmp"

const (
	libSocketName = "socket"
	// libYoung is how old a folder without an owner is before it is deleted: its
	// maker may not have its lock yet.
	libYoung = time.Minute
)

// libPlace is the folder of one step's socket: this user's alone, and locked while its
// process lives.
type libPlace struct {
	dir  string
	lock *os.File
}

func libPrefix() string { return fmt.Sprintf("burst-lib-%d-", os.Geteuid()) }

// newLibPlace makes a folder, and deletes those of processes that were killed.
func newLibPlace() (*libPlace, error) {
	sweepLib()
	p := &libPlace{dir: filepath.Join(libTemp, libPrefix()+rand.Text())}
	if err := os.Mkdir(p.dir, 0o700); err != nil {
		return nil, err
	}
	f, err := os.Open(p.dir)
	if err == nil {
		p.lock = f
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	}
	if err != nil {
		return nil, errors.Join(err, p.remove())
	}
	return p, nil
}

func (p *libPlace) remove() error {
	err := os.RemoveAll(p.dir)
	if p.lock != nil {
		err = errors.Join(err, p.lock.Close())
	}
	return err
}

// sweepLib deletes what nobody holds. What it cannot delete does no harm.
func sweepLib() {
	dirs, _ := filepath.Glob(filepath.Join(libTemp, libPrefix()+"*")) // the pattern is right
	for _, dir := range dirs {
		if st, err := os.Lstat(dir); err == nil && isOldOfOurs(st) {
			removeUnheld(dir)
		}
	}
}

func isOldOfOurs(st fs.FileInfo) bool {
	sys, ok := st.Sys().(*syscall.Stat_t)
	return ok && st.IsDir() && int(sys.Uid) == os.Geteuid() && time.Since(st.ModTime()) > libYoung
}

func removeUnheld(dir string) {
	f, err := os.OpenFile(dir, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_DIRECTORY, 0)
	if err != nil {
		return
	}
	defer f.Close()
	if unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil {
		os.RemoveAll(dir)
	}
}
