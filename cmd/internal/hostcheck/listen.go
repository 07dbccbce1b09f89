package hostcheck

import (
	"context"
	"encoding/hex"
	"net"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/burst-hpc/burst/slurm/conf"
)

// listen looks at the address for nodes of a cloud.
func (h *Host) listen(ctx context.Context, s Site) []conf.Finding {
	if s.Endpoint.Listen == "" {
		return nil // what lacks it says so
	}
	return h.address(ctx, s, address{key: "listen", at: s.Endpoint.Listen, nodes: s.Clouds && s.Endpoint.NodeURL == ""})
}

// nodeURL looks at the address by which nodes know this host, where it is another than that of listen.
func (h *Host) nodeURL(ctx context.Context, s Site) []conf.Finding {
	f := ok("node_url", s.Endpoint.NodeURL, "It is this host's.")
	u, err := url.Parse(f.Have)
	if f.Have == "" || !s.Clouds || err != nil { // Load has refused it
		return nil
	}
	own, err := h.Own()
	if err != nil {
		return nil
	}
	ips := []net.IP{net.ParseIP(u.Hostname())}
	name := ips[0] == nil
	if name {
		if ips, err = h.Resolve(ctx, u.Hostname()); err != nil || len(ips) == 0 {
			return but(f, conf.Advice, "%s has no address here: %v. See that it has one on the nodes, and that it is this host's.", u.Hostname(), err)
		}
	}
	mine := func(ip net.IP) bool { return slices.ContainsFunc(own, ip.Equal) }
	switch {
	case name && !slices.ContainsFunc(ips, func(ip net.IP) bool { return !ip.IsLoopback() }): // Debian's 127.0.1.1
		return but(f, conf.Advice, "%s is %s here, as /etc/hosts may say. Nodes ask their own name service: see that they find an address of this host there.", u.Hostname(), ips[0])
	case !name && ips[0].IsLoopback():
		return but(f, conf.Wrong, "%s is %s here: no node of a cloud reaches this host by it. Write its address in the network of the nodes.", u.Hostname(), ips[0])
	case !slices.ContainsFunc(ips, mine):
		return but(f, conf.Advice, "%s is %s, which is no address of this host: right where what has it passes it on to here, and wrong where it is another host, on which burstd ran before.",
			u.Hostname(), ips[0])
	case u.Port() != portOf(s.Endpoint.Listen):
		return but(f, conf.Advice, "It is this host's, and burstd listens on port %s: right where this host passes the other port on to it, else write that into node_url.", portOf(s.Endpoint.Listen))
	}
	return []conf.Finding{f}
}

// metrics looks at the address of the metrics.
func (h *Host) metrics(ctx context.Context, s Site) []conf.Finding {
	if s.Endpoint.Metrics == "" {
		return nil
	}
	return h.address(ctx, s, address{key: "metrics", at: s.Endpoint.Metrics})
}

type address struct {
	key, at string
	nodes   bool // those of other hosts use it as it is written
}

func (h *Host) address(ctx context.Context, s Site, a address) []conf.Finding {
	f := ok(a.key, a.at, "It is this host's, and nobody else has the port.")
	host, port, err := net.SplitHostPort(a.at)
	if err != nil {
		return nil // Load has refused it
	}
	number, err := strconv.Atoi(port)
	if err != nil {
		return nil
	}
	if number < 1024 && s.Burstd.UID != 0 {
		return but(f, conf.Wrong, "Ports below 1024 are root's, and burstd runs as %s: write a higher one, as 9811.", s.Burstd.Name)
	}
	if host != "" {
		if all := h.ours(ctx, f, host, a.nodes); all != nil {
			return all
		}
	}
	runs := h.running(ctx, s)
	uids, err := h.listeners(number)
	switch {
	case err != nil:
		return but(f, conf.Unknown, "Who listens on port %d cannot be told: %v.", number, err)
	case len(uids) == 0 && runs:
		return but(f, conf.Advice, "burstd runs and does not listen there: restart it if burst.toml has changed since, or see \"journalctl -u burstd\".")
	case len(uids) == 0:
		f.Why = "It is this host's, and nobody has the port yet."
	case !runs:
		return but(f, conf.Wrong, "Port %d is in use by a process of uid %d, and burstd does not run: \"ss -ltnp\" says which. End it, or write another port.", number, uids[0])
	case !slices.Contains(uids, s.Burstd.UID):
		return but(f, conf.Wrong, "Port %d is in use by a process of uid %d, and burstd is %s's: \"ss -ltnp\" says which. End it, or write another port.", number, uids[0], s.Burstd.Name)
	default:
		f.Why = "burstd listens there."
	}
	return []conf.Finding{f}
}

// ours says what is wrong with a host's name to listen on; nil: nothing.
func (h *Host) ours(ctx context.Context, f conf.Finding, host string, nodes bool) []conf.Finding {
	ips := []net.IP{net.ParseIP(host)}
	if ips[0] == nil {
		var err error
		if ips, err = h.Resolve(ctx, host); err != nil || len(ips) == 0 {
			return but(f, conf.Wrong, "%s has no address here: %v. Write a name that this host and the nodes know, or an address.", host, err)
		}
	}
	own, err := h.Own()
	if err != nil {
		return nil
	}
	first := ips[0] // the one that burstd opens
	if i := slices.IndexFunc(ips, func(ip net.IP) bool { return ip.To4() != nil }); i >= 0 {
		first = ips[i]
	}
	switch {
	case first.IsUnspecified():
		return nil
	case first.IsLoopback() && nodes:
		return but(f, conf.Wrong, "%s is %s on this host: burstd would hear nobody but this host itself, and no node of a cloud. "+
			"Write its address in the network of the nodes, or take it out of the line of 127.0.1.1 in /etc/hosts.", host, first)
	case !first.IsLoopback() && !slices.ContainsFunc(own, first.Equal):
		return but(f, conf.Wrong, "%s is %s, which is no address of this host: burstd cannot listen there. Was it moved here? Write this host's. Where nodes reach it by a forwarding write that as node_url, and listen = \":%s\".",
			host, first, portOf(f.Have))
	}
	return nil
}

func portOf(at string) string {
	_, port, _ := net.SplitHostPort(at) // its caller has done so
	return port
}

// listeners are the users of the processes that listen on a TCP port, by the kernel's own tables.
func (h *Host) listeners(port int) ([]int, error) {
	var uids []int
	for i, name := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		text, err := os.ReadFile(h.at(name))
		if err != nil && i == 0 {
			return nil, err
		}
		uids = append(uids, listening(string(text), port)...) // a host without IPv6 has no second table
	}
	return uids, nil
}

// listening reads such a table: sl, local address in hex, remote address, state, queues, timer,
// retransmits, uid.
func listening(table string, port int) []int {
	const listen = "0A"
	var uids []int
	for line := range strings.Lines(table) {
		w := strings.Fields(line)
		if len(w) < 8 || w[3] != listen {
			continue
		}
		_, at, _ := strings.Cut(w[1], ":")
		b, err := hex.DecodeString(at)
		uid, uerr := strconv.Atoi(w[7])
		if err == nil && uerr == nil && len(b) == 2 && int(b[0])<<8|int(b[1]) == port {
			uids = append(uids, uid)
		}
	}
	return uids
}
