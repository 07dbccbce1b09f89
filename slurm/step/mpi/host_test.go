package mpi

import (
	"os"
	"path/filepath"
	"testing"
)

// host makes files of a host in a folder.
func host(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestParams(t *testing.T) {
	dir := host(t, map[string]string{
		"opt/lib/libmpi.so.40":               "",
		"opt/etc/openmpi-mca-params.conf":    "# btl = x\n btl_tcp_if_include = ib0 # the fabric\nbtl=^openib\n",
		"opt/etc/prte-mca-params.conf":       "prte_if_include=eth0\n",
		"home/.openmpi/mca-params.conf":      "oob_tcp_if_include=eth1\n",
		"elsewhere/openmpi-mca-params.conf":  "btl_tcp_links=2\n",
		"elsewhere2/openmpi-mca-params.conf": "never=1\n",
	})
	got := Params(Found{Kind: OpenMPI4, Library: dir + "/opt/lib/libmpi.so.40"},
		environment("HOME="+dir+"/home", "OMPI_MCA_mca_base_param_files="+dir+"/elsewhere/openmpi-mca-params.conf"))
	for name, file := range map[string]string{
		"btl_tcp_if_include": "opt/etc/openmpi-mca-params.conf", "btl": "opt/etc/openmpi-mca-params.conf", "prte_if_include": "opt/etc/prte-mca-params.conf",
		"oob_tcp_if_include": "home/.openmpi/mca-params.conf", "btl_tcp_links": "elsewhere/openmpi-mca-params.conf",
	} {
		if got[name] != filepath.Join(dir, file) {
			t.Errorf("%s is of %q, want %s", name, got[name], file)
		}
	}
	if _, has := got["never"]; has || got["# btl"] != "" {
		t.Errorf("%v", got)
	}
}

// TestOnlyAHostsOwnBridgesAreLeftOut: a network that is bridged to the outside is not.
func TestOnlyAHostsOwnBridgesAreLeftOut(t *testing.T) {
	const net = "sys/class/net/"
	dir := host(t, map[string]string{
		net + "docker0/brif/veth1/port_no":         "",
		net + "br-0123456789ab/brif/veth2/port_no": "",
		net + "virbr0/brif/eth0/port_no":           "",
		net + "virbr1/brif/vnet0/port_no":          "",
		net + "br-ex/brif/veth3/port_no":           "",
		net + "eth0/device/vendor":                 "",
		net + "cni0/address":                       "",
		net + "lxcbr0/brif/veth4/port_no":          "",
		"proc/net/route":                           "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\nlxcbr0\t00000000\t0102A8C0\t0003\t0\t0\t0\t00000000\t0\t0\t0\nvirbr1\t0002A8C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n",
	})
	for name, want := range map[string]bool{
		"docker0": true, "br-0123456789ab": true, "virbr1": true,
		"virbr0": false, // of a port that is hardware
		"br-ex":  false, "eth0": false,
		"cni0":   false, // no bridge
		"lxcbr0": false, // the default route is by it
		"ib0":    false,
	} {
		if got := inward(dir, name); got != want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// TestALauncherOfAnotherVersionIsNone: it may not start the library's ranks.
func TestALauncherOfAnotherVersionIsNone(t *testing.T) {
	w := newWorkshop(t)
	rte := w.lib("lib/libopen-rte.so.40", "const char orte_version_string[] = \"4.0.3\";\n")
	w.gcc("bin/mpirun", "int main(void) { return 0; }\n", "-Wl,--no-as-needed", rte, "-Wl,-rpath,$ORIGIN/../lib")
	env := environment("PATH=" + w.dir + "/bin")
	for version, want := range map[string]string{"4.0.7": w.dir + "/bin/mpirun", "4.1.4": "", "": w.dir + "/bin/mpirun"} {
		if got := FindLauncher(Found{Kind: OpenMPI4, Version: version}, env); got != want {
			t.Errorf("%q: %q, want %q", version, got, want)
		}
	}
}
