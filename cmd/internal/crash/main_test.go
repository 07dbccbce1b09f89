package crash_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"testing"

	"github.com/burst-hpc/burst/cmd/internal/store"
	"github.com/burst-hpc/burst/packaging/quick"
)

// TestMain: worlds are small and make much garbage, and a bubble's goroutines
// mostly wait for one another. In -short a second processor only costs: they are
// mixed by two of them in the full run alone.
func TestMain(m *testing.M) {
	flag.Parse()
	debug.SetGCPercent(400)
	if testing.Short() {
		runtime.GOMAXPROCS(1)
	}
	var err error
	if empty, err = newJournal(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(quick.Run(m))
}

// empty is a journal in which nothing is written yet: to make one takes longer
// than some worlds last.
var empty []byte

func newJournal() ([]byte, error) {
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
