package daemon

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/burst-hpc/burst/cloud/local"
	"github.com/burst-hpc/burst/cmd/internal/store"
	"github.com/burst-hpc/burst/packaging/quick"
)

func TestMain(m *testing.M) {
	local.Main() // an instance is this program, started again
	var err error
	if empty, err = emptyJournal(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(quick.Frugal(m))
}

// empty is a journal in which nothing is written yet: to make one, version by version of
// its schema, takes longer than most of what the tests do with it.
var empty []byte

func emptyJournal() ([]byte, error) {
	dir, err := os.MkdirTemp("", "journal")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "burst.db")
	st, err := store.Open(context.Background(), path)
	if err != nil {
		return nil, err
	}
	if err := st.Close(); err != nil {
		return nil, err
	}
	return os.ReadFile(path)
}

// newJournal is the path of a journal of the test's own, an empty one.
func newJournal(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "burst.db")
	if err := os.WriteFile(path, empty, 0o640); err != nil {
		t.Fatal(err)
	}
	return path
}
