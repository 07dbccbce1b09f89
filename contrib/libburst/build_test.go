package libburst

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// run runs a command that must end well, and returns what it printed.
func run(t *testing.T, env []string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), args[0], args[1:]...)
	cmd.Env = append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v (make deps installs compilers): %v\n%s", args, err, out)
	}
	return string(out)
}

// makeLib builds the library, where a warning is an error.
func makeLib(t *testing.T, args ...string) (out string) {
	t.Helper()
	out = t.TempDir()
	run(t, nil, append([]string{"make", "-s", "OUT=" + out, "CFLAGS=-O2 -Wall -Wextra -Wpedantic -Werror"}, args...)...)
	return out
}

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// calls are the functions of burst.h.
func calls(t *testing.T) (names []string) {
	t.Helper()
	for _, m := range regexp.MustCompile(`(?m)^BURST_API .*?\b(burst_\w+)\(`).FindAllStringSubmatch(read(t, "src/burst.h"), -1) {
		names = append(names, m[1])
	}
	slices.Sort(names)
	if len(names) < 11 {
		t.Fatalf("calls: %v", names)
	}
	return names
}

// TestSymbols: the libraries have the calls of burst.h, and the shared one no other.
func TestSymbols(t *testing.T) {
	out := makeLib(t)
	var names []string
	for line := range strings.Lines(run(t, nil, "nm", "-D", "--defined-only", filepath.Join(out, "libburst.so"))) {
		names = append(names, strings.Fields(line)[2])
	}
	slices.Sort(names)
	if !slices.Equal(names, calls(t)) {
		t.Errorf("it has %v, want %v", names, calls(t))
	}
	if said := run(t, nil, "objdump", "-p", filepath.Join(out, "libburst.so")); !regexp.MustCompile(`SONAME +libburst\.so\.1\n`).MatchString(said) {
		t.Errorf("its soname:\n%s", said)
	}
}

// TestPages: header, manual page and the Fortran module name the same calls and results.
func TestPages(t *testing.T) {
	page, module := read(t, "libburst.3"), read(t, "src/burst.f90")
	for _, name := range calls(t) {
		if !strings.Contains(page, ".Fn "+name+" ") || !strings.Contains(page, ".Nm "+name+" ,\n") && !strings.Contains(page, ".Nm "+name+"\n") {
			t.Errorf("libburst.3 lacks %s", name)
		}
		if name != "burst_version" && !strings.Contains(module, name) {
			t.Errorf("burst.f90 lacks %s", name)
		}
	}
	values := regexp.MustCompile(`(?m)^\t(BURST_\w+) = (-?\d+)`).FindAllStringSubmatch(read(t, "src/burst.h"), -1)
	if len(values) < 12 {
		t.Fatalf("results: %v", values)
	}
	for _, v := range values {
		if !strings.Contains(page, ".Dv "+v[1]) && !strings.Contains(page, ".It Dv "+v[1]) {
			t.Errorf("libburst.3 lacks %s", v[1])
		}
		if !regexp.MustCompile(strings.ToLower(v[1]) + ` = ` + v[2] + `\b`).MatchString(module) {
			t.Errorf("burst.f90 has not %s = %s", strings.ToLower(v[1]), v[2])
		}
	}
	run(t, nil, "mandoc", "-T", "lint", "-W", "warning", "libburst.3")
}

// TestInstalled: what `make install` puts there is enough, by pkg-config, for programs in
// C, C++ and Fortran, with both libraries.
func TestInstalled(t *testing.T) {
	if testing.Short() {
		t.Skip("several compilers: slow end-to-end, run by make test")
	}
	stage := t.TempDir()
	lib := "/opt/burst/lib64"
	makeLib(t, "install", "DESTDIR="+stage, "PREFIX=/opt/burst", "LIBDIR="+lib)
	want := []string{
		"include/burst.f90", "include/burst.h",
		"lib64/libburst.a", "lib64/libburst.so", "lib64/libburst.so.1", "lib64/libburst.so.1.0.0", "lib64/pkgconfig/burst.pc",
		"share/doc/burst/libburst/count.c", "share/doc/burst/libburst/count.f90", "share/doc/burst/libburst/mpi.c", "share/man/man3/libburst.3",
	}
	var got []string
	err := fs.WalkDir(os.DirFS(filepath.Join(stage, "opt/burst")), ".", func(name string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			got = append(got, name)
		}
		return err
	})
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%v, installed %v, want %v", err, got, want)
	}
	env := []string{"PKG_CONFIG_PATH=" + filepath.Join(stage, lib, "pkgconfig"), "PKG_CONFIG_SYSROOT_DIR=" + stage, "LD_LIBRARY_PATH=" + filepath.Join(stage, lib)}
	if v := strings.TrimSpace(run(t, env, "pkg-config", "--modversion", "burst")); v != "1.0.0" {
		t.Errorf("version %q", v)
	}
	flags := strings.Fields(run(t, env, "pkg-config", "--cflags", "--libs", "burst"))
	dir := t.TempDir()
	for name, args := range map[string][]string{
		"c":       append([]string{"cc", "-std=c99", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "examples/count.c"}, flags...),
		"c++":     append([]string{"g++", "-std=c++98", "-Wall", "-Wextra", "-Werror", "testdata/count.cc"}, flags...),
		"fortran": append([]string{"gfortran", "-std=f2008", "-Wall", "-Werror", "-J" + dir, filepath.Join(stage, "opt/burst/include/burst.f90"), "examples/count.f90"}, flags...),
		"static":  {"cc", "-I" + filepath.Join(stage, "opt/burst/include"), "examples/count.c", filepath.Join(stage, lib, "libburst.a")},
	} {
		if _, err := exec.LookPath(args[0]); errors.Is(err, exec.ErrNotFound) {
			t.Errorf("no %s is here; make deps installs it", args[0])
			continue
		}
		bin := filepath.Join(dir, name)
		run(t, env, append(args, "-o", bin)...)
		if out := run(t, env, bin, "50"); !strings.HasPrefix(out, "done 50 ") {
			t.Errorf("%s: %s", name, out)
		}
		linked := strings.Contains(run(t, env, "ldd", bin), "libburst.so.1 => "+stage)
		if linked == (name == "static") {
			t.Errorf("%s: it is linked with the shared library: %v", name, linked)
		}
	}
}
