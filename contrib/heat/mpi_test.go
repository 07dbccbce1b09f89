package heat

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// build makes heat with the machine's mpicc and returns its path.
func build(t *testing.T, with ...string) string {
	t.Helper()
	bin := filepath.Join(t.TempDir(), "heat")
	makeIn(t, ".", append([]string{"OUT=" + bin}, with...)...)
	return bin
}

// makeIn runs make in a folder, where a warning is an error.
func makeIn(t *testing.T, dir string, args ...string) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "make", append([]string{"-s", "-C", dir, "CFLAGS=-O2 -Wall -Wextra -Werror"}, args...)...).CombinedOutput()
	if err != nil {
		t.Fatalf("building in %s (make deps installs an MPI and gcc): %v\n%s", dir, err, out)
	}
}

// outcome is how a run ended.
type outcome struct {
	code           int
	stdout, stderr string
}

// errorLine returns heat's own line of error.
func (o outcome) errorLine() string {
	for line := range strings.Lines(o.stderr) {
		if strings.HasPrefix(line, "heat: error: ") {
			return strings.TrimSpace(line)
		}
	}
	return ""
}

// checksum returns the checksum of the line that a whole run ends with.
func (o outcome) checksum(t *testing.T) string {
	t.Helper()
	_, rest, ok := strings.Cut(o.stdout, "heat: done iterations=")
	_, sum, ok2 := strings.Cut(rest, "checksum=")
	if !ok || !ok2 {
		t.Fatalf("no line of done, exit code %d:\n%s%s", o.code, o.stdout, o.stderr)
	}
	return strings.Fields(sum)[0]
}

// process is a running mpirun.
type process struct {
	cmd    *exec.Cmd
	lines  chan string // of stdout, closed at its end
	seen   strings.Builder
	stderr bytes.Buffer
}

// start runs bin on that many ranks. The test's end ends it.
func start(t *testing.T, bin string, ranks int, args ...string) *process {
	t.Helper()
	mpirun := []string{"--oversubscribe", "-n", strconv.Itoa(ranks)}
	if os.Geteuid() == 0 {
		mpirun = append(mpirun, "--allow-run-as-root")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	p := &process{lines: make(chan string, 4096)}
	p.cmd = exec.CommandContext(ctx, "mpirun", append(append(mpirun, bin), args...)...)
	p.cmd.Cancel = func() error { return p.cmd.Process.Signal(syscall.SIGTERM) }
	p.cmd.WaitDelay = 10 * time.Second
	p.cmd.Env = append(os.Environ(), "OMPI_MCA_orte_tmpdir_base="+t.TempDir())
	p.cmd.Stderr = &p.stderr
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatalf("starting mpirun (make deps installs it): %v", err)
	}
	go func() {
		defer close(p.lines)
		for s := bufio.NewScanner(stdout); s.Scan(); {
			p.lines <- s.Text()
		}
	}()
	return p
}

// await reads stdout up to a line that contains text, and returns the line.
func (p *process) await(t *testing.T, text string) string {
	t.Helper()
	deadline := time.After(time.Minute)
	for {
		select {
		case line, ok := <-p.lines:
			if !ok {
				t.Fatalf("mpirun ended before %q was printed:\n%s", text, p.seen.String())
			}
			fmt.Fprintln(&p.seen, line)
			if strings.Contains(line, text) {
				return line
			}
		case <-deadline:
			t.Fatalf("%q was not printed within a minute:\n%s", text, p.seen.String())
		}
	}
}

// wait waits for the end.
func (p *process) wait(t *testing.T) outcome {
	t.Helper()
	for line := range p.lines {
		fmt.Fprintln(&p.seen, line)
	}
	return outcome{exitCode(t, p.cmd.Wait()), p.seen.String(), p.stderr.String()}
}

// rank returns the process id of one rank, a child of mpirun.
func (p *process) rank(t *testing.T, rank int) int {
	t.Helper()
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	for _, stat := range stats {
		data, err := os.ReadFile(stat)
		if err != nil {
			continue // it has ended
		}
		fields := strings.Fields(string(data[bytes.LastIndexByte(data, ')')+1:]))
		if fields[1] != strconv.Itoa(p.cmd.Process.Pid) {
			continue
		}
		dir := filepath.Dir(stat)
		env, err := os.ReadFile(filepath.Join(dir, "environ"))
		if err != nil || !bytes.Contains(env, fmt.Appendf(nil, "\x00OMPI_COMM_WORLD_RANK=%d\x00", rank)) {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(dir))
		if err != nil {
			t.Fatal(err)
		}
		return pid
	}
	t.Fatalf("mpirun %d has no rank %d", p.cmd.Process.Pid, rank)
	return 0
}

// run runs heat on that many ranks to its end.
func run(t *testing.T, bin string, ranks int, args ...string) outcome {
	t.Helper()
	return start(t, bin, ranks, args...).wait(t)
}

// single runs heat as one process without mpirun, whose own messages would
// stand between those of heat.
func single(t *testing.T, bin string, args ...string) outcome {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), bin, args...)
	cmd.Env = append(os.Environ(), "OMPI_MCA_orte_tmpdir_base="+t.TempDir())
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	return outcome{exitCode(t, err), stdout.String(), stderr.String()}
}

func exitCode(t *testing.T, err error) int {
	t.Helper()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	if exit != nil {
		return exit.ExitCode()
	}
	return 0
}
