package daemon

import (
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestSystemdWaitsForTheJournal: as long as the journal is brought up to date systemd is told to wait, so that
// it does not kill what takes longer than TimeoutStartSec; before burstd is ready it is told at least once.
func TestSystemdWaitsForTheJournal(t *testing.T) {
	dir, err := os.MkdirTemp("", "b") // t.TempDir is too long for a socket's path
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: filepath.Join(dir, "n"), Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	t.Setenv("NOTIFY_SOCKET", filepath.Join(dir, "n"))
	hear := func() string {
		t.Helper()
		buf := make([]byte, 4096)
		conn.SetReadDeadline(time.Now().Add(20 * time.Second))
		n, err := conn.Read(buf)
		if err != nil {
			t.Fatal(err)
		}
		return string(buf[:n])
	}
	const wait = "EXTEND_TIMEOUT_USEC=60000000"
	locked, end := errors.New("the journal is locked"), make(chan error)
	ended := make(chan error)
	go func() {
		ended <- whileStarting(time.Millisecond, slog.New(slog.DiscardHandler), func() error { return <-end })
	}()
	for range 3 {
		if got := hear(); got != wait {
			t.Errorf("systemd was told %q", got)
		}
	}
	end <- locked
	if err := <-ended; err != locked {
		t.Errorf("the error is %v", err)
	}
	for conn.SetReadDeadline(time.Now().Add(10 * time.Millisecond)); ; { // what it has said before
		if _, err := conn.Read(make([]byte, 4096)); err != nil {
			break
		}
	}
	s := newSite(t)
	r := s.start()
	defer r.stop()
	if got := hear(); got != wait {
		t.Errorf("burstd has told %q first", got)
	}
	if got := hear(); got != "READY=1" {
		t.Errorf("then it has told %q", got)
	}
}
