package bootstrap

import (
	"context"
	"crypto/rand"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// munged runs one with a key of its own until the test ends, and returns its socket.
func munged(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "m") // t.TempDir is too long for a socket's path
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	secret := make([]byte, 128)
	rand.Read(secret) // never fails
	if err := os.WriteFile(filepath.Join(dir, "key"), secret, 0o600); err != nil {
		t.Fatal(err)
	}
	path, err := exec.LookPath("munged")
	if err != nil {
		path = "/usr/sbin/munged" // of which an ordinary user's PATH knows nothing
	}
	ctx, cancel := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, path, "--foreground", "--force", "--socket="+dir+"/s", "--key-file="+dir+"/key",
		"--pid-file="+dir+"/pid", "--log-file="+dir+"/log", "--seed-file="+dir+"/seed")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		_ = cmd.Wait() // it ends by our signal
	})
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		c, err := net.Dial("unix", dir+"/s")
		if err == nil {
			c.Close()
			return dir + "/s"
		}
		if time.Now().After(end) {
			t.Fatal(err)
		}
	}
}

// ask runs munge or unmunge with text as its input.
func ask(t *testing.T, text, name string, args ...string) string {
	cmd := exec.Command(name, args...)
	cmd.Stdin = strings.NewReader(text)
	out, err := cmd.Output()
	if err != nil {
		t.Errorf("%s: %v", name, err)
	}
	return strings.TrimSpace(string(out))
}

// TestWithMunge has both sides use MUNGE itself.
func TestWithMunge(t *testing.T) {
	if testing.Short() {
		t.Skip("runs munged: slow end-to-end, run by make test")
	}
	w := newWorld(t)
	socket := munged(t)
	for _, name := range []string{"munge", "unmunge"} {
		w.stub(name, "exec "+w.find(name)+" --socket="+socket+` "$@"`)
	}
	w.config.DaemonUID = os.Getuid() // whoever runs the test
	w.munge = func(p []byte) string { return ask(t, string(p), "munge", "--socket="+socket) }
	w.unmunge = func(text string) string {
		return ask(t, text, "unmunge", "--socket="+socket, "--metadata="+os.DevNull)
	}
	if r := w.succeed(); r.count("@whoami") != 1 || r.count("@report ready") != 1 {
		t.Errorf("%q", r.calls)
	}

	foreign := munged(t)
	w.munge = func(p []byte) string { return ask(t, string(p), "munge", "--socket="+foreign) }
	if r := w.run(); r.code == 0 || !strings.Contains(r.console, "the answer carries no credential under our MUNGE key") {
		t.Errorf("another key is believed: %+v", r)
	}
}
