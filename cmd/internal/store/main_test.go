package store

import (
	"os"
	"testing"

	"github.com/burst-hpc/burst/packaging/quick"
)

func TestMain(m *testing.M) { os.Exit(quick.Frugal(m)) }
