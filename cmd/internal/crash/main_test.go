package crash_test

import (
	"flag"
	"os"
	"runtime"
	"runtime/debug"
	"testing"
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
	os.Exit(m.Run())
}
