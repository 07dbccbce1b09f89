package libburst

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

// built is testdata/talk.c with the library's sources, for all tests.
var built struct {
	sync.Once
	dir string
	out []byte
	err error
}

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "burst-talk-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	built.dir = dir
	code := m.Run()
	if err := os.RemoveAll(dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func buildTalk(t *testing.T) string {
	t.Helper()
	bin := filepath.Join(built.dir, "talk")
	built.Do(func() {
		built.out, built.err = exec.Command("cc", "-g", "-O1", "-Wall", "-Wextra", "-Werror", fmt.Sprint("-DPATIENCE=", patience.Milliseconds()),
			"-Isrc", "-o", bin, "testdata/talk.c", "src/burst.c", "src/link.c").CombinedOutput()
	})
	if built.err != nil {
		t.Fatalf("building testdata/talk.c (make deps installs gcc): %v\n%s", built.err, built.out)
	}
	return bin
}
