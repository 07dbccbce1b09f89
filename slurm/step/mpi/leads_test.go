package mpi

import (
	"strings"
	"testing"
)

// TestClash: a library of the program's that was built with another MPI is seen, and told.
func TestClash(t *testing.T) {
	w := newWorkshop(t)
	w.lib("libmpi.so.12", says("MPICH Version:\\t%s"))
	w.lib("libmpi.so.40", says("Open MPI v%d.%d"))
	w.lib("libmpifort.so.12", says("MPICH Version:\\t%s")+"int more(void) { return 0; }\n")
	w.lib("libhdf.so.1", "int MPI_Init(void); int hdf(void) { return MPI_Init(); }\n", "-L"+w.dir, "-l:libmpi.so.40", "-Wl,-rpath,$ORIGIN")
	w.lib("libnetcdf.so.1", "int hdf(void); int netcdf(void) { return hdf(); }\n", "-L"+w.dir, "-l:libhdf.so.1", "-Wl,-rpath,$ORIGIN")
	w.lib("libgood.so.1", "int more(void); int good(void) { return more(); }\n", "-L"+w.dir, "-l:libmpifort.so.12", "-Wl,-rpath,$ORIGIN")
	for name, c := range map[string]struct {
		libs, clash string
		kind        Kind
	}{
		"deep":       {"-l:libmpi.so.12 -l:libnetcdf.so.1", "libhdf.so.1 needs Open MPI's libmpi.so.40", MPICH},
		"before":     {"-l:libhdf.so.1 -l:libmpi.so.12", "libhdf.so.1 needs Open MPI's libmpi.so.40", MPICH},
		"other":      {"-l:libmpi.so.40 -l:libgood.so.1", "libgood.so.1 needs MPICH's libmpifort.so.12", OpenMPI4},
		"one's own":  {"-l:libmpi.so.12 -l:libmpifort.so.12 -l:libgood.so.1", "", MPICH},
		"only there": {"-l:libnetcdf.so.1", "", OpenMPI4},
	} {
		args := append([]string{"-Wl,--no-as-needed", "-L" + w.dir, "-Wl,-rpath," + w.dir}, strings.Fields(c.libs)...)
		text := "int main(void) { return 0; }\n"
		program := w.gcc(name, text, args...)
		f, err := Detect("", program, environment())
		if err != nil || f.Kind != c.kind || f.Clash != c.clash {
			t.Errorf("%s: %+v, %v, want %q", name, f, err, c.clash)
		}
		world := World{Env: environment(), Default: "pmix", Types: func() []string { return []string{"pmix", "pmi2"} }}
		p, err := world.Plan(f, Step{Program: name, Nodes: 1, Tasks: 2}, Word{})
		if err != nil || (strings.Contains(strings.Join(p.Warnings, "\n"), "likely to crash") != (c.clash != "")) {
			t.Errorf("%s: %q, %v", name, p.Warnings, err)
		}
	}
}
