package mpi

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestReadFabric(t *testing.T) {
	w := newWorkshop(t)
	w.lib("plain/libfabric.so.1", "int fi_getinfo(void) { return 0; }\n")
	w.lib("within/libfabric.so.1", "const char *efa(void) { return \"FI_EFA_FORK_SAFE\"; }\n")
	w.lib("beside/libfabric.so.1", "int fi_getinfo(void) { return 0; }\n")
	w.lib("beside/libfabric/libefa-fi.so", "int efa;\n")
	lib := w.lib("libmpi.so.12", says(`MPICH Version:\t%s`))
	for _, c := range []struct {
		name, vendor, path string
		want               Fabric
	}{
		{"none", "", "within", Fabric{}},
		{"InfiniBand", "0x15b3\n", "within", Fabric{Devices: true}},
		{"EFA, and a libfabric without", "0x1d0f\n", "plain", Fabric{Devices: true, EFA: true}},
		{"EFA within libfabric", "0x1d0f\n", "within", Fabric{true, true, true}},
		{"EFA beside libfabric", "0x1d0f\n", "beside", Fabric{true, true, true}},
	} {
		sys := t.TempDir()
		if c.vendor != "" {
			device := filepath.Join(sys, "class/infiniband/rdmap0s6/device")
			if err := os.MkdirAll(device, 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(device, "vendor"), []byte(c.vendor), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		f := Found{Kind: MPICH, Library: lib}
		if got := ReadFabric(sys, f, environment("LD_LIBRARY_PATH="+filepath.Join(w.dir, c.path))); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}

// TestLaunchersOfOthers: a launcher of another implementation is passed over, whatever its name.
func TestLaunchersOfOthers(t *testing.T) {
	w := newWorkshop(t)
	rte := w.lib("libopen-rte.so.40", "int orte(void) { return 0; }\n")
	const main = "int main(void) { return 0; }\n"
	says := func(text string) string { return "const char *said = \"" + text + "\";\n" + main }
	w.gcc("ompi4/mpirun", main, "-Wl,--no-as-needed", rte)
	w.gcc("ompi5/mpirun", main)
	w.gcc("ompi5/prterun", main)
	w.gcc("mpich/mpirun", says("bootstrap"))
	w.gcc("mpich/mpiexec.hydra", says("bootstrap"))
	w.gcc("intel/mpiexec.hydra", says("bootstrap I_MPI_HYDRA_UUID"))
	var path []string
	for _, dir := range []string{"mpich", "ompi5", "intel", "ompi4"} {
		path = append(path, filepath.Join(w.dir, dir))
	}
	env := environment("LD_LIBRARY_PATH="+w.dir, "PATH=relative:"+strings.Join(path, ":"))
	for kind, want := range map[Kind]string{OpenMPI4: "ompi4/mpirun", OpenMPI5: "ompi5/mpirun", MPICH: "mpich/mpiexec.hydra", Intel: "intel/mpiexec.hydra", MVAPICH: "mpich/mpiexec.hydra"} {
		if got := FindLauncher(Found{Kind: kind}, env); got != filepath.Join(w.dir, want) {
			t.Errorf("%s: %s", kind, got)
		}
	}
	if got := FindLauncher(Found{Kind: OpenMPI4}, environment("PATH="+path[0])); got != "" {
		t.Errorf("MPICH's mpirun is taken for Open MPI's: %s", got)
	}
}
