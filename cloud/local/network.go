package local

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// In netns mode the folder has a bridge, whose address is the subnet's first
// and by which instances reach slurmctld on this host. Each instance is a
// network namespace with one end of a veth pair; the bridge has the other.

const namespaces = "/run/netns" // where ip-netns(8) keeps them

// network is an instance's namespace and its way to the bridge.
type network struct {
	Name    string       `json:"name"` // of the namespace
	Bridge  string       `json:"bridge"`
	Veth    string       `json:"veth"` // the bridge's end
	Addr    netip.Prefix `json:"addr"`
	Gateway netip.Addr   `json:"gateway"` // the bridge's address
}

// HostAddr returns the address at which instances reach this host, and in
// netns mode makes the bridge that has it. Cleanup removes the bridge.
func HostAddr(cfg Config) (netip.Addr, error) {
	if err := cfg.Validate(); err != nil {
		return netip.Addr{}, err
	}
	if cfg.Network != NetNS {
		return netip.AddrFrom4([4]byte{127, 0, 0, 1}), nil
	}
	p, err := cfg.subnet()
	if err != nil {
		return netip.Addr{}, err
	}
	return p.Addr().Next(), cfg.makeBridge()
}

func (c Config) bridge() string {
	sum := sha256.Sum256([]byte(filepath.Clean(c.Dir)))
	return "burst-" + hex.EncodeToString(sum[:4])
}

func (c Config) makeBridge() error {
	subnet, err := c.subnet()
	if err != nil {
		return err
	}
	host := netip.PrefixFrom(subnet.Addr().Next(), subnet.Bits()).String()
	name := c.bridge()
	up := "addr replace " + host + " dev " + name + "\nlink set " + name + " up\n"
	if iface, err := net.InterfaceByName(name); err == nil {
		addrs, err := iface.Addrs()
		if err == nil && len(addrs) > 0 && addrs[0].String() == host {
			return nil
		}
		return ip(up)
	}
	return ip("link add " + name + " type bridge\n" + up)
}

// removeBridge removes the bridge, and what ip-netns(8) leaves when no
// namespace is left: a folder that is a mount on itself.
func (c Config) removeBridge() error {
	if _, err := net.InterfaceByName(c.bridge()); err == nil {
		if err := c.removeStrays(); err != nil {
			return err
		}
		if err := ip("link del " + c.bridge() + "\n"); err != nil {
			return err
		}
	}
	if left, err := os.ReadDir(namespaces); err != nil || len(left) > 0 {
		return nil
	}
	if err := unix.Unmount(namespaces, 0); err != nil {
		return nil // not a mount, or in use
	}
	if err := os.Remove(namespaces); err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}

// removeStrays removes the namespaces on the bridge whose folders are gone.
func (c Config) removeStrays() error {
	veths, err := os.ReadDir(filepath.Join("/sys/class/net", c.bridge(), "brif"))
	if err != nil {
		return err
	}
	for _, v := range veths {
		short := strings.TrimPrefix(v.Name(), "bv")
		if !validID.MatchString("i-" + short) {
			continue
		}
		if err := newNetwork(short).remove(); err != nil {
			return err
		}
	}
	return nil
}

// newNetwork names an instance's namespace and interface.
func newNetwork(short string) *network {
	return &network{Name: "burst-" + short, Veth: "bv" + short}
}

