package methods

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

const (
	// portTime is how long a new coordinator may take to say its port.
	portTime = 20 * time.Second
	// dmtcpLeaveTime is what a coordinator or a step that was told to end gets for it.
	dmtcpLeaveTime = 5 * time.Second
	// logLimit is how much of the coordinator's log is read at once: a program
	// that forks writes a line into it each time.
	logLimit = 4 << 20
)

// coordinator is the dmtcp_coordinator of one start of a step. It is this
// process's child and not --daemon, so that its end is seen, and so that it ends,
// and the step's processes with it, when this process dies.
type coordinator struct {
	*process
	tools dmtcpTools
	host  string
	port  int
	log   string
}

func startCoordinator(ctx context.Context, t dmtcpTools, r dmtcpRoom, host string) (*coordinator, error) {
	c := &coordinator{tools: t, host: host, log: filepath.Join(r.work, "coordinator.log")}
	scripts := filepath.Join(r.work, "scripts") // it writes restart scripts there
	if err := os.Mkdir(scripts, 0o700); err != nil {
		return nil, err
	}
	log, err := os.OpenFile(c.log, os.O_CREATE|os.O_EXCL|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("the coordinator's log: %w", err)
	}
	defer log.Close()
	portFile := filepath.Join(r.work, "port")
	// A dmtcp_command that is killed before it has its answer would kill it, and
	// with it the step: it dies of SIGPIPE.
	args := []string{"sh", "-c", `trap "" PIPE; exec "$@"`, "sh", t.coordinator, "-p", "0", "--port-file", portFile, "--exit-on-last", "--ckptdir", scripts}
	if r.temp != "" {
		args = append(args, "--tmpdir", r.temp)
	}
	c.process, err = startProcess(&exec.Cmd{Path: shell, Args: args, Env: withoutDMTCP(os.Environ()), Stdout: log, Stderr: log})
	if err != nil {
		return nil, err
	}
	limit, cancel := context.WithTimeout(ctx, portTime)
	defer cancel()
	for c.running() {
		if text, err := os.ReadFile(portFile); err == nil {
			if port := parsePort(string(text)); port > 0 {
				c.port = port
				return c, nil
			}
		}
		if !pause(limit, 20*time.Millisecond) {
			return nil, withMore(fmt.Errorf("the coordinator did not say its port: %w", limit.Err()), c.end(ctx))
		}
	}
	text, _ := c.logAfter(0) // the message is the better for it
	return nil, fmt.Errorf("the coordinator ended at once: %w", failed(c.code, text))
}

// parsePort reads a port file; 0: there is no port in it yet.
func parsePort(text string) int {
	if port := countOf(strings.TrimSpace(text)); port < 1<<16 {
		return port
	}
	return 0
}

// command runs dmtcp_command. It returns when ctx is over, but leaves the command
// to its end: what it has said may have been heard.
func (c *coordinator) command(ctx context.Context, what string) (code int, out string, err error) {
	if err := ctx.Err(); err != nil {
		return 0, "", fmt.Errorf("dmtcp_command is not started: %w", err)
	}
	type answer struct {
		code int
		out  string
		err  error
	}
	done := make(chan answer, 1)
	whole, cancel := context.WithCancel(context.WithoutCancel(ctx))
	go func() {
		defer cancel()
		code, out, err := runTool(whole, &exec.Cmd{
			Path: c.tools.command,
			Args: []string{c.tools.command, "-h", loopback, "-p", strconv.Itoa(c.port), what},
			Env:  withoutDMTCP(os.Environ()),
		})
		if !c.running() && (err != nil || code != 0) {
			err = fmt.Errorf("the coordinator has ended (code %d)", c.code)
		}
		done <- answer{code, out, err}
	}()
	go func() {
		select {
		case <-c.ended: // then nobody will answer it
			cancel()
		case <-whole.Done():
		}
	}()
	select {
	case a := <-done:
		return a.code, a.out, a.err
	case <-ctx.Done():
		return 0, "", fmt.Errorf("dmtcp_command %s was not done in time: %w", what, ctx.Err())
	}
}

// end kills the coordinator, and with it what is left of the step below it. A
// graceful word is of no use: with its clients gone it has left by itself.
func (c *coordinator) end(ctx context.Context) error {
	return c.process.end(context.WithoutCancel(ctx), time.Second)
}

// died says that the coordinator did not leave by itself.
func (c *coordinator) died() bool { return !c.running() && c.code != 0 }

// logSize is where the log ends now.
func (c *coordinator) logSize() (int64, error) {
	st, err := os.Stat(c.log)
	if err != nil {
		return 0, err
	}
	return st.Size(), nil
}

// logAfter is the log from a byte on; its end, where that is too much.
func (c *coordinator) logAfter(from int64) (string, error) {
	f, err := os.Open(c.log)
	if err != nil {
		return "", err
	}
	defer f.Close()
	if st, err := f.Stat(); err == nil {
		from = max(from, st.Size()-logLimit)
	}
	if _, err := f.Seek(from, io.SeekStart); err != nil {
		return "", err
	}
	text, err := io.ReadAll(io.LimitReader(f, logLimit))
	return string(text), err
}
