package mpi

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"
)

// TestLikeLdSo has one MPI in each of the places where ld.so looks, and takes them away. No system has
// one of this number: Debian 13 has a libmpi.so.12, and newer ones a libmpi_abi.so.1.
func TestLikeLdSo(t *testing.T) {
	w := newWorkshop(t)
	lib := map[string]string{}
	for _, place := range []string{"rpath", "path", "runpath"} {
		lib[place] = w.lib(place+"/libmpi_abi.so.99", says(`MPICH Version:\t%s`))
	}
	env := environment("LD_LIBRARY_PATH=" + filepath.Dir(lib["path"]))
	rpath := w.gcc("old", callsInit, lib["rpath"], "-Wl,--disable-new-dtags,-rpath,$ORIGIN/rpath")
	runpath := w.gcc("new", callsInit, lib["runpath"], "-Wl,--enable-new-dtags,-rpath,${ORIGIN}/runpath")
	// The middle library has no folder of its own: RPATH of who loads it counts for it, RUNPATH does not.
	petsc := w.lib("libpetsc.so.3", "int MPI_Init(void); int petsc(void) { return MPI_Init(); }\n", lib["rpath"])
	const callsPetsc = "int petsc(void); int main(void) { return petsc(); }\n"
	through := w.gcc("through", callsPetsc, petsc, "-Wl,--disable-new-dtags,-rpath,$ORIGIN:$ORIGIN/rpath", "-Wl,--allow-shlib-undefined", "-Wl,-rpath-link,"+filepath.Dir(lib["rpath"]))
	never := w.gcc("never", callsPetsc, petsc, "-Wl,--enable-new-dtags,-rpath,$ORIGIN:$ORIGIN/rpath", "-Wl,--allow-shlib-undefined", "-Wl,-rpath-link,"+filepath.Dir(lib["rpath"]))
	link := filepath.Join(w.dir, "path", "link")
	if err := os.Symlink(runpath, link); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, program string
		env           func(string) string
		want          string // the library
		missing       bool
	}{
		{"RPATH is before LD_LIBRARY_PATH", rpath, env, lib["rpath"], false},
		{"LD_LIBRARY_PATH is before RUNPATH", runpath, env, lib["path"], false},
		{"ORIGIN is behind a link", link, environment(), lib["runpath"], false},
		{"RUNPATH", runpath, environment(), lib["runpath"], false},
		{"through another library", through, environment(), lib["rpath"], false},
		{"RUNPATH is the object's own", never, environment(), "", true},
		{"which LD_LIBRARY_PATH mends", never, env, lib["path"], false},
	} {
		f, err := Detect("", c.program, c.env)
		if err != nil || f.Library != c.want || (f.Missing == "libmpi_abi.so.99") != c.missing {
			t.Errorf("%s: %+v, %v", c.name, f, err)
		}
		// ld.so itself is asked, which knows best.
		if out := w.ldd(c.program, c.env("LD_LIBRARY_PATH")); bytes.Contains(out, []byte("libmpi_abi.so.99 => not found")) != c.missing ||
			c.want != "" && !bytes.Contains(out, []byte("libmpi_abi.so.99 => "+c.want+" ")) {
			t.Errorf("%s: ld.so says\n%s", c.name, out)
		}
	}
	for _, place := range []string{"rpath", "path", "runpath"} {
		if err := os.WriteFile(lib[place], []byte("no library"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if f, err := Detect("", rpath, env); err != nil || f.Missing != "libmpi_abi.so.99" || f.Kind != None {
		t.Errorf("with files that are no libraries: %+v, %v", f, err)
	}
}

// TestWithinARoot looks a program up in a folder as in an image: links lead within it, and
// its own cache counts.
func TestWithinARoot(t *testing.T) {
	w := newWorkshop(t)
	lib := w.lib("opt/mpi/lib/libmpi.so.40.1", says(`Open MPI v%d.%d.%d`)+"const char ompi_version_string[] = \"5.0.1\";\n", "-Wl,-soname,libmpi.so.40")
	w.gcc("usr/bin/app", callsInit, lib)
	for _, dir := range []string{"etc", "data"} {
		if err := os.MkdirAll(filepath.Join(w.dir, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for link, to := range map[string]string{
		"opt/mpi/lib/libmpi.so.40": "/opt/../../../opt/mpi/lib/libmpi.so.40.1", "bin": "usr/bin", "data/app": "/bin/app", "loop": "loop",
	} {
		if err := os.Symlink(to, filepath.Join(w.dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	cache := cacheOf("libmpi.so.40", "/opt/mpi/lib/libmpi.so.40")
	if err := os.WriteFile(filepath.Join(w.dir, "etc/ld.so.cache"), cache, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ program, at string }{{"app", "/bin/app"}, {"/data/app", "/data/app"}} {
		f, err := Detect(w.dir, c.program, environment("PATH=/none:/bin"))
		if err != nil || f.Kind != OpenMPI5 || f.Library != "/opt/mpi/lib/libmpi.so.40" || f.Program != c.at {
			t.Errorf("%s: %+v, %v", c.program, f, err)
		}
	}
	for _, program := range []string{"/loop", "/etc/passwd", "/bin"} {
		if f, err := Detect(w.dir, program, environment()); err == nil {
			t.Errorf("%s: %+v", program, f)
		}
	}
}

// ldd is what ld.so says of a program made here, which it does not start: ldd itself would take
// the path of a link for $ORIGIN.
func (w workshop) ldd(program, path string) []byte {
	w.t.Helper()
	return w.output("env", "LD_TRACE_LOADED_OBJECTS=1", "LD_LIBRARY_PATH="+path, program)
}

// cacheOf is an ld.so.cache of one library, and of one for a kind of processor alone.
func cacheOf(name, path string) []byte {
	words := name + "\x00" + path + "\x00/else\x00"
	b := append([]byte(cacheMagic), make([]byte, cacheHead-len(cacheMagic))...)
	binary.LittleEndian.PutUint32(b[20:], 2)
	binary.LittleEndian.PutUint32(b[24:], uint32(len(words)))
	at := uint32(cacheHead + 2*cacheEntry)
	for _, e := range [][2]uint64{{uint64(at) + uint64(len(name)+len(path)+2), 1 << 62}, {uint64(at) + uint64(len(name)+1), 0}} {
		b = binary.LittleEndian.AppendUint32(b, 0x0303)
		b = binary.LittleEndian.AppendUint32(b, at)
		b = binary.LittleEndian.AppendUint32(b, uint32(e[0]))
		b = binary.LittleEndian.AppendUint32(b, 0)
		b = binary.LittleEndian.AppendUint64(b, e[1])
	}
	return append(b, words...)
}

func TestReadCache(t *testing.T) {
	one := cacheOf("libmpi.so.12", "/a/libmpi.so.12")
	older := append([]byte("ld.so-1.7.0\x00\x00\x00\x00\x00"), one...)
	for name, text := range map[string][]byte{"new": one, "behind an older part": older} {
		if got := readCache(bytes.NewReader(text))["libmpi.so.12"]; len(got) != 1 || got[0] != "/a/libmpi.so.12" {
			t.Errorf("%s: %q", name, got)
		}
	}
	real, err := os.Open("/etc/ld.so.cache")
	if err != nil {
		t.Skip("this system has no ld.so.cache") // musl's
	}
	defer real.Close()
	if got := readCache(real)["libc.so.6"]; len(got) == 0 {
		t.Error("this host's has no libc")
	}
}

func FuzzReadCache(f *testing.F) {
	f.Add(cacheOf("libmpi.so.12", "/a/libmpi.so.12"))
	f.Add([]byte(cacheMagic))
	f.Fuzz(func(t *testing.T, text []byte) {
		for name, paths := range readCache(bytes.NewReader(text)) {
			if name == "" || len(paths) == 0 || paths[0] == "" {
				t.Errorf("%q: %q", name, paths)
			}
		}
	})
}
