package mpi

import (
	"bytes"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// libraries begin the names of those that are an MPI, or lead to one: C, Fortran and C++ of
// all the implementations, and the ABI of MPI 5.
var libraries = regexp.MustCompile(`^lib(mpi|mpich|mpigf?|mpifort|mpichf?90|mpichfort|mpicxx|mpichcxx|mpi_cxx|mpi_mpifh|mpi_usempif?\w*|mpi_abi|mpi_ilp64|mpi_mt)\.so(\.|$)`)

// marks are what an implementation's library says of itself in MPI_Get_library_version, in
// the order in which they are looked for: Intel's and MVAPICH descend from MPICH.
var marks = []struct {
	kind Kind
	mark string
}{
	{Intel, "Intel(R) MPI Library %s"},
	{MVAPICH, "MVAPICH2 Version"},
	{MVAPICH, "MVAPICH Version"},
	{None, "CRAY MPICH version"}, // has its own launch, which is left as it is
	{MPICH, "MPICH Version:"},
	{OpenMPI4, "Open MPI v"},
}

// kindOf says whose library an object is.
func (o *object) kindOf() Kind {
	words := make([]string, len(marks))
	for i, m := range marks {
		words[i] = m.mark
	}
	if i := slices.Index(o.holds(".rodata", words...), true); i >= 0 {
		return marks[i].kind
	}
	return None
}

// number is a version as the implementations write theirs.
var number = regexp.MustCompile(`^v?\d+\.\d+[\w.+-]{0,20}$`)

// intelNumber is Intel's: it has no symbol.
var intelNumber = regexp.MustCompile(`\x00(20\d\d\.\d+(\.\d+)?)\x00`)

// version is that of a library of a kind; "": it does not say.
func (o *object) version(k Kind) string {
	if k == Intel {
		in := o.elf.Section(".rodata")
		text := make([]byte, min(in.Size, maxScan))
		n, _ := in.ReadAt(text, 0) // what there is
		if m := intelNumber.FindSubmatch(text[:n]); m != nil {
			return string(m[1])
		}
		return ""
	}
	for _, s := range []string{"ompi_version_string", "MPII_Version_string", "MPIR_Version_string"} {
		if v := o.constant(s); number.MatchString(v) {
			return strings.TrimPrefix(v, "v")
		}
	}
	return ""
}

// constant is the text that a symbol names.
func (o *object) constant(name string) string {
	symbols, err := o.elf.DynamicSymbols()
	if err != nil {
		if symbols, err = o.elf.Symbols(); err != nil {
			return ""
		}
	}
	for _, s := range symbols {
		if s.Name != name || int(s.Section) >= len(o.elf.Sections) {
			continue
		}
		in := o.elf.Sections[s.Section]
		text := make([]byte, 64)
		n, _ := in.ReadAt(text, int64(s.Value-in.Addr)) // what there is
		if end := bytes.IndexByte(text[:n], 0); end > 0 {
			return string(text[:end])
		}
	}
	return ""
}

// major is the first number of a version; 0: it has none.
func major(version string) int {
	first, _, _ := strings.Cut(version, ".")
	n, _ := strconv.Atoi(first) // 0 where it is none
	return n
}

// five says whether an Open MPI is version 5 or later, by its version or by what it needs:
// its soname is that of 4.
func (o *object) five(version string) bool {
	if n := major(version); n > 0 {
		return n >= 5
	}
	return !slices.ContainsFunc(o.needed, func(n string) bool { return strings.HasPrefix(n, "libopen-rte.so") }) &&
		slices.ContainsFunc(o.needed, func(n string) bool { return strings.HasPrefix(n, "libpmix.so") })
}

// protocols are those that a library can be started by.
func (s *search) protocols(k Kind, o *object) []PMI {
	needs := func(lib string) bool {
		return slices.ContainsFunc(o.needed, func(n string) bool { return strings.HasPrefix(n, lib+".so") })
	}
	switch {
	case k == OpenMPI5:
		return []PMI{PMIx}
	case k == OpenMPI4:
		return s.components(o)
	case k == Intel:
		return []PMI{PMI2}
	case needs("libpmix"):
		return []PMI{PMIx}
	case needs("libpmi2"):
		return []PMI{PMI2}
	case needs("libpmi"):
		return []PMI{PMI1}
	}
	return []PMI{PMI2} // MPICH's own client, of PMI1 or PMI2
}

// components are the protocols of an Open MPI before 5: it has a plugin for each. Where none
// is found it was built without plugins, and nothing is known.
func (s *search) components(o *object) []PMI {
	if o.soname == "" { // static
		return nil
	}
	all := []PMI{}
	seen := false
	for _, dir := range s.homes(o.path) {
		var names []string
		for _, folder := range []string{"openmpi", "openmpi3", "openmpi/lib/openmpi", "openmpi/lib/openmpi3"} { // upstream's, Debian's
			some, _ := filepath.Glob(filepath.Join(dir, folder, "mca_pmix_*.so")) // the pattern is right
			names = append(names, some...)
		}
		for _, name := range names {
			seen = true
			which := strings.TrimPrefix(filepath.Base(name), "mca_pmix_")
			switch {
			case strings.HasPrefix(which, "ext") || strings.HasPrefix(which, "pmix"):
				all = append(all, PMIx)
			case which == "s2.so":
				all = append(all, PMI2)
			}
		}
	}
	if !seen {
		return nil
	}
	slices.SortFunc(all, func(a, b PMI) int { return strings.Compare(string(b), string(a)) }) // pmix first
	return slices.Compact(all)
}

// homes are the host's names of the folder of a library, and of where it lies in truth.
func (s *search) homes(path string) []string {
	name, err := s.real(path)
	if err != nil {
		return nil
	}
	dirs := []string{filepath.Dir(name)}
	if to, err := filepath.EvalSymlinks(name); err == nil && filepath.Dir(to) != dirs[0] {
		dirs = append(dirs, filepath.Dir(to))
	}
	return dirs
}
