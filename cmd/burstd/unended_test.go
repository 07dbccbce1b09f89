package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestBecomeOwner: root opens a journal as its owner, in a process of its own.
func TestBecomeOwner(t *testing.T) {
	if path := os.Getenv("BURST_TEST_OWNED"); path != "" {
		if err := becomeOwner(path); err != nil {
			t.Fatal(err)
		}
		groups, err := os.Getgroups()
		fmt.Println("is", os.Getuid(), os.Geteuid(), os.Getgid(), groups, err)
		return
	}
	if os.Getuid() != 0 {
		t.Skip("NOT TESTED: root alone can become another")
	}
	path := filepath.Join(t.TempDir(), "burst.db")
	if err := os.WriteFile(path, nil, 0o640); err != nil {
		t.Fatal(err)
	}
	for want, owner := range map[string][2]int{"is 65534 65534 65533 [] <nil>\n": {65534, 65533}, "is 0 0 0": {0, 0}} {
		if err := os.Chown(path, owner[0], owner[1]); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(os.Args[0], "-test.run=^TestBecomeOwner$")
		cmd.Dir = "/" // of which any user may ask
		cmd.Env = append(os.Environ(), "BURST_TEST_OWNED="+path)
		out, err := cmd.CombinedOutput()
		if err != nil || len(out) < len(want) || string(out[:len(want)]) != want {
			t.Errorf("of %d:%d: %v\n%swant %q", owner[0], owner[1], err, out, want)
		}
	}
}
