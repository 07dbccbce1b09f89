package mpi

import (
	"path/filepath"
	"slices"
	"strings"
)

// search finds libraries as ld.so does for a program that is started with an environment.
type search struct {
	tree
	path  string // LD_LIBRARY_PATH
	cache map[string][]string
	read  bool // cache was
}

// usual are the folders that ld.so looks into last: of Red Hat's kind, Debian's, and musl's.
var usual = []string{"/lib64", "/usr/lib64", "/lib", "/usr/lib", "/usr/local/lib"}

// multiarch are Debian's names of machines.
var multiarch = map[string]string{"EM_X86_64": "x86_64-linux-gnu", "EM_AARCH64": "aarch64-linux-gnu", "EM_PPC64": "powerpc64le-linux-gnu"}

// find opens the library that an object needs. nil: ld.so would not find it.
func (s *search) find(name string, by *object) *object {
	if strings.Contains(name, "/") {
		return s.fits(name, by)
	}
	for _, dir := range s.before(by) {
		if o := s.fits(filepath.Join(dir, name), by); o != nil {
			return o
		}
	}
	if !s.read {
		s.cache, s.read = s.cached(), true
	}
	last := slices.Clone(s.cache[name])
	dirs := usual
	if arch := multiarch[by.machine.String()]; arch != "" {
		dirs = append([]string{"/lib/" + arch, "/usr/lib/" + arch}, usual...)
	}
	for _, dir := range dirs {
		last = append(last, filepath.Join(dir, name))
	}
	for _, path := range last {
		if o := s.fits(path, by); o != nil {
			return o
		}
	}
	return nil
}

// before are the folders that are looked into before the cache, in the order of ld.so(8):
// RPATH of the object and of those that have loaded it, where it has no RUNPATH,
// LD_LIBRARY_PATH, RUNPATH.
func (s *search) before(by *object) []string {
	var dirs []string
	for o := by; o != nil && by.runpath == nil; o = o.loadedBy {
		dirs = append(dirs, o.rpath...)
	}
	dirs = append(dirs, by.split(s.path, ":;")...)
	return append(dirs, by.runpath...)
}

// fits opens a library if it is one for the machine of the object that needs it.
func (s *search) fits(path string, by *object) *object {
	o, err := s.load(path, by)
	if err != nil {
		return nil // ld.so goes on as well
	}
	if o.machine != by.machine || o.class != by.class {
		o.close()
		return nil
	}
	return o
}

// cached are the libraries of /etc/ld.so.cache. Without one ld.so has its usual folders.
func (s *search) cached() map[string][]string {
	f, err := s.open("/etc/ld.so.cache")
	if err != nil {
		return nil
	}
	defer f.Close()
	return readCache(f)
}
