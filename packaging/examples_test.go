package packaging

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestExamples: the examples are installed whole. heat and heat-ulfm are built from what is
// there, ulfm-run runs from there, and heat.def finds heat.
func TestExamples(t *testing.T) {
	stage := t.TempDir()
	run := func(args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), args[0], args[1:]...)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Errorf("%v: %v\n%s", args, err, out)
		}
		return string(out)
	}
	run("make", "-s", "-C", "..", "install-examples", "DESTDIR="+stage, "PREFIX=/opt/burst")
	to := filepath.Join(stage, "opt/burst/share/doc/burst/examples")
	for _, dir := range []string{"heat", "images"} {
		err := fs.WalkDir(os.DirFS("../contrib"), dir, func(path string, f fs.DirEntry, err error) error {
			if err != nil || f.IsDir() || strings.HasSuffix(path, ".go") {
				return err
			}
			if _, err := os.Stat(filepath.Join(to, path)); err != nil {
				t.Error(err)
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}
	for _, dir := range []string{"heat", "heat/ulfm"} { // whose sources make must find
		run("make", "-s", "-C", filepath.Join(to, dir), "MPICC=true", "OUT="+filepath.Join(stage, "out"))
	}
	if help := run(filepath.Join(to, "heat/ulfm/ulfm-run"), "--help"); !strings.HasPrefix(help, "Usage: ulfm-run ") {
		t.Errorf("ulfm-run --help: %s", help)
	}
	def, err := os.ReadFile(filepath.Join(to, "images/heat.def"))
	if err != nil || !strings.Contains(string(def), "\n    heat /opt/src/heat\n") {
		t.Errorf("%v\n%s", err, def)
	}
}