// networks plans the networks of new instances, nil where they have none.
// Addresses of the last hour are not used again: Slurm may remember them.
func (p *Provider) networks(ids []string) ([]*network, error) {
	plans := make([]*network, len(ids))
	if p.cfg.Network != NetNS {
		return plans, nil
	}
	subnet, err := p.cfg.subnet()
	if err != nil {
		return nil, err
	}
	used, err := p.store.addresses()
	if err != nil {
		return nil, err
	}
	gateway := subnet.Addr().Next()
	addr := gateway.Next()
	for n, id := range ids {
		for used[addr] {
			addr = addr.Next()
		}
		if !subnet.Contains(addr.Next()) { // the last is for broadcasts
			return nil, fmt.Errorf("subnet %s has no address left", subnet)
		}
		plan := newNetwork(strings.TrimPrefix(id, "i-"))
		plan.Bridge, plan.Addr, plan.Gateway = p.cfg.bridge(), netip.PrefixFrom(addr, subnet.Bits()), gateway
		plans[n] = plan
		used[addr] = true
	}
	return plans, nil
}

// addresses lists those of all instances that are remembered.
func (s store) addresses() (map[netip.Addr]bool, error) {
	ids, err := s.ids()
	if err != nil {
		return nil, err
	}
	used := map[netip.Addr]bool{}
	for _, id := range ids {
		r, ok, err := s.record(id)
		if err != nil {
			return nil, err
		}
		if ok && r.Network != nil {
			used[r.Network.Addr.Addr()] = true
		}
	}
	return used, nil
}

// make makes the instance's namespace. The hardware address follows from the
// IP address, so that neighbours never remember a wrong one.
func (n *network) make() error {
	a := n.Addr.Addr().As4()
	mac := net.HardwareAddr{0x02, 0x42, a[0], a[1], a[2], a[3]}
	err := ip(fmt.Sprintf("netns add %[1]s\nlink add %[2]s type veth peer name eth0 address %[3]s netns %[1]s\nlink set %[2]s master %[4]s up\n",
		n.Name, n.Veth, mac, n.Bridge))
	if err != nil {
		return err
	}
	return ip(fmt.Sprintf("link set lo up\naddr add %s dev eth0\nlink set eth0 up\nroute add default via %s\n", n.Addr, n.Gateway), "-n", n.Name)
}

// remove kills what is left in the namespace and removes it. It is no error
// that it is gone, or was never made.
func (n *network) remove() error {
	if _, err := os.Stat(filepath.Join(namespaces, n.Name)); err == nil {
		if err := n.kill(); err != nil {
			return err
		}
		if err := ip("netns del " + n.Name + "\n"); err != nil {
			return err
		}
	}
	if _, err := net.InterfaceByName(n.Veth); err == nil {
		// The kernel removes it with the namespace, a little later.
		if err := ip("link del " + n.Veth + "\n"); err != nil {
			if _, there := net.InterfaceByName(n.Veth); there == nil {
				return err
			}
		}
	}
	return nil
}

// kill ends every process in the namespace, also those that left their parent.
func (n *network) kill() error {
	for deadline := time.Now().Add(controlTimeout); ; time.Sleep(5 * time.Millisecond) {
		out, err := exec.Command("ip", "netns", "pids", n.Name).Output()
		if err != nil {
			return fmt.Errorf("reading the processes of network namespace %s: %w", n.Name, err)
		}
		pids := bytes.Fields(out)
		if len(pids) == 0 {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("network namespace %s still has the processes %s", n.Name, bytes.Join(pids, []byte(" ")))
		}
		for _, text := range pids {
			var pid int
			if _, err := fmt.Sscan(string(text), &pid); err != nil || pid <= 1 {
				return fmt.Errorf("reading the processes of network namespace %s: %q", n.Name, text)
			}
			if err := unix.Kill(pid, unix.SIGKILL); err != nil && err != unix.ESRCH {
				return fmt.Errorf("killing process %d in network namespace %s: %w", pid, n.Name, err)
			}
		}
	}
}

// ip runs a batch of ip(8) commands, one a line.
func ip(batch string, options ...string) error {
	cmd := exec.Command("ip", append(options, "-batch", "-")...)
	cmd.Stdin = strings.NewReader(batch)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("ip %s of %q: %w: %s", strings.Join(cmd.Args[1:], " "), batch, err, bytes.TrimSpace(out))
	}
	return nil
}
