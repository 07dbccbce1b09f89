package local

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/burst-hpc/burst/cloud"
)

func TestNetworks(t *testing.T) {
	cfg := configure(t)
	cfg.Network, cfg.Subnet = NetNS, "10.9.0.0/29"
	p := &Provider{cfg: cfg, store: store{cfg.Dir}}
	if err := p.store.make(); err != nil {
		t.Fatal(err)
	}
	plans, err := p.networks([]string{"i-0000000001", "i-0000000002"})
	if err != nil {
		t.Fatal(err)
	}
	want := network{
		Name: "burst-0000000002", Bridge: cfg.bridge(), Veth: "bv0000000002",
		Addr: netip.MustParsePrefix("10.9.0.3/29"), Gateway: netip.MustParseAddr("10.9.0.1"),
	}
	if *plans[1] != want {
		t.Errorf("the second network is %+v, want %+v", *plans[1], want)
	}
	if n := len(plans[1].Bridge); n > unix.IFNAMSIZ-1 {
		t.Errorf("the bridge's name has %d letters", n)
	}
	// One that is taken, and more than there are.
	id := "i-0000000001"
	if err := os.Mkdir(p.store.path(id, ""), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := writeJSON(p.store.path(id, instanceFile), record{ID: id, Token: "t", Cluster: "c", Network: plans[0]}); err != nil {
		t.Fatal(err)
	}
	next, err := p.networks([]string{"i-0000000003"})
	if err != nil || next[0].Addr.Addr() != netip.MustParseAddr("10.9.0.3") {
		t.Errorf("the next network is %+v, %v", next, err)
	}
	if _, err := p.networks(make([]string, 5)); err == nil || !strings.Contains(err.Error(), "no address left") {
		t.Errorf("5 more than the 4 that are free: %v", err)
	}
	if err := os.RemoveAll(p.store.path(id, "")); err != nil {
		t.Fatal(err)
	}
}

// TestNamespaces gives instances a network namespace each, from which they
// reach this host, and checks that nothing of it is left in the end.
func TestNamespaces(t *testing.T) {
	if testing.Short() {
		t.Skip("network namespaces: slow end-to-end, run by make test")
	}
	cfg := configure(t)
	cfg.Network, cfg.Subnet = NetNS, fmt.Sprintf("10.%d.%d.0/24", 232+os.Getpid()>>8%16, os.Getpid()&255)
	if os.Geteuid() != 0 {
		if _, err := New(cfg); err == nil || !strings.Contains(err.Error(), "needs root") {
			t.Errorf("an ordinary user: %v", err)
		}
		return
	}
	t.Cleanup(func() {
		if err := Cleanup(cfg); err != nil {
			t.Error(err)
		}
	})
	_, before := os.Stat(namespaces)
	host, err := HostAddr(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", netip.AddrPortFrom(host, 0).String())
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	_, port, err := net.SplitHostPort(ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	write(t, cfg.Slurmd, fmt.Sprintf("#!/bin/bash\necho $3 >/dev/tcp/%s/%s\n%s", host, port, strings.TrimPrefix(stubSlurmd, "#!/bin/sh\n")))
	p := open(t, cfg)
	ids := map[string]string{"n1": start(t, p, "t1", "n1"), "n2": start(t, p, "t2", "n2")}
	for range ids {
		conn, err := ln.Accept()
		if err != nil {
			t.Fatal(err)
		}
		var node string
		if _, err := fmt.Fscan(conn, &node); err != nil {
			t.Fatal(err)
		}
		conn.Close()
		got, err := p.List(t.Context(), cloud.Filter{Cluster: "c", IDs: []string{ids[node]}})
		if err != nil || len(got) != 1 || got[0].Hostname != "" {
			t.Fatalf("listed %+v, %v", got, err)
		}
		if from, _, _ := net.SplitHostPort(conn.RemoteAddr().String()); from != got[0].Addr {
			t.Errorf("node %s speaks from %s, its address is %s", node, from, got[0].Addr)
		}
	}
	// One machine dies without a word, one as it should; the third is left to Cleanup.
	signalTo(t, machineOf(t, p, ids["n1"]).PID, unix.SIGKILL)
	if err := p.Terminate(t.Context(), []string{ids["n2"]}); err != nil {
		t.Fatal(err)
	}
	third := start(t, p, "t3", "n3")
	for _, id := range ids {
		awaitState(t, p, id, cloud.Terminated)
		assertNoNetwork(t, id)
	}
	if err := os.RemoveAll(p.store.path(ids["n1"], "")); err != nil {
		t.Fatal(err)
	}
	if err := Cleanup(cfg); err != nil {
		t.Fatal(err)
	}
	assertNoNetwork(t, third)
	if _, err := net.InterfaceByName(cfg.bridge()); err == nil {
		t.Errorf("bridge %s is left", cfg.bridge())
	}
	if _, after := os.Stat(namespaces); before != nil && after == nil {
		t.Errorf("%s is left", namespaces)
	}
}

func assertNoNetwork(t *testing.T, id string) {
	t.Helper()
	n := newNetwork(strings.TrimPrefix(id, "i-"))
	if _, err := os.Stat(filepath.Join(namespaces, n.Name)); err == nil {
		t.Errorf("network namespace %s is left", n.Name)
	}
	if _, err := net.InterfaceByName(n.Veth); err == nil {
		t.Errorf("interface %s is left", n.Veth)
	}
}
