package rig

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
)

var built struct {
	sync.Mutex
	dirs map[string]bool
}

// Build builds the programs of this module into dir, for tests: the working
// folder must be in the module. In one process it builds once for each folder.
// Tags are Go's build tags.
func Build(ctx context.Context, dir string, tags ...string) error {
	built.Lock()
	defer built.Unlock()
	dir, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	if built.dirs[dir] {
		return nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("building the programs: %w", err)
	}
	cmd := exec.CommandContext(ctx, "go", "build", "-buildvcs=false", "-tags="+strings.Join(tags, ","),
		"-o", dir+"/", "github.com/burst-hpc/burst/cmd/...")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("building the programs: %w: %s", err, out)
	}
	if built.dirs == nil {
		built.dirs = map[string]bool{}
	}
	built.dirs[dir] = true
	return nil
}
