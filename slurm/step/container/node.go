package container

import (
	"os"
	"path/filepath"
	"strings"
)

// efaFolder is where the installer of AWS's EFA puts its libfabric.
const efaFolder = "/opt/amazon/efa"

// ThisNode reads what this node has. root is the folder that its paths are below, "/" but
// in tests.
func ThisNode(root string) Node {
	there := func(path string) bool {
		_, err := os.Stat(filepath.Join(root, path))
		return err == nil
	}
	n := Node{NVIDIA: there("/dev/nvidiactl"), AMD: there("/dev/kfd")}
	devices, _ := filepath.Glob(filepath.Join(root, "/sys/class/infiniband/*/device/driver")) // the pattern is right
	for _, d := range devices {
		if to, err := os.Readlink(d); err == nil && filepath.Base(to) == "efa" && there(efaFolder) {
			n.EFA = efaFolder
		}
	}
	n.Exists = func(dir string) bool {
		st, err := os.Stat(filepath.Join(root, dir))
		return err == nil && st.IsDir()
	}
	return n
}

// found are the variables that name folders which a rank must find: PMIx's, where
// slurmstepd and its ranks share memory, temporary ones, and SCR's.
var found = []string{"PMIX_SERVER_TMPDIR", "PMIX_NSDIR", "PMIX_DSTORE_21_BASE_PATH", "PMIX_DSTORE_ESH_BASE_PATH", "TMPDIR",
	"SCR_PREFIX", "SCR_CACHE_BASE", "SCR_CNTL_BASE"}

// Found are the folders that a rank's environment names.
func Found(env func(string) string) []string {
	var dirs []string
	for _, name := range found {
		if dir := env(name); strings.HasPrefix(dir, "/") {
			dirs = append(dirs, dir)
		}
	}
	// The folder of libburst's socket is on the batch host alone, in /tmp, which not every
	// site and user has in containers.
	if socket := env("BURST_LIB"); strings.HasPrefix(socket, "/") {
		dirs = append(dirs, filepath.Dir(socket))
	}
	return dirs
}
