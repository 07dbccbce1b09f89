package bench

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"time"

	"github.com/burst-hpc/burst/slurm/slurmd"
)

// munged is one of our own.
type munged struct {
	socket string
	cmd    *exec.Cmd
	ended  chan error
}

func startMunged(ctx context.Context, dir string) (*munged, error) {
	path, err := exec.LookPath("munged")
	if err != nil {
		path = "/usr/sbin/munged" // of which an ordinary user's PATH knows nothing
	}
	key := make([]byte, 128)
	rand.Read(key) // never fails
	if err := os.WriteFile(filepath.Join(dir, "munge.key"), key, 0o600); err != nil {
		return nil, err
	}
	m := &munged{socket: filepath.Join(dir, "m.sock"), ended: make(chan error, 1)}
	m.cmd = exec.Command(path, "--foreground", "--force", "--socket="+m.socket, "--key-file="+filepath.Join(dir, "munge.key"),
		"--pid-file="+filepath.Join(dir, "munged.pid"), "--log-file="+filepath.Join(dir, "munged.log"), "--seed-file="+filepath.Join(dir, "munge.seed"))
	m.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
	started := make(chan error)
	go func() { // the kernel ends it with the thread that has started it
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := slurmd.Start(m.cmd)
		started <- err
		if err == nil {
			m.ended <- m.cmd.Wait()
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("starting munged: %w", err)
	}
	for {
		if _, err := os.Stat(m.socket); err == nil {
			return m, nil
		}
		select {
		case err := <-m.ended:
			return nil, fmt.Errorf("munged has ended: %w", err)
		case <-ctx.Done():
			m.stop()
			return nil, context.Cause(ctx)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func (m *munged) stop() {
	_ = m.cmd.Process.Signal(syscall.SIGTERM) // it may have ended
	<-m.ended
}
