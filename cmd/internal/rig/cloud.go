package rig

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path/filepath"

	"github.com/burst-hpc/burst/cloud/local"
)

// hostAddr returns the address at which the instances reach this host. With
// NetNS it makes the bridge that has it.
func (s *Site) hostAddr() (string, error) {
	if !s.o.NetNS {
		return "", nil // the sandbox's own choice
	}
	var err error
	if s.subnet, err = freeSubnet(s.Dir); err != nil {
		return "", err
	}
	if err := os.WriteFile(filepath.Join(s.Dir, netnsFile), nil, 0o644); err != nil {
		return "", err
	}
	cfg := cloudConfig(s.Dir)
	cfg.Subnet = s.subnet
	addr, err := local.HostAddr(cfg)
	if err != nil {
		return "", fmt.Errorf("making the instances' network: %w", err)
	}
	return addr.String(), nil
}

func controlOf(dir string) local.Control {
	return local.Control{Dir: filepath.Join(dir, cloudDir)}
}

// cloudConfig is how the site's local provider is configured.
func cloudConfig(dir string) local.Config {
	cfg := local.Config{Dir: controlOf(dir).Dir, Conf: filepath.Join(dir, slurmDir, "slurm.conf")}
	if _, err := os.Stat(filepath.Join(dir, netnsFile)); err == nil {
		cfg.Network = local.NetNS
	}
	return cfg
}

// cleanCloud ends all instances of the site in dir.
func cleanCloud(dir string) error {
	if _, err := os.Stat(controlOf(dir).Dir); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err := local.Cleanup(cloudConfig(dir)); err != nil {
		return fmt.Errorf("ending the instances: %w", err)
	}
	return nil
}

// freeSubnet picks a network that this host is not in, another one for each
// site, since several may run at once.
func freeSubnet(dir string) (string, error) {
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return "", fmt.Errorf("reading this host's addresses: %w", err)
	}
	sum := sha256.Sum256([]byte(dir))
	for i := range 256 {
		p := netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 128 + sum[0]%120, sum[1] + byte(i), 0}), 24)
		if !overlaps(p, addrs) {
			return p.String(), nil
		}
	}
	return "", errors.New("this host is in every network that the instances could have")
}

func overlaps(p netip.Prefix, addrs []net.Addr) bool {
	for _, a := range addrs {
		if other, err := netip.ParsePrefix(a.String()); err == nil && p.Overlaps(other) {
			return true
		}
	}
	return false
}
