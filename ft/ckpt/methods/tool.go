package methods

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// pause waits for d, give or take a tenth, and says false when ctx ended first.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(time.Duration(float64(d) * (0.9 + rand.Float64()/5)))
	defer t.Stop()
	select {
	case <-t.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}

// runTool runs a command that ends by itself, and returns its exit code and the
// end of what it printed, which goes to cmd.Stderr too if that is set. When ctx
// is over all of its process group is killed. The error is of the running, not
// of the exit code.
func runTool(ctx context.Context, cmd *exec.Cmd) (code int, out string, err error) {
	if err := ctx.Err(); err != nil {
		return 0, "", fmt.Errorf("%s is not started: %w", filepath.Base(cmd.Path), err)
	}
	said := &tail{also: cmd.Stderr}
	cmd.Stdout, cmd.Stderr = said, said
	p, err := startProcess(cmd)
	if err != nil {
		return 0, "", err
	}
	select {
	case <-p.ended:
		code, err := p.wait()
		return code, said.String(), err
	case <-ctx.Done():
	}
	if err := p.end(ctx, 0); err != nil {
		return 0, said.String(), err
	}
	return 0, said.String(), fmt.Errorf("%s was not done in time: %w", filepath.Base(cmd.Path), ctx.Err())
}

// tailSize is how much of a tool's output is kept.
const tailSize = 64 << 10

// tail keeps the end of what is written to it.
type tail struct {
	also io.Writer // may be nil

	mu   sync.Mutex
	text []byte
}

func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, b...)
	if over := len(t.text) - tailSize; over > 0 {
		t.text = append(t.text[:0], t.text[over:]...)
	}
	if t.also != nil {
		t.also.Write(b) // that the job's output is full does not make the tool fail
	}
	return len(b), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.text)
}

// lastLine is what an error shows of a tool's output.
func lastLine(out string) string {
	lines := strings.Split(strings.TrimSpace(out), "\n")
	line := strings.TrimSpace(lines[len(lines)-1])
	if len(line) > 300 {
		line = line[:300] + "…"
	}
	return line
}
