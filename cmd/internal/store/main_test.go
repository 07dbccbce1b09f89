package store

import (
	"os"
	"testing"

	"github.com/burst-hpc/burst/cmd/internal/quick"
)

func TestMain(m *testing.M) { os.Exit(quick.Frugal(m)) }
