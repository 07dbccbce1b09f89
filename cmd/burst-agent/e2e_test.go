package main

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/cloud/aws/imds/imdstest"
	"github.com/burst-hpc/burst/cmd/internal/munge"
	"github.com/burst-hpc/burst/cmd/internal/munge/mungetest"
	"github.com/burst-hpc/burst/cmd/internal/nodeapi"
)

// controller is what burstd knows: one instance, i-1.
type controller struct {
	mu      sync.Mutex
	notices []cloud.Notice
	beats   []nodeapi.Beat
}

func (c *controller) Known(_ context.Context, instance, addr string) error {
	if instance != "i-1" || addr != "127.0.0.1" {
		return nodeapi.ErrNotYours
	}
	return nil
}

func (c *controller) WhoAmI(context.Context, string, string) (nodeapi.Identity, error) {
	return nodeapi.Identity{}, nodeapi.ErrNotYours
}

func (c *controller) Report(context.Context, nodeapi.Report) error { return nodeapi.ErrNotYours }

func (c *controller) Notice(ctx context.Context, addr string, n cloud.Notice) error {
	if err := c.Known(ctx, n.Instance, addr); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.notices = append(c.notices, n)
	return nil
}

func (c *controller) Beat(ctx context.Context, b nodeapi.Beat) (time.Duration, error) {
	if err := c.Known(ctx, b.Instance, b.Addr); err != nil {
		return 0, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.beats = append(c.beats, b)
	return 20 * time.Second, nil
}

func (c *controller) heard() (notices []cloud.Notice, beats int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append(notices, c.notices...), len(c.beats)
}

// serve runs the real server on addr until stop.
func (c *controller) serve(t *testing.T, addr, socket string) (stop func()) {
	t.Helper()
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	srv := nodeapi.New(c, munge.New(munge.Options{Socket: socket}), nodeapi.Limits{}, slog.New(slog.DiscardHandler))
	go func() { ended <- srv.Serve(ctx, ln) }()
	return func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within 30 s: %s", what)
		}
	}
}

// TestAgent runs the program as its unit does, with real munged, the metadata
// service's fake and burstd's real listener, which is away now and then.
func TestAgent(t *testing.T) {
	if testing.Short() {
		t.Skip("builds and runs burst-agent with munged: slow end-to-end, run by make test")
	}
	if os.Getuid() != 0 {
		t.Skip("burstd takes root's MUNGE credentials only")
	}
	dir, err := os.MkdirTemp("", "a") // t.TempDir is too long for a socket's path
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	program := filepath.Join(dir, "burst-agent")
	if out, err := exec.Command("go", "build", "-buildvcs=false", "-o", program, ".").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	socket, foreign := mungetest.Start(t), mungetest.Start(t)
	service := imdstest.New("i-1")
	service.LimitTTL(2 * time.Second) // tokens expire all the time
	url, err := service.Serve(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := ln.Addr().String()
	ln.Close()
	args := []string{"--imds", url, "--urls", "http://127.0.0.1:1 http://" + addr, "--munge-socket", socket, "--spool", dir, "--state", filepath.Join(dir, "told")}
	systemd, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: filepath.Join(dir, "n"), Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer systemd.Close()
	c := &controller{}
	stop := c.serve(t, addr, socket)
	var log bytes.Buffer
	agent := exec.Command(program, args...)
	agent.Env = append(os.Environ(), "NOTIFY_SOCKET="+filepath.Join(dir, "n"), fmt.Sprint("WATCHDOG_USEC=", (6*time.Second).Microseconds()))
	agent.Stderr = &log
	if err := agent.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		agent.Process.Kill() // of no effect if it has stopped
		agent.Wait()
		if t.Failed() {
			t.Logf("the agent's log:\n%s", &log)
		}
	})
	hear := func(want string) {
		t.Helper()
		buf := make([]byte, 4096)
		systemd.SetReadDeadline(time.Now().Add(30 * time.Second))
		for {
			n, err := systemd.Read(buf)
			if err != nil {
				t.Fatalf("no %s: %v", want, err)
			}
			if string(buf[:n]) == want {
				return
			}
		}
	}
	hear("READY=1")
	until(t, "burstd has a beat", func() bool { _, beats := c.heard(); return beats > 0 })

	// The notice comes while burstd is away, and is there when it is back.
	stop()
	end := time.Now().Add(2 * time.Minute).UTC().Truncate(time.Second)
	service.Spot("terminate", end)
	check := func(args []string, code int, want string) {
		t.Helper()
		cmd := exec.Command(program, append(args, "--check")...)
		out, _ := cmd.CombinedOutput() // its exit code is looked at
		if cmd.ProcessState.ExitCode() != code || !strings.Contains(string(out), want) {
			t.Errorf("--check exits with %d, want %d and %q:\n%s", cmd.ProcessState.ExitCode(), code, want, out)
		}
	}
	check(args, 1, "BAD  burstd")
	stop = c.serve(t, addr, socket)
	until(t, "burstd has the notice", func() bool { notices, _ := c.heard(); return len(notices) == 1 })
	check(args, 0, "terminate at "+end.Format(time.RFC3339))
	check(append(args, "--munge-socket", foreign), 1, "no credential under this host's MUNGE key")

	// burstd restarts; a maintenance comes, and is cancelled.
	stop()
	work := end.Add(24 * time.Hour)
	service.Maintenance(imdstest.Planned("e1", "system-reboot", "active", work))
	stop = c.serve(t, addr, socket)
	defer func() { stop() }()
	until(t, "burstd has the maintenance", func() bool { notices, _ := c.heard(); return len(notices) == 2 })
	service.Maintenance()
	until(t, "it is called off", func() bool { notices, _ := c.heard(); return len(notices) == 3 })
	hear("WATCHDOG=1")
	if err := agent.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	hear("STOPPING=1")
	if err := agent.Wait(); err != nil {
		t.Errorf("the agent stopped with %v", err)
	}
	reboot := cloud.Notice{Instance: "i-1", Kind: cloud.Maintenance, Action: "system-reboot", Event: "e1", Deadline: work, Source: "imds"}
	want := []cloud.Notice{{Instance: "i-1", Kind: cloud.SpotInterruption, Action: "terminate", Deadline: end, Source: "imds"}, reboot, reboot}
	want[2].Cancelled = true
	got, _ := c.heard()
	for i := range want {
		if got[i].Received = (time.Time{}); got[i] != want[i] {
			t.Errorf("burstd has %+v, want %+v", got[i], want[i])
		}
	}
}
