package mpi

import (
	"debug/elf"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// FindLibrary is the path of a library where ld.so finds it for a program of this host's kind
// below the root; "": nowhere.
func FindLibrary(root, name string, env func(string) string) string {
	s := &search{tree: tree{root: root}, path: env("LD_LIBRARY_PATH")}
	by := &object{path: "/", class: elf.ELFCLASS64, machine: elf.EM_X86_64}
	if runtime.GOARCH == "arm64" {
		by.machine = elf.EM_AARCH64
	}
	o := s.find(name, by)
	if o == nil {
		return ""
	}
	defer o.close()
	return o.path
}

// FindLauncher is the launcher of an implementation on this host: near its library, or on
// PATH. "": there is none. One of another implementation, which would start each rank as a
// world of its own, is none.
func FindLauncher(f Found, env func(string) string) string {
	var dirs []string
	if f.Library != "" {
		s := &search{}
		for _, home := range s.homes(f.Library) {
			for up, n := home, 0; n < 3 && up != "/"; n++ {
				up = filepath.Dir(up)
				dirs = append(dirs, filepath.Join(up, "bin"))
			}
		}
	}
	dirs = append(dirs, filepath.SplitList(env("PATH"))...)
	for _, dir := range dirs {
		if !filepath.IsAbs(dir) {
			continue
		}
		// Open MPI's takes the folder above its own for its prefix: that of /bin is none.
		if to, err := filepath.EvalSymlinks(dir); err == nil {
			dir = to
		}
		for _, name := range f.Kind.launchers() {
			path := filepath.Join(dir, name)
			if st, err := os.Stat(path); err == nil && st.Mode().IsRegular() && st.Mode()&0o111 != 0 && f.Kind.owns(path) && f.sameAs(path, env) {
				return path
			}
		}
	}
	return ""
}

// sameAs says whether a launcher of Open MPI's is of the library's version: those of others
// may not start its ranks. Where either says none it is taken to be.
func (f Found) sameAs(launcher string, env func(string) string) bool {
	if f.Kind != OpenMPI4 || f.Version == "" {
		return true
	}
	o, err := (tree{}).load((tree{}).itself(launcher), nil)
	if err != nil {
		return false
	}
	defer o.close()
	s := &search{path: env("LD_LIBRARY_PATH")}
	for _, name := range o.needed {
		if !strings.HasPrefix(name, "libopen-rte.so") {
			continue
		}
		lib := s.find(name, o)
		if lib == nil {
			return false // it would not start
		}
		defer lib.close()
		v := strings.TrimPrefix(lib.constant("orte_version_string"), "v")
		return v == "" || minor(v) == minor(f.Version)
	}
	return true
}

// minor is a version up to its second number.
func minor(version string) string {
	words := strings.SplitN(version, ".", 3)
	return strings.Join(words[:min(2, len(words))], ".")
}

// LosesNodes says whether a launcher is Open MPI 5's, of which Exits0 is true.
func LosesNodes(launcher string) bool { return OpenMPI5.owns(launcher) }

// owns says whether a launcher is the implementation's.
func (k Kind) owns(path string) bool {
	if to, err := filepath.EvalSymlinks(path); err == nil {
		path = to
	}
	o, err := (tree{}).load(path, nil)
	if err != nil {
		// Intel's mpirun is a script; its hydra is none, and is looked for before.
		return false
	}
	defer o.close()
	orte := slices.ContainsFunc(o.needed, func(n string) bool { return strings.HasPrefix(n, "libopen-rte.so") })
	hydra := o.says("bootstrap")
	switch k {
	case OpenMPI4:
		return orte
	case OpenMPI5: // mpirun starts prterun, which is beside it
		_, err := os.Stat(filepath.Join(filepath.Dir(path), "prterun"))
		return err == nil && !orte && !hydra
	}
	return hydra && o.says("I_MPI_") == (k == Intel)
}

// amazon is the vendor's number of EFA devices.
const amazon = "0x1d0f"

// ReadFabric looks at the devices below /sys of a root, and at the libfabric that a library
// found on this host loads.
func ReadFabric(sys string, f Found, env func(string) string) Fabric {
	devices, err := os.ReadDir(filepath.Join(sys, "class/infiniband"))
	if err != nil || len(devices) == 0 {
		return Fabric{}
	}
	fabric := Fabric{Devices: true}
	for _, d := range devices {
		vendor, err := os.ReadFile(filepath.Join(sys, "class/infiniband", d.Name(), "device/vendor"))
		fabric.EFA = fabric.EFA || err == nil && strings.TrimSpace(string(vendor)) == amazon
	}
	if fabric.EFA {
		fabric.Provider = hasEFA(f, env)
	}
	return fabric
}

// OverUCX says whether the MPI's library loads UCX, by which it sends then.
func OverUCX(f Found, env func(string) string) bool { return loads(f, "libucp.so", env) != "" }

// TakesFabric says whether the MPI's ranks have the libfabric that ld.so finds. An MPICH or MVAPICH
// whose library loads none has its own within, or has none; Open MPI's plugins load it.
func TakesFabric(f Found, env func(string) string) bool {
	return f.Kind != MPICH && f.Kind != MVAPICH || loads(f, "libfabric.so", env) != ""
}

// loads is the path of the library, whose name begins with a word, that the MPI's loads; "": none.
func loads(f Found, word string, env func(string) string) string {
	if f.Library == "" {
		return ""
	}
	o, err := (tree{}).load(f.Library, nil)
	if err != nil {
		return ""
	}
	defer o.close()
	s := &search{path: env("LD_LIBRARY_PATH")}
	lib := s.needs(o, word)
	if lib == nil {
		return ""
	}
	defer lib.close()
	return lib.path
}

// hasEFA says whether the libfabric that a library would load has the provider efa: as a
// plugin beside it, or within.
func hasEFA(f Found, env func(string) string) bool {
	dirs := filepath.SplitList(env("FI_PROVIDER_PATH"))
	lib := ""
	if f.Library != "" {
		if !TakesFabric(f, env) {
			return efaIn(f.Library)
		}
		lib = loads(f, "libfabric.so", env)
		home := filepath.Dir(f.Library)
		// Intel MPI brings its own, below its folder opt or libfabric.
		for _, dir := range []string{"../opt/mpi/libfabric/lib", "../libfabric/lib", "../../libfabric/lib"} {
			dirs = append(dirs, filepath.Join(home, dir, "prov"))
		}
		if o, err := (tree{}).load(f.Library, nil); lib == "" && err == nil { // Open MPI's plugins load it
			s := &search{path: env("LD_LIBRARY_PATH")}
			if dep := s.find("libfabric.so.1", o); dep != nil {
				lib = dep.path
				dep.close()
			}
			o.close()
		}
	}
	for _, dir := range dirs {
		if _, err := os.Stat(filepath.Join(dir, "libefa-fi.so")); !errors.Is(err, os.ErrNotExist) && err == nil {
			return true
		}
	}
	if lib == "" || f.Kind == Intel {
		return false
	}
	if _, err := os.Stat(filepath.Join(filepath.Dir(lib), "libfabric", "libefa-fi.so")); err == nil {
		return true
	}
	return efaIn(lib)
}

// efaIn says whether a library has the provider efa within.
func efaIn(lib string) bool {
	o, err := (tree{}).load(lib, nil)
	if err != nil {
		return false
	}
	defer o.close()
	return slices.ContainsFunc(o.needed, func(n string) bool { return strings.HasPrefix(n, "libefa.so") }) ||
		o.says("FI_EFA_")
}
