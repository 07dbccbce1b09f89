package api

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// maxSocketPath is the length of sun_path less its final zero.
const maxSocketPath = 107

// Listen opens burstd's socket, makes its folder if need be, and lets anybody
// connect: the server decides by the peer's uid. A socket file that a crash left
// behind is removed, one that somebody listens on is an error. A lock file beside
// it is held meanwhile, so that of two burstds that start at once only one listens.
func Listen(path string) (net.Listener, error) {
	if len(path) > maxSocketPath {
		return nil, fmt.Errorf("socket path %s has %d bytes, the kernel takes %d", path, len(path), maxSocketPath)
	}
	if err := makeFolder(filepath.Dir(path)); err != nil {
		return nil, fmt.Errorf("making the socket's folder: %w", err)
	}
	lock, err := lockFile(path + ".lock")
	if err != nil {
		return nil, err
	}
	defer lock.Close()
	if err := removeStale(path); err != nil {
		return nil, err
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, fmt.Errorf("opening the socket: %w", err)
	}
	if err := os.Chmod(path, 0o666); err != nil {
		return nil, errors.Join(fmt.Errorf("opening the socket to users: %w", err), l.Close())
	}
	return l, nil
}

// makeFolder makes the folder if it is not there, for anybody to reach the
// socket in it, whatever our umask.
func makeFolder(dir string) error {
	if info, err := os.Stat(dir); err == nil && info.IsDir() {
		return nil // its mode is the site's affair
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	return os.Chmod(dir, 0o755)
}

// lockFile waits for the lock; closing the file ends it. Others cannot open
// the file, so no user can hold the lock against us.
func lockFile(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the socket's lock: %w", err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		return nil, errors.Join(fmt.Errorf("locking %s: %w", path, err), f.Close())
	}
	return f, nil
}

func removeStale(path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("looking for an old socket: %w", err)
	}
	if info.Mode().Type() != fs.ModeSocket {
		return fmt.Errorf("%s exists and is no socket: not removed", path)
	}
	c, err := net.DialTimeout("unix", path, time.Second)
	if err == nil {
		c.Close()
		return fmt.Errorf("another burstd listens on %s", path)
	}
	// Only a refusal proves that nobody listens; a full queue, say, does not.
	if !errors.Is(err, syscall.ECONNREFUSED) {
		return fmt.Errorf("is another burstd on %s? %w", path, err)
	}
	if err := os.Remove(path); err != nil {
		return fmt.Errorf("removing an old socket: %w", err)
	}
	return nil
}
