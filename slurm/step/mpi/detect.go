package mpi

import (
	"bufio"
	"errors"
	"path/filepath"
	"strings"
)

// Detect reads which MPI the program was built with. root is the folder that all paths are
// looked up in, as those of an unpacked image; "" is this host. program is a path, or a name
// that is looked for on env("PATH"); env is the environment that it will have. An error is
// that there is no such program, or that it cannot be read; it wraps fs.ErrNotExist or what
// the system says. A program that is no MPI program, or may be one that cannot be seen
// through, is no error: its Kind is None.
func Detect(root, program string, env func(string) string) (Found, error) {
	t := tree{root: root}
	path, err := t.program(program, env)
	if err != nil {
		return Found{}, err
	}
	f := Found{Program: path}
	o, err := t.load(t.itself(path), nil)
	switch {
	case errors.Is(err, errNotELF):
		f.Opaque = true
		f.Script, err = t.interpreter(path)
		return f, err
	case err != nil:
		return f, err
	}
	defer o.close()
	s := &search{tree: t, path: env("LD_LIBRARY_PATH")}
	led := s.leads(o)
	lib := led.lib
	if led.missing != "" {
		f.Missing = led.missing
		f.Kind, f.PMI = byName(led.missing), nil
		return f, nil
	}
	f.Clash = led.clash
	if lib == nil {
		if !o.defines("PMPI_Init") {
			f.Opaque = o.leadsOn()
			return f, nil
		}
		lib = o
		lib.kind = lib.kindOf()
	} else {
		defer lib.close()
		f.Library = lib.path
	}
	s.tell(&f, lib)
	return f, nil
}

// tell fills in what an MPI library says of itself.
func (s *search) tell(f *Found, lib *object) {
	if f.Kind = lib.kind; f.Kind == None {
		return
	}
	f.Version = lib.version(f.Kind)
	if f.Kind == OpenMPI4 && lib.five(f.Version) {
		f.Kind = OpenMPI5
	}
	f.PMI = s.protocols(f.Kind, lib)
}

// byName is the kind that the name of a library alone tells of, and None where several have it.
func byName(name string) Kind {
	switch {
	case strings.HasPrefix(name, "libmpich.so"):
		return MPICH
	case strings.HasPrefix(name, "libmpi.so.40"):
		return OpenMPI4
	}
	return None
}

func hasPrefix(name string, prefixes []string) bool {
	for _, p := range prefixes {
		if strings.HasPrefix(name, p) {
			return true
		}
	}
	return false
}

// maxLine is how much of a script's first line is read, as by the kernel.
const maxLine = 256

// interpreter is what a script is run by; "": it is no script.
func (t tree) interpreter(path string) (string, error) {
	f, err := t.open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	line, _ := bufio.NewReaderSize(f, maxLine).ReadString('\n') // what there is
	words := strings.Fields(strings.TrimPrefix(line, "#!"))
	if !strings.HasPrefix(line, "#!") || len(words) == 0 {
		return "", nil
	}
	if filepath.Base(words[0]) == "env" && len(words) > 1 {
		return words[len(words)-1], nil
	}
	return words[0], nil
}
