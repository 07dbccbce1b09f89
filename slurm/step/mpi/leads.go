package mpi

import (
	"fmt"
	"path/filepath"
	"strings"
)

// maxObjects bounds how many libraries of a program are looked at: one that is not among
// the first is not seen. Each costs some ten microseconds.
const maxObjects = 160

// barren begin the names of libraries that never lead to an MPI.
var barren = []string{"libc.so", "libm.so", "libpthread.so", "libdl.so", "librt.so", "libutil.so", "libgcc_s.so", "libstdc++.so",
	"libgfortran.so", "libquadmath.so", "libgomp.so", "libz.so", "ld-linux", "linux-vdso"}

// led is what a program's libraries lead to.
type led struct {
	lib     *object // the MPI library that is nearest to the program; nil: none is found
	missing string  // the name of an MPI library that ld.so would not find
	clash   string  // which library needs another MPI than that
}

// leads looks for the MPI library of a program among all that it loads, the nearest first:
// a program may need it through PETSc or HDF5 alone; and for a second one, which such a
// library was built with.
func (s *search) leads(program *object) (l led) {
	seen := map[string]bool{}
	queue := []*object{program}
	var open []*object
	defer func() {
		for _, o := range open {
			if o != l.lib {
				o.close()
			}
		}
	}()
	for len(queue) > 0 && len(seen) < maxObjects {
		by := queue[0]
		queue = queue[1:]
		for _, name := range by.needed {
			if seen[name] || hasPrefix(name, barren) {
				continue
			}
			seen[name] = true
			is := libraries.MatchString(filepath.Base(name))
			o := s.find(name, by)
			if o == nil {
				if is && l.lib == nil {
					return led{missing: name}
				}
				continue
			}
			open = append(open, o)
			if is {
				o.kind = o.kindOf()
			}
			switch {
			case o.kind == None:
				queue = append(queue, o)
			case l.lib == nil:
				l.lib = o
			case (o.kind == OpenMPI4) != (l.lib.kind == OpenMPI4): // MPICH's descendants have one ABI
				l.clash = fmt.Sprintf("%s needs %s's %s", filepath.Base(by.path), o.kind.Name(), filepath.Base(name))
				return l
			}
		}
	}
	return l
}

// needs opens the library, whose name begins with a word, that an object loads by itself or by
// another of its libraries. nil: it loads none, or ld.so would not find it.
func (s *search) needs(o *object, word string) *object {
	seen := map[string]bool{}
	queue := []*object{o}
	defer func() {
		for _, by := range queue {
			if by != o {
				by.close()
			}
		}
	}()
	for at := 0; at < len(queue) && len(seen) < maxObjects; at++ {
		for _, name := range queue[at].needed {
			if seen[name] || hasPrefix(name, barren) {
				continue
			}
			seen[name] = true
			lib := s.find(name, queue[at])
			switch {
			case strings.HasPrefix(filepath.Base(name), word):
				return lib
			case lib != nil:
				queue = append(queue, lib)
			}
		}
	}
	return nil
}
