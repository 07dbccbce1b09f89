package progtest

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// Containers is PATH with what `make deps-containers` has made before it, where that is. It
// skips the test, loudly, where no tool runs images.
func Containers(t testing.TB) (path string) {
	t.Helper()
	path = os.Getenv("PATH")
	dir := filepath.Join(Root(t), "build", "containers")
	if _, err := os.Stat(filepath.Join(dir, "burst-stamp")); err == nil && os.Getuid() == 0 {
		return filepath.Join(dir, "bin") + ":" + path
	}
	for _, tool := range []string{"apptainer", "singularity"} {
		if _, err := exec.LookPath(tool); err == nil {
			return path
		}
	}
	t.Skip("NOT TESTED: no Apptainer or Singularity is here, and so nothing runs in containers: make deps-containers, as root")
	return ""
}
