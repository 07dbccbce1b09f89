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
	const mpich = `MPICH Version:\t%s`
	fabric := []string{"-Wl,--no-as-needed", "-L" + w.dir + "/plain", "-l:libfabric.so.1"}
	lib := w.lib("libmpi.so.12", says(mpich), fabric...)
	w.lib("libfar.so.1", "int far(void) { return 0; }\n", fabric...)
	libs := map[string]Found{
		"":            {Kind: MPICH, Library: lib},
		"far":         {Kind: MVAPICH, Library: w.lib("far/libmpi.so.12", says(mpich), "-Wl,--no-as-needed", "-L"+w.dir, "-l:libfar.so.1", "-Wl,-rpath,"+w.dir)},
		"none":        {Kind: MPICH, Library: w.lib("none/libmpi.so.12", says(mpich))},
		"its own":     {Kind: MPICH, Library: w.lib("own/libmpi.so.12", says(mpich)+"const char *efa(void) { return \"FI_EFA_FORK_SAFE\"; }\n")},
		"by a plugin": {Kind: OpenMPI5, Library: w.lib("plugin/libmpi.so.40", says("Open MPI v%d.%d"))},
	}
	for _, c := range []struct {
		name, vendor, path, mpi string
		want                    Fabric
	}{
		{"none", "", "within", "", Fabric{}},
		{"InfiniBand", "0x15b3\n", "within", "", Fabric{Devices: true}},
		{"EFA, and a libfabric without", "0x1d0f\n", "plain", "", Fabric{Devices: true, EFA: true}},
		{"EFA within libfabric", "0x1d0f\n", "within", "", Fabric{true, true, true}},
		{"EFA beside libfabric", "0x1d0f\n", "beside", "", Fabric{true, true, true}},
		{"EFA in a libfabric that is loaded by another library", "0x1d0f\n", "within", "far", Fabric{true, true, true}},
		{"EFA in a libfabric that this MPI does not load", "0x1d0f\n", "within", "none", Fabric{Devices: true, EFA: true}},
		{"and beside it", "0x1d0f\n", "beside", "none", Fabric{Devices: true, EFA: true}},
		{"EFA in the MPI's own", "0x1d0f\n", "plain", "its own", Fabric{true, true, true}},
		{"EFA within the libfabric of a plugin", "0x1d0f\n", "within", "by a plugin", Fabric{true, true, true}},
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
		if got := ReadFabric(sys, libs[c.mpi], environment("LD_LIBRARY_PATH="+filepath.Join(w.dir, c.path))); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}

// TestOverUCX: by which an MPI sends is seen in what its library loads.
func TestOverUCX(t *testing.T) {
	w := newWorkshop(t)
	w.lib("libucp.so.0", "int ucp(void) { return 0; }\n")
	with := w.lib("libmpich.so.12", says(`MPICH Version:\t%s`), "-Wl,--no-as-needed", "-L"+w.dir, "-l:libucp.so.0", "-Wl,-rpath,$ORIGIN")
	for lib, want := range map[string]bool{with: true, w.lib("libmpi.so.12", says(`MPICH Version:\t%s`)): false, "": false} {
		if got := OverUCX(Found{Kind: MPICH, Library: lib}, environment()); got != want {
			t.Errorf("%s: %t", lib, got)
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
