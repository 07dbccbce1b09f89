package slurm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// Runner runs one command and returns what it printed. It is exported so that
// tests can record and interrupt commands.
type Runner interface {
	Run(ctx context.Context, name string, args ...string) (stdout, stderr []byte, err error)
}

// Exec runs Slurm's own commands, without a shell.
type Exec struct {
	Conf    string        // slurm.conf; empty: what SLURM_CONF says, or Slurm's default
	BinDir  string        // where the commands lie; empty: the PATH, then the usual folders
	Timeout time.Duration // of one command; 30 s if zero
	Log     *slog.Logger  // each command at debug; nil: none
}

var _ Runner = Exec{}

const (
	defaultTimeout = 30 * time.Second
	// killDelay is how long a killed command's children may hold its output open.
	killDelay = 2 * time.Second
	// binPath serves callers that have no PATH: slurmctld gives its programs none.
	binPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/opt/slurm/bin"
)

// Run runs the command in a process group of its own, which is killed when
// ctx ends or the timeout passes.
func (e Exec) Run(ctx context.Context, name string, args ...string) (stdout, stderr []byte, err error) {
	path, err := e.find(name)
	if err != nil {
		return nil, nil, err
	}
	timeout := e.Timeout
	if timeout == 0 {
		timeout = defaultTimeout
	}
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("no answer within %s: %w", timeout, context.DeadlineExceeded))
	defer cancel()

	var out, errOut bytes.Buffer
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Env = e.env()
	cmd.Stdout, cmd.Stderr = &out, &errOut // a nil Stdin is /dev/null
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = killDelay
	start := time.Now()
	err = cmd.Run()
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if e.Log != nil {
		e.Log.Debug("ran", "command", name, "args", oneLine([]byte(strings.Join(args, " "))), "took", time.Since(start), "err", err)
	}
	return out.Bytes(), errOut.Bytes(), err
}

// find looks the command up without need of a PATH in our environment.
func (e Exec) find(name string) (string, error) {
	dirs := filepath.SplitList(searchPath())
	if e.BinDir != "" {
		dirs = []string{e.BinDir}
	}
	for _, dir := range dirs {
		path := filepath.Join(dir, name)
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return path, nil
		}
	}
	return "", fmt.Errorf("%s: %w in %v", name, exec.ErrNotFound, dirs)
}

func searchPath() string {
	if p := os.Getenv("PATH"); p != "" {
		return p + ":" + binPath
	}
	return binPath
}

// env is all that a command sees of our environment. Variables that change
// the output (SQUEUE_FORMAT, SLURM_CLUSTERS, …) stay out.
func (e Exec) env() []string {
	env := []string{
		"PATH=" + searchPath(),
		"LC_ALL=C",
		// Seconds since 1970: Slurm prints local time without a zone, which is
		// ambiguous for one hour a year.
		"SLURM_TIME_FORMAT=%s",
		// Without it a hidden partition, and the nodes of none but hidden ones, are
		// shown to root alone, and burstd may be SlurmUser.
		"SCONTROL_ALL=1",
		"SLURM_BITSTR_LEN=0", // else a long list of an array's tasks is cut off
	}
	if tz, ok := os.LookupEnv("TZ"); ok {
		env = append(env, "TZ="+tz)
	}
	if conf := e.Conf; conf != "" {
		env = append(env, "SLURM_CONF="+conf)
	} else if conf := os.Getenv("SLURM_CONF"); conf != "" {
		env = append(env, "SLURM_CONF="+conf)
	}
	return env
}

// exited says whether err is a command's own exit rather than our failure to run it.
func exited(err error) bool {
	var exit interface{ ExitCode() int } // *exec.ExitError is one
	return errors.As(err, &exit) && exit.ExitCode() >= 0
}
