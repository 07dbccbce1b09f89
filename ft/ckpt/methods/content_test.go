package methods

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// TestHasContent: what counts as a checkpoint that was written.
func TestHasContent(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		fill func(dir string) error
		want bool
	}{
		"nothing":       {func(string) error { return nil }, false},
		"a file":        {func(dir string) error { return os.WriteFile(filepath.Join(dir, "a"), []byte("x"), 0o600) }, true},
		"an empty file": {func(dir string) error { return os.WriteFile(filepath.Join(dir, "a"), nil, 0o600) }, false},
		"a folder":      {func(dir string) error { return os.Mkdir(filepath.Join(dir, "a"), 0o700) }, false},
		"a file in a folder": {func(dir string) error {
			if err := os.MkdirAll(filepath.Join(dir, "a", "b"), 0o700); err != nil {
				return err
			}
			return os.WriteFile(filepath.Join(dir, "a", "b", "c"), []byte("x"), 0o600)
		}, true},
		"a link to a file": {func(dir string) error { return os.Symlink("/etc/passwd", filepath.Join(dir, "a")) }, false},
		"a pipe":           {func(dir string) error { return syscall.Mkfifo(filepath.Join(dir, "a"), 0o600) }, false},
		"no folder":        {os.Remove, false},
	} {
		dir := t.TempDir()
		if err := c.fill(dir); err != nil {
			t.Fatal(err)
		}
		if err := hasContent(dir); (err == nil) != c.want {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestHasContentDenied: a file that may not be opened, as one of another user's among
// what was written, does not hide the others; alone it is not taken for content.
func TestHasContentDenied(t *testing.T) {
	dir := t.TempDir()
	closed := filepath.Join(dir, "a")
	if err := os.WriteFile(closed, nil, 0); err != nil {
		t.Fatal(err)
	}
	runtime.LockOSThread() // root is denied nothing; the thread ends with the test
	if os.Getuid() == 0 {
		for _, folder := range []string{filepath.Dir(dir), dir} {
			if err := os.Chmod(folder, 0o755); err != nil {
				t.Fatal(err)
			}
		}
		if err := unix.Setfsuid(65534); err != nil {
			t.Fatal(err)
		}
		defer unix.Setfsuid(0)
	}
	if err := hasContent(dir); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("one that may not be opened: %v", err)
	}
	if err := unix.Setfsuid(os.Getuid()); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "b"), []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	if os.Getuid() == 0 {
		if err := unix.Setfsuid(65534); err != nil {
			t.Fatal(err)
		}
	}
	if err := hasContent(dir); err != nil {
		t.Errorf("beside a file with content: %v", err)
	}
}
