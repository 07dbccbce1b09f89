package bootstrap

import (
	"os"
	"testing"

	"github.com/burst-hpc/burst/packaging/quick"
)

// TestMain: each world is some seventy small files, and a boot makes as many more.
func TestMain(m *testing.M) { os.Exit(quick.Run(m)) }
