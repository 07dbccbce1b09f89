package methods

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/burst-hpc/burst/ft/ckpt"
)

// testJob is a job of which each attempt appends to one output, as Slurm's
// --open-mode=append has it.
type testJob struct {
	t      *testing.T
	method string
	args   []string
	at     int // of the program
	env    []string
	dir    string
	output string
}

func newJob(t *testing.T, method string, args ...string) *testJob {
	dir := t.TempDir()
	return &testJob{t: t, method: method, args: args, env: os.Environ(), dir: dir, output: filepath.Join(dir, "output")}
}

// start begins an attempt, which the test's end ends.
func (j *testJob) start(from *ckpt.Generation) ckpt.Step {
	j.t.Helper()
	s, err := j.tryStart(j.t.Context(), from)
	if err != nil {
		j.t.Fatalf("%v\n%s", err, j.said())
	}
	return s
}

func (j *testJob) tryStart(ctx context.Context, from *ckpt.Generation) (ckpt.Step, error) {
	j.t.Helper()
	out, err := os.OpenFile(j.output, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		j.t.Fatal(err)
	}
	j.t.Cleanup(func() { out.Close() })
	m, err := New(j.method, Options{})
	if err != nil {
		j.t.Fatal(err)
	}
	step, err := m.Start(ctx, ckpt.Launch{Args: j.args, Program: j.at, Env: j.env, Dir: j.dir, Stdout: out, Stderr: out, Scratch: j.t.TempDir(), From: from})
	if err != nil {
		return nil, err
	}
	j.t.Cleanup(func() {
		step.Signal(syscall.SIGKILL)
		step.Wait()
	})
	return step, nil
}

// checkpoint takes one that must be good.
func (j *testJob) checkpoint(s ckpt.Step, stop bool) *ckpt.Generation {
	j.t.Helper()
	into := j.t.TempDir()
	ctx, cancel := context.WithTimeout(j.t.Context(), longEnough)
	defer cancel()
	began := time.Now()
	made, err := s.Checkpoint(ctx, into, stop)
	if err != nil {
		j.t.Fatalf("%v\noutput:\n%s", err, j.said())
	}
	j.t.Logf("checkpoint of %d processes, stop %v: %v", made.Ranks, stop, time.Since(began).Round(time.Millisecond))
	if stop {
		if code, err := s.Wait(); code != endedByUs || err != nil {
			j.t.Errorf("a step that was stopped ended with %d, %v", code, err)
		}
	}
	return &ckpt.Generation{Dir: into, Manifest: ckpt.Manifest{Method: j.method, Ranks: made.Ranks, Iteration: -1, Extra: made.Extra}}
}

func (j *testJob) said() string {
	text, err := os.ReadFile(j.output)
	if err != nil {
		j.t.Fatal(err)
	}
	return string(text)
}

// await waits until the output has the line.
func (j *testJob) await(line string) {
	j.t.Helper()
	for limit := time.Now().Add(longEnough); !strings.Contains("\n"+j.said(), "\n"+line+"\n"); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(limit) {
			j.t.Fatalf("%q does not come:\n%s", line, j.said())
		}
	}
}

// ends waits for the end by itself, and wants that exit code and last line.
func (j *testJob) ends(s ckpt.Step, code int, last string) {
	j.t.Helper()
	got, err := s.Wait()
	if err != nil || got != code || lastLine(j.said()) != last {
		j.t.Errorf("ended with %d, %v, and %q; want %d and %q\n%s", got, err, lastLine(j.said()), code, last, j.said())
	}
}

// undisturbedLine is the last line of a run without DMTCP.
func (j *testJob) undisturbedLine() string {
	j.t.Helper()
	cmd := exec.CommandContext(j.t.Context(), j.args[0], j.args[1:]...)
	cmd.Env, cmd.Dir = j.env, j.dir
	out, err := cmd.Output()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		j.t.Fatal(err)
	}
	return lastLine(string(out))
}
