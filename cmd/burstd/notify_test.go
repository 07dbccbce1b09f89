package main

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/burst-hpc/burst/cmd/internal/api"
)

// configuration is that of a burstd whose Slurm does not exist.
const configuration = `cluster = "test"
[slurm]
conf = "DIR/slurm.conf"
bin = "DIR/no-slurm"
user = "root"
[daemon]
socket = "DIR/s"
spool = "DIR/spool"
state = "DIR"
[provider.here]
kind = "local"
dir = "DIR/local"
slurmd = "DIR/no-slurm/slurmd"
[pool.p]
provider = "here"
nodes = "p[1-2]"
partition = "p"
instance_types = ["small"]
cpus = 1
real_memory = 100
ports = "17001-17002"
`

func build(t *testing.T, dir string) (program string) {
	t.Helper()
	program = filepath.Join(dir, "burstd")
	if out, err := exec.Command("go", "build", "-buildvcs=false", "-o", program, ".").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return program
}

// burstd is one that runs under a systemd which the test plays.
type burstd struct {
	*exec.Cmd
	socket string
	notify *net.UnixConn
	stderr *bytes.Buffer
}

func start(t *testing.T, dir, program string, watchdog time.Duration) *burstd {
	t.Helper()
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: filepath.Join(dir, "n"), Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	b := &burstd{Cmd: exec.Command(program, "--config", filepath.Join(dir, "burst.toml")), socket: filepath.Join(dir, "s"), notify: conn, stderr: new(bytes.Buffer)}
	b.Stderr = b.stderr
	b.Env = append(os.Environ(), "NOTIFY_SOCKET="+filepath.Join(dir, "n"), fmt.Sprint("WATCHDOG_USEC=", watchdog.Microseconds()))
	if err := b.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		b.Process.Kill() // of no effect if it has stopped
		b.Wait()
		if t.Failed() {
			t.Logf("burstd's log:\n%s", b.stderr)
		}
	})
	return b
}

// hear waits for a message to systemd.
func (b *burstd) hear(t *testing.T, want string) {
	t.Helper()
	buf := make([]byte, 4096)
	var heard []string
	b.notify.SetReadDeadline(time.Now().Add(20 * time.Second))
	for {
		n, err := b.notify.Read(buf)
		if err != nil {
			t.Fatalf("no %s: %v; heard %q", want, err, heard)
		}
		for line := range strings.Lines(string(buf[:n])) {
			if line = strings.TrimSpace(line); line == want {
				return
			}
			heard = append(heard, line)
		}
	}
}

// TestSystemd has burstd talk to systemd as its unit has it, where no Slurm
// answers: burstd comes up all the same, says so, and stops cleanly.
func TestSystemd(t *testing.T) {
	if testing.Short() {
		t.Skip("builds and runs burstd: slow end-to-end, run by make test")
	}
	dir, err := os.MkdirTemp("", "b") // t.TempDir is too long for a socket's path
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	program := build(t, dir)
	for name, text := range map[string]string{"burst.toml": strings.ReplaceAll(configuration, "DIR", dir), "slurm.conf": ""} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}

	b := start(t, dir, program, 3*time.Second)
	b.hear(t, "READY=1")
	client := api.NewClient(b.socket)
	defer client.Close()
	s, err := client.Status(t.Context())
	if err != nil {
		t.Fatalf("burstd is ready and does not answer: %v", err)
	}
	if s.SlurmOK || s.Providers["here"] == "" {
		t.Errorf("status without Slurm: %+v", s)
	}
	b.hear(t, "WATCHDOG=1")
	b.hear(t, "WATCHDOG=1")

	if err := b.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	b.hear(t, "STOPPING=1")
	if err := b.Wait(); err != nil {
		t.Errorf("burstd did not stop cleanly: %v", err)
	}
	if _, err := os.Stat(b.socket); !os.IsNotExist(err) {
		t.Errorf("the socket is left behind: %v", err)
	}
}

// TestWrongConfigurationEndsWith2: the unit does not start it again then.
func TestWrongConfigurationEndsWith2(t *testing.T) {
	if testing.Short() {
		t.Skip("builds and runs burstd: slow end-to-end, run by make test")
	}
	dir := t.TempDir()
	path := filepath.Join(dir, "burst.toml")
	if err := os.WriteFile(path, []byte("clutser = \"c\"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	program := build(t, dir)
	for _, config := range []string{path, filepath.Join(dir, "none.toml")} {
		cmd := exec.Command(program, "--config", config)
		out, err := cmd.CombinedOutput()
		if err == nil || cmd.ProcessState.ExitCode() != 2 || !strings.Contains(string(out), config) {
			t.Errorf("with %s: %v, %s", filepath.Base(config), err, out)
		}
	}
}
