package daemon

import (
	"os"
	"testing"

	"github.com/burst-hpc/burst/cloud/local"
	"github.com/burst-hpc/burst/cmd/internal/quick"
)

func TestMain(m *testing.M) {
	local.Main() // an instance is this program, started again
	os.Exit(quick.Run(m))
}
