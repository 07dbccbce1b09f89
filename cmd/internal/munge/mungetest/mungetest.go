// Package mungetest runs a private munged for a test.
package mungetest

import (
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/burst-hpc/burst/slurm/slurmd"
)

// Start runs a munged with a key of its own until the test ends, and returns
// its socket.
func Start(t testing.TB) (socket string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "m") // t.TempDir is too long for a socket's path
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil { // a test's other users ask it too
		t.Fatal(err)
	}
	key := make([]byte, 128)
	rand.Read(key) // never fails
	if err := os.WriteFile(filepath.Join(dir, "key"), key, 0o600); err != nil {
		t.Fatal(err)
	}
	socket = filepath.Join(dir, "s")
	stop, err := run(dir, socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		c, err := net.Dial("unix", socket)
		if err == nil {
			c.Close()
			return socket
		}
		if time.Now().After(end) {
			text, readErr := os.ReadFile(filepath.Join(dir, "log"))
			t.Fatal(errors.Join(fmt.Errorf("munged does not listen: %w: %s", err, text), readErr))
		}
	}
}

// run starts munged. The kernel ends it with the thread that started it, so
// that a goroutine stays on that thread until munged is gone.
func run(dir, socket string) (stop func(), err error) {
	path, err := exec.LookPath("munged")
	if err != nil {
		path = "/usr/sbin/munged" // of which an ordinary user's PATH knows nothing
	}
	// --force: munged dislikes folders that others may write above it.
	cmd := exec.Command(path, "--foreground", "--force", "--socket="+socket, "--key-file="+filepath.Join(dir, "key"),
		"--pid-file="+filepath.Join(dir, "pid"), "--log-file="+filepath.Join(dir, "log"), "--seed-file="+filepath.Join(dir, "seed"))
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: unix.SIGKILL}
	started, ended := make(chan error), make(chan struct{})
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer close(ended)
		err := slurmd.Start(cmd) // with no signal masked
		started <- err
		if err == nil {
			_ = cmd.Wait() // it ends by our signal
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("starting munged: %w", err)
	}
	return func() {
		_ = cmd.Process.Signal(unix.SIGTERM) // it may have ended
		<-ended
	}, nil
}
