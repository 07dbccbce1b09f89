package hostcheck

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// TestOpensThroughLinks: what a symbolic link names must let the user pass too, with all its folders,
// and so must the folders of the link itself.
func TestOpensThroughLinks(t *testing.T) {
	me := User{"somebody", os.Geteuid() + 4242, nil} // to whom nothing belongs
	for _, tt := range []struct {
		name, link, target string // below the root; a target that begins with / is absolute
		shut               string // the folder that is closed
	}{
		{"nothing is shut", "run/burst", "../disk/a/b", ""},
		{"a file in a closed folder", "run/file", "/disk/a/b/file", "disk/a"},
		{"by a relative link", "run/file", "../disk/a/b/file", "disk/a"},
		{"a folder in a closed one", "run/burst", "/disk/a/b", "disk/a"},
		{"the folder itself", "run/burst", "../disk/a/b", "disk/a/b"},
		{"the folder of the link", "run/burst", "/disk/a/b", "run"},
	} {
		root, err := filepath.EvalSymlinks(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		must := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		at := func(path string) string { return filepath.Join(root, path) }
		must(os.MkdirAll(at("disk/a/b"), 0o755))
		must(os.Mkdir(at("run"), 0o755))
		must(os.WriteFile(at("disk/a/b/file"), nil, 0o644))
		target := tt.target
		if filepath.IsAbs(target) {
			target = at(target)
		}
		must(os.Symlink(target, at(tt.link)))
		if tt.shut != "" {
			must(os.Chmod(at(tt.shut), 0o700))
		}
		must(os.Chmod(root, 0o755))
		path := tt.link
		if filepath.Base(path) != "file" {
			path += "/file"
		}
		err = me.Opens(root, path, 0o4)
		var closed *Closed
		if errors.As(err, &closed); (tt.shut == "") != (err == nil) || closed != nil && closed.Path != "/"+tt.shut {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
	if err := me.Opens(t.TempDir(), "/none", 0o4); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file that there is not: %v", err)
	}
}
