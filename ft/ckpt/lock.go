package ckpt

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"
	"syscall"
	"time"
)

// How a generation that is being written is told from one whose writer has died:
// the writer holds the flock of its attempt's .lock, which the kernel frees when the
// process ends, however it does. Pids do not do: the writer may be on another host.
//
// On NFS (Linux since 2.6.12) flock is a byte-range lock on the server, and reaches
// all nodes. There it is freed when the lease of a dead client is over (version 4,
// 90 s), or, with version 3, not before the client has booted again, which a cloud
// node never does. It reaches this host alone with local_lock= or nolock, and on a
// Lustre that is mounted with localflock; some file systems have none. So a free lock
// whose holder is not known to be of this host, and a lock that is held for an attempt
// that is over, are believed only when nothing has been written for a while. If even
// that is wrong a live writer loses what it writes: its commit fails, and earlier
// generations are untouched.
const (
	quietFree = 15 * time.Minute
	quietHeld = 24 * time.Hour
)

var (
	errHeld = errors.New("it is held")
	// errNoLocks: the file system has no flock.
	errNoLocks = errors.New("the file system has no locks")
)

// tryLock takes f's lock for as long as f is open.
func tryLock(f *os.File, how int) error {
	for {
		switch err := syscall.Flock(int(f.Fd()), how|syscall.LOCK_NB); {
		case err == nil:
			return nil
		case errors.Is(err, syscall.EINTR):
		case errors.Is(err, syscall.EWOULDBLOCK):
			return errHeld
		case errors.Is(err, syscall.ENOSYS), errors.Is(err, syscall.ENOTSUP), errors.Is(err, syscall.ENOLCK), errors.Is(err, syscall.EINVAL):
			return errNoLocks
		default:
			return fmt.Errorf("locking %s: %w", f.Name(), err)
		}
	}
}

// lockAttempt takes this attempt's lock: ErrBusy if another process has it. On a
// file system without locks the file is returned unlocked.
func (f *Folder) lockAttempt() (*os.File, error) {
	name := path.Join(attemptName(f.o.Attempt), lockName)
	file, err := f.root.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	switch err := tryLock(file, syscall.LOCK_EX); {
	case errors.Is(err, errHeld):
		holder := readHolder(file)
		return nil, errors.Join(fmt.Errorf("%w (%s)", ErrBusy, holder), file.Close())
	case err != nil && !errors.Is(err, errNoLocks):
		return nil, errors.Join(err, file.Close())
	}
	// Who holds it is a hint: a full disk must not end a checkpoint here.
	if err := file.Truncate(0); err == nil {
		_, _ = file.WriteAt(holderText(), 0)
	}
	return file, nil
}

func holderText() []byte { return fmt.Appendf(nil, "%s pid %d\n", hostname(), os.Getpid()) }

func readHolder(f *os.File) string {
	b := make([]byte, 300)
	n, _ := f.ReadAt(b, 0)
	return strings.TrimSpace(string(b[:n]))
}

// abandoned says whether what lies in an attempt's dir, being written, will not be
// written on. With a nil error it returns the lock, if there is one, which the caller
// closes when it has cleared up.
func (f *Folder) abandoned(attempt int, dir string) (lock *os.File, dead bool, err error) {
	file, err := f.root.OpenFile(path.Join(attemptName(attempt), lockName), os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, true, nil // nobody ever began one
	}
	if err != nil {
		return nil, false, err
	}
	old := attempt < f.o.Attempt
	quiet := quietHeld
	switch err := tryLock(file, syscall.LOCK_EX); {
	case err == nil:
		quiet = quietFree
		if host, _, _ := strings.Cut(readHolder(file), " "); old || host != "" && host == hostname() {
			return file, true, nil
		}
	case errors.Is(err, errNoLocks) && old:
		quiet = quietFree
	case errors.Is(err, errNoLocks) || errors.Is(err, errHeld) && old:
	case errors.Is(err, errHeld):
		return nil, false, file.Close()
	default:
		return nil, false, errors.Join(err, file.Close())
	}
	last, err := lastWrite(f.root, dir)
	if err != nil || time.Since(last) < quiet {
		return nil, false, errors.Join(err, file.Close())
	}
	return file, true, nil
}

// lastWrite is the newest time of change in a folder.
func lastWrite(root *os.Root, dir string) (time.Time, error) {
	var last time.Time
	err := fs.WalkDir(root.FS(), dir, func(name string, _ fs.DirEntry, err error) error {
		if err == nil {
			var info fs.FileInfo
			if info, err = root.Lstat(name); err == nil && info.ModTime().After(last) {
				last = info.ModTime()
			}
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	})
	return last, err
}

// hold keeps a generation from every Prune, on all nodes, while the step starts
// from it: a shared flock of its manifest.
func (f *Folder) hold(id ID) error {
	f.Release()
	name := path.Join(dirOf(id), manifestName)
	file, err := openRegular(f.root, name)
	if err != nil {
		return f.unlessGone(dirOf(id), damagedIfMissing(err, f.root, dirOf(id), manifestName))
	}
	switch err := tryLock(file, syscall.LOCK_SH); {
	case errors.Is(err, errHeld):
		file.Close()
		return fmt.Errorf("checkpoint %s is being deleted: %w", absOf(f.root, dirOf(id)), errGone)
	case err != nil && !errors.Is(err, errNoLocks):
		file.Close()
		return err
	}
	f.used, f.useLock = id, file
	return nil
}

// Release lets Prune have the generation that Newest chose: the step runs, and
// needs its files no more.
func (f *Folder) Release() {
	if f.useLock != nil {
		f.useLock.Close()
	}
	f.used, f.useLock = ID{}, nil
}

// lockWhole takes a manifest's lock to delete its generation: errHeld while a step
// starts from it.
func lockWhole(manifest *os.File) error {
	if err := tryLock(manifest, syscall.LOCK_EX); !errors.Is(err, errNoLocks) {
		return err
	}
	return nil
}
