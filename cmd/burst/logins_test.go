package main

import (
	"os"
	"path/filepath"
	"testing"
)

// Who may open a file is said by its mode and its folders', for the first of owner, group and others that he is.
func TestOpens(t *testing.T) {
	base := t.TempDir()
	for at := base; at != "/" && at != os.TempDir(); at = filepath.Dir(at) {
		if err := os.Chmod(at, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	uid, gid := os.Geteuid(), os.Getegid()
	for name, tt := range map[string]struct {
		folder, file os.FileMode
		who          reader
		ok           bool
	}{
		"the owner":              {0o700, 0o400, reader{uid: uid}, true},
		"the owner, not allowed": {0o755, 0o044, reader{uid: uid}, uid == 0},
		"his group":              {0o750, 0o640, reader{uid: 4242, groups: []int{gid}}, true},
		"his group, not allowed": {0o750, 0o604, reader{uid: 4242, groups: []int{gid}}, false},
		"others":                 {0o711, 0o604, reader{uid: 4242}, true},
		"others, not allowed":    {0o711, 0o640, reader{uid: 4242}, false},
		"a closed folder":        {0o700, 0o644, reader{uid: 4242}, false},
		"root":                   {0o700, 0o000, reader{uid: 0}, true},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(base, filepath.Base(t.Name()))
			path := filepath.Join(dir, "key")
			if err := os.Mkdir(dir, 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(path, tt.file); err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(dir, tt.folder); err != nil {
				t.Fatal(err)
			}
			if err := tt.who.opens(path, 0o4); (err == nil) != tt.ok {
				t.Errorf("opens: %v", err)
			}
		})
	}
}
