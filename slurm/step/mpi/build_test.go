package mpi

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// workshop makes programs and libraries in a folder.
type workshop struct {
	t   *testing.T
	dir string
}

func newWorkshop(t *testing.T) workshop { return workshop{t, t.TempDir()} }

// gcc compiles C into a file of the folder, with further arguments of gcc's.
func (w workshop) gcc(name, text string, args ...string) string {
	w.t.Helper()
	out := filepath.Join(w.dir, name)
	if err := os.MkdirAll(filepath.Dir(out), 0o755); err != nil {
		w.t.Fatal(err)
	}
	source := out + ".c"
	if err := os.WriteFile(source, []byte(text), 0o644); err != nil {
		w.t.Fatal(err)
	}
	w.run("gcc", append([]string{"-o", out, source}, args...)...)
	return out
}

func (w workshop) run(name string, args ...string) {
	w.t.Helper()
	cmd := exec.CommandContext(w.t.Context(), name, args...)
	cmd.Dir = w.dir
	if out, err := cmd.CombinedOutput(); err != nil {
		w.t.Fatalf("%s %s (make deps brings it): %v\n%s", name, strings.Join(args, " "), err, out)
	}
}

// lib makes a library with a soname, and returns its path.
func (w workshop) lib(path, text string, args ...string) string {
	w.t.Helper()
	return w.gcc(path, text, append([]string{"-shared", "-fPIC", "-Wl,-soname," + filepath.Base(path)}, args...)...)
}

const (
	callsInit = "int MPI_Init(void); int main(void) { return MPI_Init(); }\n"
	hasInit   = "int PMPI_Init(void) { return 0; } int MPI_Init(void) { return PMPI_Init(); }\n"
)

// says is a library that says a text of itself.
func says(text string) string {
	return hasInit + "const char *said(void) { return \"" + text + "\"; }\n"
}

// environment looks up in NAME=value words.
func environment(words ...string) func(string) string {
	return func(name string) string {
		for _, kv := range words {
			if v, ok := strings.CutPrefix(kv, name+"="); ok {
				return v
			}
		}
		return ""
	}
}

// output is what a command prints.
func (w workshop) output(name string, args ...string) []byte {
	w.t.Helper()
	out, err := exec.CommandContext(w.t.Context(), name, args...).Output()
	if err != nil {
		w.t.Fatalf("%s %s: %v", name, strings.Join(args, " "), err)
	}
	return out
}
