package methods

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
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
