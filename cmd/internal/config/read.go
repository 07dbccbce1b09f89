package config

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"regexp"
	"sync"
	"time"

	"github.com/BurntSushi/toml"

	"github.com/burst-hpc/burst/cmd/internal/endpoint"
	"github.com/burst-hpc/burst/cmd/internal/paidhour"
)

// names are what clusters, providers, pools and partitions may be called:
// they become tags in a cloud and words in slurm.conf.
var names = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$`) })

const namesRule = "write up to 63 letters, digits, dots, dashes or underscores, a letter or digit first"

// config reads all sections; what is wrong is in f.errs.
func (f *file) config(tree map[string]any) *Config {
	top := &section{file: f, table: tree}
	c := &Config{Cluster: top.required("cluster", `"mycluster"`)}
	if c.Cluster != "" && !names().MatchString(c.Cluster) {
		top.failAt("cluster", "%q is no name: %s", c.Cluster, namesRule)
	}
	slurm := top.sub("slurm")
	c.Endpoint = daemon(top.sub("daemon")).With(endpoint.Slurm{
		Conf: slurm.abs("conf", ""),
		Bin:  slurm.abs("bin", ""),
		User: slurm.text("user", ""),
	})
	c.controllers = slurm.texts("controllers")
	c.expand = slurm.on("expand")
	c.mixed = slurm.texts("mixed_partitions")
	times := poolTimes(slurm, defaultTimes)
	slurm.done()
	c.servers = servers(tree)
	c.Checkpoint, c.checkpoints = checkpoint(top.sub("checkpoint")), asksForCheckpoints(tree)
	c.Health = health(top.sub("health"))
	c.Budget, c.Cost = spending(top), costs(top)
	for _, s := range top.named("provider") {
		c.Providers = append(c.Providers, provider(s, c.Endpoint.State))
	}
	subs := top.named("pool")
	slow := slowPartitions(c, subs)
	for _, s := range subs {
		def := times
		if slow[inPartition(s)] {
			def.resumeTimeout = max(def.resumeTimeout, SlowTimeout)
		}
		c.Pools = append(c.Pools, pool(s, c, def))
	}
	f.together(subs, c.Pools)
	f.serverPools(subs, c)
	f.partitions(top, c)
	f.mixedPartitions(slurm, c)
	f.judge(c)
	f.noNotices(c)
	c.Overflow = f.overflows(top, c)
	top.done()
	return c
}

// maxSocket is the longest path that the kernel binds a unix socket to.
const maxSocket = 107

func daemon(s *section) endpoint.Config {
	c := endpoint.Config{
		Socket:  s.abs("socket", ""),
		Spool:   s.abs("spool", ""),
		State:   s.abs("state", ""),
		Metrics: s.text("metrics", ""),
		Listen:  s.text("listen", ""),
		NodeURL: s.text("node_url", ""),
	}
	if n := len(c.Socket); n > maxSocket {
		s.failAt("socket", "is %d bytes long: a unix socket's path may have %d", n, maxSocket)
	}
	for _, a := range []struct{ key, text, example string }{
		{"metrics", c.Metrics, "127.0.0.1:9810"}, {"listen", c.Listen, "head.example.org:9811"},
	} {
		if _, port, err := net.SplitHostPort(a.text); a.text != "" && (err != nil || !isPort(port)) {
			s.failAt(a.key, "%q is no address to listen on: write host:port, as in %q", a.text, a.example)
		}
	}
	// Nothing may stand between: a proxy, as for TLS, would hide the node's address.
	if u, err := url.Parse(c.NodeURL); c.NodeURL != "" && (err != nil || u.Scheme != "http" || !isPort(u.Port()) || u.Hostname() == "" || u.Path != "" || u.RawQuery != "") {
		s.failAt("node_url", "%q is not where nodes reach this host: write it as in \"http://head.example.org:9811\"", c.NodeURL)
		c.NodeURL = ""
	}
	s.done()
	return c
}

func health(s *section) Health {
	h := Health{
		SlurmdRestarts: s.limit("slurmd_restarts", 3),
		SlurmdWindow:   s.duration("slurmd_window", 10*time.Minute),
		SpoolFull:      s.limit("spool_full", 95),
		AgentSilent:    s.duration("agent_silent", time.Minute),
	}
	if h.SpoolFull > 100 {
		s.failAt("spool_full", "is %d: write a number of per cent from 1 to 100, or 0 to not judge by it", h.SpoolFull)
	}
	if s.has("agent_silent") && h.AgentSilent < 30*time.Second {
		s.failAt("agent_silent", "is %s, and an agent is heard every few seconds at best: write at least 30s", h.AgentSilent)
	}
	s.done()
	return h
}

// provider reads a [provider.NAME] section; state is burstd's folder.
func provider(s *section, state string) Provider {
	p := Provider{Name: s.name(), Kind: s.required("kind", `"local"`), PriceTable: s.abs("price_table", "")}
	s.checkName()
	switch p.Kind {
	case "":
		return p // its other keys cannot be judged
	case "local":
		p.Local = local(s)
	case "aws":
		p.AWS = account(s)
	case "vultr":
		p.Vultr = vultrAccount(s, state)
	default:
		s.failAt("kind", "%q is not known: this version of Burst knows \"aws\", \"local\" and \"vultr\"", p.Kind)
		return p
	}
	s.done()
	return p
}

// The networks of local instances.
const (
	hostNetwork = "host"  // this host's own: nodes differ by their ports
	ownNetwork  = "netns" // a network namespace and an address for each
)

func local(s *section) Local {
	l := Local{
		Dir:     s.abs("dir", "/var/lib/burst/local"),
		Slurmd:  s.abs("slurmd", "/usr/sbin/slurmd"),
		Network: s.text("network", hostNetwork),
		Subnet:  s.text("subnet", ""),
	}
	if l.Network != hostNetwork && l.Network != ownNetwork {
		s.failAt("network", "%q is not known: write %q or %q", l.Network, hostNetwork, ownNetwork)
	}
	if l.Subnet != "" {
		if err := checkSubnet(l.Subnet); err != nil {
			s.failAt("subnet", "%q: %v, as in \"10.77.0.0/24\"", l.Subnet, err)
		}
	}
	return l
}

func checkSubnet(text string) error {
	p, err := netip.ParsePrefix(text)
	switch {
	case err != nil:
		return errors.New("is no subnet: write an address and a length")
	case p.Masked() != p:
		return errors.New("names a host, not the subnet: write the subnet's first address")
	}
	return nil
}

// checkName reports a section whose name cannot be a tag or a word of slurm.conf.
func (s *section) checkName() {
	if !names().MatchString(s.name()) {
		s.fail(s.at, "%q is no name: %s", s.name(), namesRule)
	}
}

// mixed gives pools that are paid by the hour the SuspendTime of the others that they
// share a partition with: power saving is the partition's. burstd still has their idle
// nodes go before a paid hour ends, also where the others' pools say a suspend_time.
func mixed(pools []Pool) {
	other := map[string]Pool{} // partition -> its first pool that is not
	for _, p := range pools {
		if _, have := other[p.Slurm.Partition]; !have && !p.hourly() {
			other[p.Slurm.Partition] = p
		}
	}
	for i, p := range pools {
		s := p.Slurm
		o, shared := other[s.Partition]
		switch {
		case !p.hourly():
			continue
		case shared:
			s.SuspendTime = o.Slurm.SuspendTime
		default:
			s.SuspendWhy = fmt.Sprintf("SuspendTime is long since these instances are paid by the begun hour: burstd has "+
				"idle nodes powered down %d minutes before an hour of theirs ends, and SuspendTime is for those that it does not get to see. "+
				"With suspend_time in burst.toml they go after that time, and burstd does nothing of the kind.", paidhour.Lead/time.Minute)
		}
		pools[i].Slurm.SuspendTime, pools[i].Slurm.SuspendWhy = s.SuspendTime, s.SuspendWhy
		for n := range p.Then { // the nodes are the same
			pools[i].Then[n].Slurm.SuspendTime, pools[i].Then[n].Slurm.SuspendWhy = s.SuspendTime, s.SuspendWhy
		}
	}
}

// together reports what no pool does wrong alone.
func (f *file) together(subs []*section, pools []Pool) {
	nodes := map[string]toml.Key{}
	ports := map[int]toml.Key{}
	first := map[string]int{} // partition -> its first pool
	mixed(pools)
	for i, p := range pools {
		s := subs[i]
		for _, n := range p.Power.Nodes {
			if other, taken := nodes[n]; taken {
				s.failAt("nodes", "%s is a node of %s too: give every node to one pool", n, other)
				break
			}
		}
		for _, n := range p.Power.Nodes {
			nodes[n] = s.at
		}
		own := hostPorts(p)
		for _, n := range own {
			if other, taken := ports[n]; taken {
				s.failAt("ports", "%d is a port of %s too: on one host every node needs its own", n, other)
				break
			}
		}
		for _, n := range own {
			ports[n] = s.at
		}
		if p.Slurm.Partition == "" {
			continue
		}
		j, shared := first[p.Slurm.Partition]
		if !shared {
			first[p.Slurm.Partition] = i
			continue
		}
		a, b := p.Slurm, pools[j].Slurm
		if a.SuspendTime != b.SuspendTime || a.ResumeTimeout != b.ResumeTimeout || a.SuspendTimeout != b.SuspendTimeout {
			s.failAt("partition", "%q is the partition of %s too, with other times: power saving is the partition's, "+
				"so write the same suspend_time, resume_timeout and suspend_timeout", a.Partition, subs[j].at)
		}
	}
}
