// Package motoserver runs moto, an emulator of AWS by others, as a process, for
// tests and benchmarks.
package motoserver

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"
)

// Server is a running emulator. It ends with this process at the latest.
type Server struct {
	Endpoint string // of all services
	process  *os.Process
	ended    chan struct{}
}

// program finds what make deps installs.
func program() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for ; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			break
		}
		if dir == filepath.Dir(dir) {
			return "", errors.New("no go.mod above the working directory")
		}
	}
	path := filepath.Join(dir, "build", "moto", "bin", "moto_server")
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("moto is not installed (run make deps): %w", err)
	}
	return path, nil
}

// listening is how moto says which port it was given.
var listening = regexp.MustCompile(`Running on (http://127\.0\.0\.1:\d+)`)

const mend = "rm -r build/moto and make deps install it anew"

// Start runs moto on a free port of this host, with its log in dir and env
// beside this process's environment, and returns when it answers.
func Start(ctx context.Context, dir string, env ...string) (*Server, error) {
	path, err := program()
	if err != nil {
		return nil, err
	}
	logPath := filepath.Join(dir, "moto.log")
	log, err := os.Create(logPath)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(path, "-H", "127.0.0.1", "-p", "0")
	// Moto asks botocore for its regions, which minds an empty AWS_PROFILE.
	cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "AWS_") })
	cmd.Env = append(append(cmd.Env, "PYTHONUNBUFFERED=1"), env...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	s := &Server{ended: make(chan struct{})}
	started := make(chan error)
	go func() {
		// The kernel ends moto with the thread that started it: stay on it.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer close(s.ended)
		err := cmd.Start()
		s.process = cmd.Process
		started <- err
		if err == nil {
			_ = cmd.Wait() // it ends by our signal, or the log says why
		}
	}()
	err = <-started
	_ = log.Close() // moto has its own
	if err != nil {
		return nil, fmt.Errorf("starting moto: %w (%s)", err, mend)
	}
	if err := s.await(ctx, logPath); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// await returns when moto answers.
func (s *Server) await(ctx context.Context, logPath string) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		said, err := os.ReadFile(logPath)
		if err != nil {
			return err
		}
		if m := listening.FindSubmatch(said); m != nil && answers(ctx, string(m[1])) {
			s.Endpoint = string(m[1])
			return nil
		}
		select {
		case <-s.ended:
			return fmt.Errorf("moto ended (%s):\n%s", mend, said)
		case <-ctx.Done():
			return fmt.Errorf("moto does not answer within a minute:\n%s", said)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// Close ends it. It may be called again.
func (s *Server) Close() {
	_ = s.process.Kill() // it may have ended
	<-s.ended
}

func answers(ctx context.Context, endpoint string) bool {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, endpoint+"/moto-api/data.json", nil)
	if err != nil {
		return false
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return false
	}
	_ = answer.Body.Close()
	return answer.StatusCode == http.StatusOK
}
