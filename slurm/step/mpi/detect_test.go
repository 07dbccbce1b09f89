package mpi

import (
	"debug/elf"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// hello is a program of MPI that is compiled by the MPIs of make deps.
const hello = "../../../contrib/mpi/hello.c"

// TestDetectReal builds a program with each MPI that Debian has.
func TestDetectReal(t *testing.T) {
	if testing.Short() {
		t.Skip("short: compiles with real MPIs")
	}
	w := newWorkshop(t)
	source, err := filepath.Abs(hello)
	if err != nil {
		t.Fatal(err)
	}
	openmpi := OpenMPI4
	if strings.Contains(string(w.output("mpicc.openmpi", "--showme:version")), "Open MPI 5.") { // Debian 13's
		openmpi = OpenMPI5
	}
	for _, c := range []struct {
		mpicc, library string
		kind           Kind
		major          int
		pmi            []PMI
	}{
		{"mpicc.openmpi", "libmpi.so.40", openmpi, map[Kind]int{OpenMPI4: 4, OpenMPI5: 5}[openmpi], []PMI{PMIx}},
		{"mpicc.mpich", "libmpich.so.12", MPICH, 4, []PMI{PMI2}},
	} {
		w.run(c.mpicc, "-o", c.mpicc+".out", source)
		f, err := Detect("", filepath.Join(w.dir, c.mpicc+".out"), os.Getenv)
		if err != nil {
			t.Fatal(err)
		}
		if c.kind == MPICH && hidesVersion(t, f.Library) {
			c.major = major("") // of Debian 13's nobody can tell
		}
		if f.Kind != c.kind || major(f.Version) != c.major || !slices.Equal(f.PMI, c.pmi) || filepath.Base(f.Library) != c.library || f.Missing != "" {
			t.Errorf("%s: %+v", c.mpicc, f)
		}
		if launcher := FindLauncher(f, os.Getenv); launcher == "" || !c.kind.owns(launcher) || strings.HasPrefix(launcher, "/bin/") {
			t.Errorf("%s: launcher %q", c.mpicc, launcher)
		}
		for _, other := range Kinds() {
			if other != c.kind && other.owns(FindLauncher(f, os.Getenv)) && (other != MVAPICH || c.kind != MPICH) {
				t.Errorf("the launcher of %s is taken for that of %s", c.kind, other)
			}
		}
	}
}

// hidesVersion says whether an MPICH does not export the symbol of its version.
func hidesVersion(t *testing.T, library string) bool {
	t.Helper()
	file, err := elf.Open(library)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	symbols, err := file.DynamicSymbols()
	if err != nil {
		t.Fatal(err)
	}
	return !slices.ContainsFunc(symbols, func(s elf.Symbol) bool { return strings.HasSuffix(s.Name, "_Version_string") })
}

// TestDetectByWhatTheLibrarySays has libraries that say of themselves what the real ones do,
// most of which no registry has.
func TestDetectByWhatTheLibrarySays(t *testing.T) {
	w := newWorkshop(t)
	w.lib("sys/libpmix.so.2", "int PMIx_Init(void) { return 0; }\n")
	w.lib("sys/libpmi2.so.0", "int PMI2_Init(void) { return 0; }\n")
	w.lib("sys/libpmi.so.0", "int PMI_Init(void) { return 0; }\n")
	w.lib("sys/libopen-rte.so.40", "int orte_init(void) { return 0; }\n")
	needs := func(name string) []string { return []string{"-Wl,--no-as-needed", filepath.Join(w.dir, "sys", name)} }
	apps := map[string]string{} // by the name of the library that they need
	for i, c := range []struct {
		name, soname, text string
		args               []string
		want               string // kind version, protocols
	}{
		{"Intel MPI", "libmpi.so.12", says(`Intel(R) MPI Library %s for Linux* OS`) + "const char v[] = \"\\0002021.10.0\";\n", nil, "intel 2021.10.0 pmi2"},
		{"MVAPICH2", "libmpi.so.12", says(`MVAPICH2 Version      :\t%s`) + "const char MPIR_Version_string[] = \"2.3.7\";\n", nil, "mvapich 2.3.7 pmi2"},
		{"MVAPICH 3", "libmpi.so.12", says(`MVAPICH Version:      %s`) + "const char MPII_Version_string[] = \"3.0\";\n", nil, "mvapich 3.0 pmi2"},
		{"MPICH", "libmpi.so.12", says(`MPICH Version:\t%s`) + "const char MPII_Version_string[] = \"4.1.2\";\n", nil, "mpich 4.1.2 pmi2"},
		{"an MPICH that hides its symbols", "libmpi.so.12", says(`MPICH Version:\t%s`), nil, "mpich  pmi2"},
		{"an MPICH of PMIx", "libmpi.so.12", says(`MPICH Version:\t%s`), needs("libpmix.so.2"), "mpich  pmix"},
		{"an MPICH of Slurm's libpmi2", "libmpi.so.12", says(`MPICH Version:\t%s`), needs("libpmi2.so.0"), "mpich  pmi2"},
		{"an MPICH of Slurm's libpmi", "libmpi.so.12", says(`MPICH Version:\t%s`), needs("libpmi.so.0"), "mpich  none"},
		{"an MPICH with the ABI of MPI 5", "libmpi_abi.so.1", says(`MPICH Version:\t%s`), nil, "mpich  pmi2"},
		{"Open MPI 4", "libmpi.so.40", says(`Open MPI v%d.%d.%d`) + "const char ompi_version_string[] = \"4.0.3\";\n", nil, "openmpi4 4.0.3 "},
		{"Open MPI 5 of the same soname", "libmpi.so.40", says(`Open MPI v%d.%d.%d`) + "const char ompi_version_string[] = \"5.0.7\";\n", nil, "openmpi5 5.0.7 pmix"},
		{"Open MPI 5 without a version", "libmpi.so.40", says(`Open MPI v%d.%d.%d`), needs("libpmix.so.2"), "openmpi5  pmix"},
		{"Open MPI 4 without a version", "libmpi.so.40", says(`Open MPI v%d.%d.%d`), append(needs("libopen-rte.so.40"), needs("libpmix.so.2")...), "openmpi4  "},
		{"an Open MPI of 2016", "libmpi.so.12", says(`Open MPI v%d.%d.%d`) + "const char ompi_version_string[] = \"v1.10.7\";\n", nil, "openmpi4 1.10.7 "},
		{"Cray's MPICH is left alone", "libmpi.so.12", says(`MPI VERSION    : CRAY MPICH version 8.1`), nil, "  "},
		{"none of these", "libmpi.so.12", hasInit, nil, "  "},
	} {
		if testing.Short() && i%3 > 0 {
			continue // a compiler runs for each
		}
		dir := strings.ReplaceAll(c.name, " ", "-")
		lib := w.lib(filepath.Join(dir, c.soname), c.text, c.args...)
		if apps[c.soname] == "" {
			apps[c.soname] = w.gcc(filepath.Join("apps", c.soname), callsInit, lib, "-Wl,--allow-shlib-undefined")
		}
		f, err := Detect("", apps[c.soname], environment("LD_LIBRARY_PATH="+filepath.Dir(lib)))
		var pmi []string
		for _, p := range f.PMI {
			pmi = append(pmi, string(p))
		}
		if got := string(f.Kind) + " " + f.Version + " " + strings.Join(pmi, ","); err != nil || got != c.want {
			t.Errorf("%s: %q, want %q, %v", c.name, got, c.want, err)
		}
		if f.Kind != None && f.Library != lib {
			t.Errorf("%s: library %s", c.name, f.Library)
		}
	}
}

// TestDetectOpenMPIsPlugins reads from an Open MPI's folder what it can be started by.
func TestDetectOpenMPIsPlugins(t *testing.T) {
	w := newWorkshop(t)
	lib := w.lib("lib/libmpi.so.40", says(`Open MPI v%d.%d.%d`)+"const char ompi_version_string[] = \"4.1.6\";\n")
	app := w.gcc("app", callsInit, lib)
	for _, c := range []struct {
		plugins string
		want    []PMI
	}{
		{"", nil},
		{"isolated s1 s2", []PMI{PMI2}},
		{"s2 ext3x pmix3x", []PMI{PMIx, PMI2}},
		{"isolated flux", []PMI{}},
	} {
		dir := filepath.Join(w.dir, "lib/openmpi3")
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		for _, p := range strings.Fields(c.plugins) {
			if err := os.WriteFile(filepath.Join(dir, "mca_pmix_"+p+".so"), nil, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		f, err := Detect("", app, environment("LD_LIBRARY_PATH="+filepath.Dir(lib)))
		if err != nil || (f.PMI == nil) != (c.want == nil) || !slices.Equal(f.PMI, c.want) {
			t.Errorf("%q: %v, want %v, %v", c.plugins, f.PMI, c.want, err)
		}
	}
}

func TestDetectWhatIsNoMPI(t *testing.T) {
	w := newWorkshop(t)
	write := func(name, text string) string {
		path := filepath.Join(w.dir, name)
		if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for _, c := range []struct{ name, program, script string }{
		{"a script", write("a.sh", "#!/bin/bash -e\nmpirun x\n"), "/bin/bash"},
		{"a script of env", write("b.py", "#!/usr/bin/env python3\n"), "python3"},
		{"a text", write("c", "echo\n"), ""},
		{"an empty file", write("d", ""), ""},
		{"a script without an interpreter", write("e", "#!\n"), ""},
		{"a torn program", write("f", "\x7fELF\x02\x01"), ""},
		{"a program", w.gcc("g", "int main(void) { return 0; }\n"), ""},
		{"one that starts others", w.gcc("h", "#include <unistd.h>\nint main(int c, char **v) { return execvp(v[1], v + 1); }\n"), ""},
	} {
		f, err := Detect("", c.program, environment())
		if f.Kind != None || f.Script != c.script || f.Missing != "" || f.Opaque == (c.name == "a program" || c.name == "a torn program") || err != nil && c.name != "a torn program" {
			t.Errorf("%s: %+v, %v", c.name, f, err)
		}
	}
	for _, program := range []string{"/nowhere/app", "nowhere"} {
		if _, err := Detect("", program, environment("PATH=/usr/bin")); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v", program, err)
		}
	}
}

func TestDetectStatic(t *testing.T) {
	w := newWorkshop(t)
	app := w.gcc("app", says(`MPICH Version:\t%s`)+"int main(void) { return said()[0] + MPI_Init(); }\n")
	f, err := Detect("", app, environment())
	if err != nil || f.Kind != MPICH || f.Library != "" {
		t.Errorf("%+v, %v", f, err)
	}
}
