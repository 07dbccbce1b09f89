package ft_test

import (
	"flag"
	"os"
	"runtime"
	"runtime/debug"
	"testing"
)

// TestMain: a bubble's goroutines mostly wait for one another, and make much
// garbage. In -short a second processor, and a small heap, only cost.
func TestMain(m *testing.M) {
	flag.Parse()
	if testing.Short() {
		runtime.GOMAXPROCS(1)
		debug.SetGCPercent(400)
	}
	os.Exit(m.Run())
}
