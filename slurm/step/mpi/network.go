package mpi

import (
	"net"
	"net/netip"
	"slices"
)

// Network is one of this host's, and the interface that leads to it.
type Network struct {
	Interface string
	Prefix    netip.Prefix // of Networks with this host's own address
}

// Choose is the network in which the nodes of a job have their addresses, where this host, one
// of them, has another one as well: that may be closed between the nodes, as is a cloud's public one. Zero:
// there is nothing to choose, no network has them all, or this host is none of them, as under salloc: its
// interfaces say nothing of theirs. nodes is asked for only if there is something to choose.
func Choose(all []Network, nodes func() []netip.Addr) Network {
	several := false
	for _, n := range all {
		several = several || n.Prefix.Masked() != all[0].Prefix.Masked()
	}
	if !several {
		return Network{}
	}
	addresses := nodes()
	var found Network
	for _, n := range all {
		in := len(addresses) > 1 && slices.Contains(addresses, n.Prefix.Addr())
		for _, a := range addresses {
			in = in && n.Prefix.Contains(a)
		}
		if in && (found.Interface == "" || n.Prefix.Bits() > found.Prefix.Bits()) { // as the kernel's routes
			found = Network{n.Interface, n.Prefix.Masked()}
		}
	}
	return found
}

// Networks are this host's that may lead to other nodes, of IPv4: those of interfaces that are
// up, without the loopback and the bridges that are the host's own.
func Networks() (all []Network) {
	interfaces, err := net.Interfaces()
	if err != nil {
		return nil // nothing is known of them
	}
	for _, i := range interfaces {
		if i.Flags&net.FlagUp == 0 || i.Flags&net.FlagLoopback != 0 || inward("/", i.Name) {
			continue
		}
		addresses, err := i.Addrs()
		if err != nil {
			continue // it has gone
		}
		for _, a := range addresses {
			p, err := netip.ParsePrefix(a.String())
			if err == nil && p.Addr().Is4() && p.Addr().IsGlobalUnicast() {
				all = append(all, Network{i.Name, p})
			}
		}
	}
	return all
}
