package ckpt

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
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

// lockAttempt takes this attempt's lock: ErrBusy if another process writes a
// generation. One that clears up has it for a moment, which is waited for. On a file
// system without locks the file is returned unlocked.
func (f *Folder) lockAttempt(ctx context.Context) (*os.File, error) {
	for try := 0; ; try++ {
		file, err := takeLock(f.root, path.Join(attemptName(f.o.Attempt), lockName))
		if try == lockTries || !errors.Is(err, ErrBusy) {
			return file, err
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-time.After(lockPause/2 + rand.N(lockPause)):
		}
	}
}

const (
	lockTries = 5
	lockPause = 100 * time.Millisecond
)

func takeLock(root *os.Root, name string) (*os.File, error) {
	file, err := root.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
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

// abandoned says whether what lies in an attempt's dir, being written under a lock,
// will not be written on. With a nil error it returns the lock, if there is one, which
// the caller closes when it has cleared up.
func (f *Folder) abandoned(attempt int, lockFile, dir string) (lock *os.File, dead bool, err error) {
	file, err := f.root.OpenFile(lockFile, os.O_RDWR, 0)
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
