package api_test

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/burst-hpc/burst/cmd/internal/api"
)

func TestListen(t *testing.T) {
	for _, test := range []struct {
		name    string
		prepare func(t *testing.T, path string)
		want    string // part of the error; empty: listens
	}{
		{"fresh", func(*testing.T, string) {}, ""},
		{"left behind by a crash", func(t *testing.T, path string) {
			l := listenUnix(t, path)
			l.SetUnlinkOnClose(false)
			l.Close()
		}, ""},
		{"somebody listens", func(t *testing.T, path string) {
			l := listenUnix(t, path)
			t.Cleanup(func() { l.Close() })
		}, "another burstd listens on"},
		{"a file", func(t *testing.T, path string) {
			if err := os.WriteFile(path, []byte("mine"), 0o600); err != nil {
				t.Fatal(err)
			}
		}, "is no socket"},
	} {
		t.Run(test.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "b.sock")
			test.prepare(t, path)
			l, err := api.Listen(path)
			if test.want != "" {
				if err == nil || !strings.Contains(err.Error(), test.want) {
					t.Errorf("Listen: %v, want %q", err, test.want)
				}
				if _, err := os.Lstat(path); err != nil {
					t.Errorf("what was there is gone: %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o666 {
				t.Errorf("socket is %v, %v; want mode 0666", info, err)
			}
		})
	}
}

// TestListenMakesItsFolder: for every user, also under systemd's UMask=0027.
func TestListenMakesItsFolder(t *testing.T) {
	old := syscall.Umask(0o077)
	defer syscall.Umask(old)
	dir := filepath.Join(t.TempDir(), "run", "burst")
	l, err := api.Listen(filepath.Join(dir, "b.sock"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o755 {
		t.Errorf("the folder is %v, %v; want mode 0755", info.Mode(), err)
	}
}

func listenUnix(t *testing.T, path string) *net.UnixListener {
	t.Helper()
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestListenPathTooLong(t *testing.T) {
	_, err := api.Listen("/tmp/" + strings.Repeat("x", 103))
	if err == nil || !strings.Contains(err.Error(), "has 108 bytes, the kernel takes 107") {
		t.Errorf("Listen: %v", err)
	}
}

func TestOneOfManyListens(t *testing.T) {
	path := filepath.Join(t.TempDir(), "b.sock")
	stale := listenUnix(t, path)
	stale.SetUnlinkOnClose(false)
	stale.Close()
	var wg sync.WaitGroup
	won := make(chan net.Listener, 20)
	for range cap(won) {
		wg.Go(func() {
			if l, err := api.Listen(path); err == nil {
				won <- l
			}
		})
	}
	wg.Wait()
	close(won)
	n := 0
	for l := range won {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		n++
	}
	if n != 1 {
		t.Errorf("%d of %d listen, want 1", n, cap(won))
	}
}
