package mpi

import (
	"net/netip"
	"strings"
	"testing"
)

// TestChoose: the nodes' network is chosen where the host has another, and only if it has them all.
func TestChoose(t *testing.T) {
	for _, c := range []struct {
		name, host, nodes, want string
	}{
		{"a public network beside", "eth0 203.0.113.7/24,eth1 10.1.0.3/20", "10.1.0.3 10.1.0.4", "eth1 10.1.0.0/20"},
		{"the first one", "eth0 10.1.0.3/20,eth1 10.2.0.3/20", "10.1.0.3 10.1.0.4", "eth0 10.1.0.0/20"},
		{"the narrower of two", "eth0 10.1.0.3/8,eth1 10.1.0.3/20", "10.1.0.3 10.1.0.4", "eth1 10.1.0.0/20"},
		{"several interfaces of one network", "eth0 10.1.0.3/20,eth1 10.1.0.7/20", "ASKED IN VAIN", ""},
		{"one network", "eth0 10.1.0.3/20", "ASKED IN VAIN", ""},
		{"none", "", "ASKED IN VAIN", ""},
		{"a login node with other interfaces", "eno1 203.0.113.9/24,eno2 10.1.0.9/20", "10.1.0.3 10.1.0.4", ""},
		{"a node elsewhere", "eth0 203.0.113.7/24,eth1 10.1.0.3/20", "10.1.0.3 10.1.16.4", ""},
		{"addresses that are routed", "eth0 203.0.113.7/24,eth1 10.1.0.3/32", "10.1.0.3 10.1.0.4", ""},
		{"addresses that are not known", "eth0 203.0.113.7/24,eth1 10.1.0.3/20", "", ""},
		{"IPv6", "eth0 203.0.113.7/24,eth1 10.1.0.3/20", "fd00::3 fd00::4", ""},
	} {
		var all []Network
		for one := range strings.SplitSeq(c.host, ",") {
			if name, prefix, ok := strings.Cut(one, " "); ok {
				all = append(all, Network{name, netip.MustParsePrefix(prefix)})
			}
		}
		got, want := Choose(all, func() (nodes []netip.Addr) {
			if c.nodes == "ASKED IN VAIN" {
				t.Errorf("%s: the nodes' addresses are asked for", c.name)
				return nil
			}
			for a := range strings.FieldsSeq(c.nodes) {
				nodes = append(nodes, netip.MustParseAddr(a))
			}
			return nodes
		}), Network{}
		if name, prefix, ok := strings.Cut(c.want, " "); ok {
			want = Network{name, netip.MustParsePrefix(prefix)}
		}
		if got != want {
			t.Errorf("%s: %v, want %v", c.name, got, want)
		}
	}
}

// TestNetworkOfTheNodes: each MPI is kept to it, and what the user or the site says stays.
func TestNetworkOfTheNodes(t *testing.T) {
	const pmix = "SLURM_PMIX_FENCE=ring"
	for _, c := range []struct {
		name  string
		f     Found
		env   string
		nodes int
		by    bool // its own launcher
		world func(*World)
		want  string // beside the launch
	}{
		{"Open MPI 4", ompi4, "", 2, false, nil, pmix + " OMPI_MCA_btl_tcp_if_include=10.1.0.0/20"},
		{"Open MPI 5", ompi5, "", 2, false, nil, pmix + " OMPI_MCA_btl_tcp_if_include=10.1.0.0/20"},
		{"one node", ompi5, "", 1, false, nil, ""},
		{"the user's list of what to leave out", ompi4, "OMPI_MCA_btl_tcp_if_exclude=lo,eth0", 2, false, nil, pmix + " (OMPI_MCA_btl_tcp_if_exclude=lo,eth0)"},
		{"the user's list of what to use", ompi4, "OMPI_MCA_btl_tcp_if_include=eth0", 2, false, nil, pmix + " (OMPI_MCA_btl_tcp_if_include=eth0)"},
		{"the site's file", ompi4, "", 2, false, func(w *World) {
			w.Params = func(Found) map[string]string { return map[string]string{"btl_tcp_if_exclude": "/etc/x.conf"} }
		}, pmix + " (btl_tcp_if_exclude)"},
		{"its launcher, too", ompi4, "", 2, true, nil, "OMPI_MCA_hwloc_base_binding_policy=none OMPI_MCA_btl_tcp_if_include=10.1.0.0/20 OMPI_MCA_oob_tcp_if_include=10.1.0.0/20"},
		{"and that of Open MPI 5", ompi5, "", 2, true, nil, "PRTE_MCA_hwloc_default_binding_policy=none OMPI_MCA_btl_tcp_if_include=10.1.0.0/20 PRTE_MCA_prte_if_include=10.1.0.0/20 !"},

		{"MPICH", mpich, "", 2, false, nil, "FI_TCP_IFACE=eth1"},
		{"the user's interface", mpich, "FI_TCP_IFACE=eth0", 2, false, nil, "(FI_TCP_IFACE=eth0)"},
		{"its launcher, too", mpich, "", 2, true, nil, "SLURM_MPI_TYPE=none FI_TCP_IFACE=eth1 HYDRA_IFACE=eth1"},
		{"MPICH over UCX", mpich, "", 2, false, func(w *World) { w.UCX = func(Found) bool { return true } }, "UCX_NET_DEVICES=eth1"},
		{"which has InfiniBand", mpich, "", 2, false, func(w *World) {
			w.UCX = func(Found) bool { return true }
			w.Fabric = func(Found) Fabric { return Fabric{Devices: true} }
		}, ""},
		{"Intel MPI", intel, "", 2, true, nil, "I_MPI_PIN=off SLURM_MPI_TYPE=none FI_TCP_IFACE=eth1 I_MPI_HYDRA_IFACE=eth1"},
	} {
		w := world(ours, strings.Fields(c.env)...)
		w.Network = func() Network { return Network{"eth1", netip.MustParsePrefix("10.1.0.0/20")} }
		w.Bridges = func() []string { return []string{"docker0"} } // left out by that
		w.Launcher = func(f Found) string { return "/bin/" + string(f.Kind) }
		if c.world != nil {
			c.world(&w)
		}
		p, err := w.Plan(c.f, Step{Nodes: c.nodes, Tasks: c.nodes, Whole: true}, Word{Launcher: c.by, Line: c.by})
		if err != nil || len(p.Settings) == 0 {
			t.Errorf("%s: %q, %v", c.name, texts(p), err)
			continue
		}
		p.Settings = p.Settings[1:]
		if texts(p) != c.want {
			t.Errorf("%s: %q, want %q", c.name, texts(p), c.want)
		}
	}
}
