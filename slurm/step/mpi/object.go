package mpi

import (
	"bytes"
	"debug/elf"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// object is a program or a library, as ld.so reads it.
type object struct {
	path     string // below the root
	machine  elf.Machine
	class    elf.Class
	needed   []string
	rpath    []string // folders; without RUNPATH only
	runpath  []string
	soname   string
	kind     Kind // of an MPI library, once it was looked at
	elf      *elf.File
	file     *os.File
	loadedBy *object // nil: the program
}

// errNotELF says that a file is no program that ld.so or the kernel loads.
var errNotELF = errors.New("no ELF file")

// load opens an object. Its file is open until close.
func (t tree) load(path string, by *object) (*object, error) {
	f, err := t.open(path)
	if err != nil {
		return nil, err
	}
	o, err := readObject(f, path)
	if err != nil {
		_ = f.Close() // it was only read
		return nil, err
	}
	o.file, o.loadedBy = f, by
	return o, nil
}

func readObject(r io.ReaderAt, path string) (*object, error) {
	var magic [4]byte
	if _, err := r.ReadAt(magic[:], 0); err != nil || string(magic[:]) != elf.ELFMAG {
		return nil, errNotELF
	}
	e, err := elf.NewFile(r)
	if err != nil {
		return nil, err
	}
	o := &object{path: path, machine: e.Machine, class: e.Class, elf: e}
	// An object without a dynamic section has none of these: no error.
	o.needed, _ = e.DynString(elf.DT_NEEDED)
	o.runpath = o.folders(elf.DT_RUNPATH)
	if o.runpath == nil {
		o.rpath = o.folders(elf.DT_RPATH)
	}
	if names, _ := e.DynString(elf.DT_SONAME); len(names) > 0 {
		o.soname = names[0]
	}
	return o, nil
}

func (o *object) close() { _ = o.file.Close() } // it was only read

// folders are those of a RPATH or RUNPATH.
func (o *object) folders(tag elf.DynTag) []string {
	lists, _ := o.elf.DynString(tag)
	if len(lists) == 0 {
		return nil
	}
	return o.split(lists[0], ":")
}

// split parts a list of folders, with the words that ld.so has for some of them.
func (o *object) split(list, by string) []string {
	lib := "lib"
	if o.class == elf.ELFCLASS64 {
		lib = "lib64"
	}
	origin := filepath.Dir(o.path)
	words := strings.NewReplacer("${ORIGIN}", origin, "$ORIGIN", origin, "${LIB}", lib, "$LIB", lib)
	folders := []string{}
	for _, dir := range strings.FieldsFunc(list, func(r rune) bool { return strings.ContainsRune(by, r) }) {
		folders = append(folders, words.Replace(dir))
	}
	return folders
}

// maxScan bounds how much of one section is searched, in bytes: what a library says of its
// version stands in its constants, of which the largest MPI has a few megabytes.
const maxScan = 32 << 20

// scanned is how much of a section is read at once.
const scanned = 256 << 10

// holds says for each of some words whether it stands in a section. It reads no more than it must.
func (o *object) holds(section string, words ...string) []bool {
	found := make([]bool, len(words))
	s := o.elf.Section(section)
	if s == nil || s.Type == elf.SHT_NOBITS || s.Flags&elf.SHF_COMPRESSED != 0 {
		return found
	}
	longest := 0
	for _, w := range words {
		longest = max(longest, len(w))
	}
	text := make([]byte, 0, longest+scanned)
	for at := int64(0); at < int64(min(s.Size, maxScan)) && slices.Contains(found, false); at += scanned {
		kept := copy(text[:longest], text[max(0, len(text)-longest):]) // a word may lie across
		n, err := s.ReadAt(text[kept:kept+scanned], at)
		text = text[:kept+n]
		for i, w := range words {
			found[i] = found[i] || bytes.Contains(text, []byte(w))
		}
		if err != nil { // its end, or what cannot be read
			break
		}
	}
	return found
}

// says says whether a word stands among the object's constants.
func (o *object) says(word string) bool { return o.holds(".rodata", word)[0] }

// leadsOn says whether a program may load libraries that it does not name, or start another
// program: as Python, a shell, env or numactl. One without symbols may do anything.
func (o *object) leadsOn() bool {
	if slices.ContainsFunc(o.needed, func(n string) bool { return strings.HasPrefix(n, "libpython") || strings.HasPrefix(n, "libperl") }) {
		return true
	}
	symbols, err := o.elf.ImportedSymbols()
	if err != nil {
		return !o.defines("main")
	}
	return slices.ContainsFunc(symbols, func(s elf.ImportedSymbol) bool {
		return s.Name == "dlopen" || s.Name == "dlmopen" || s.Name == "system" || strings.HasPrefix(s.Name, "exec") || strings.HasPrefix(s.Name, "posix_spawn")
	})
}

// defines says whether the object has a symbol of this name, by its tables of names.
func (o *object) defines(symbol string) bool {
	word := "\x00" + symbol + "\x00"
	return o.holds(".strtab", word)[0] || o.holds(".dynstr", word)[0]
}
