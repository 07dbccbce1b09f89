package mpi

import (
	"bufio"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// bridgeNames are those that Docker, Podman, libvirt, LXC and CNI give to the bridges of one
// host: the address of each is the same on every node, and leads to no other. A site's own
// bridges, as br0 and br-ex, carry its network.
var bridgeNames = regexp.MustCompile(`^(docker0|docker_gwbridge|br-[0-9a-f]{12}|podman\d+|cni-podman\d+|cni0|virbr\d+|lxcbr\d+|lxdbr\d+|incusbr\d+|nerdctl\d+)$`)

// Bridges are the names of this host's interfaces that are up, have an address, and lead to no
// other node.
func Bridges() []string {
	all, err := net.Interfaces()
	if err != nil {
		return nil // nothing is known of them
	}
	var names []string
	for _, i := range all {
		addresses, err := i.Addrs()
		if err == nil && len(addresses) > 0 && i.Flags&net.FlagUp != 0 && inward("/", i.Name) {
			names = append(names, i.Name)
		}
	}
	return names
}

// inward says whether an interface is a bridge of this host's own: by its name, none of its
// ports is of hardware, and no default route is by it. root is where /sys and /proc are.
func inward(root, name string) bool {
	dir := filepath.Join(root, "sys/class/net")
	if !bridgeNames.MatchString(name) {
		return false
	}
	ports, err := os.ReadDir(filepath.Join(dir, name, "brif"))
	if err != nil {
		return false // it is no bridge
	}
	for _, p := range ports {
		if _, err := os.Stat(filepath.Join(dir, p.Name(), "device")); err == nil {
			return false
		}
	}
	return !slices.Contains(defaults(filepath.Join(root, "proc/net/route")), name)
}

// defaults are the interfaces that a default route is by, as the kernel lists them.
func defaults(path string) (names []string) {
	f, err := os.Open(path)
	if err != nil {
		return nil
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		words := strings.Fields(lines.Text()) // interface, destination, gateway, ... mask
		if len(words) > 7 && words[1] == "00000000" && words[7] == "00000000" {
			names = append(names, words[0])
		}
	}
	return names
}
