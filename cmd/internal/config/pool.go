package config

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/burst-hpc/burst/cloud/fleet"
	"github.com/burst-hpc/burst/cloud/price"
	"github.com/burst-hpc/burst/cmd/internal/history"
	"github.com/burst-hpc/burst/cmd/internal/paidhour"
	"github.com/burst-hpc/burst/slurm/conf"
	"github.com/burst-hpc/burst/slurm/directive"
	"github.com/burst-hpc/burst/slurm/hostlist"
	"github.com/burst-hpc/burst/slurm/power"
)

// times are a partition's power saving.
type times struct {
	suspend, resumeTimeout, suspendTimeout time.Duration

	said bool // the site has written suspend
}

// DefaultSuspend is suspend_time where neither the site nor an hour that is paid for says more.
const DefaultSuspend = 10 * time.Minute

var defaultTimes = times{suspend: DefaultSuspend, resumeTimeout: 15 * time.Minute, suspendTimeout: 2 * time.Minute}

func poolTimes(s *section, def times) times {
	return times{
		said:           def.said || s.has("suspend_time"),
		suspend:        s.duration("suspend_time", def.suspend),
		resumeTimeout:  s.duration("resume_timeout", def.resumeTimeout),
		suspendTimeout: s.duration("suspend_timeout", def.suspendTimeout),
	}
}

// pool reads a [pool.NAME] section; c has the providers, def the times of [slurm].
func pool(s *section, c *Config, def times) Pool {
	s.checkName()
	subs := s.tables("then", `{ provider = "lon", instance_types = ["vhp-8c-16gb-amd"] }`)
	all := append([]*section{s}, subs...)
	server := serves(s)
	t := poolTimes(s, def)
	t.said = t.said || server // which is idle for ever
	if hourly(c, t, all) {
		t.suspend = paidhour.SuspendTime
	}
	p := Pool{
		Line:     s.lines[s.at.String()],
		PaidUnit: paidUnit(c, t, s),
		Power: power.Pool{
			Name:            s.name(),
			Nodes:           nodes(s),
			Partition:       partitionOf(s, server),
			MaxBootFailures: s.number("max_boot_failures", "", "5"),
		},
		Slurm: conf.Pool{
			Ports:          s.text("ports", ""),
			Hostname:       s.text("hostname", ""),
			Features:       s.texts("features"),
			Options:        s.text("node_options", ""),
			SuspendTime:    t.suspend,
			ResumeTimeout:  t.resumeTimeout,
			SuspendTimeout: t.suspendTimeout,
		},
		OnRebalance:   cmp.Or(s.choice("on_rebalance", Ignore, Drain, Replace), Ignore),
		OnMaintenance: cmp.Or(s.choice("on_maintenance", Ignore, Drain, Reserve), Drain),
		Measured:      history.Measured{NetworkGbit: s.measured("network_gbit"), StorageIOPS: s.measured("storage_iops")},
	}
	if server {
		asServer(s, &p)
	}
	p.Slurm.Name, p.Slurm.Nodes, p.Slurm.Partition = p.Power.Name, p.Power.Nodes, p.Power.Partition
	buys(s, &p)
	checkWords(s, p.Slurm)
	onProvider(s, c, &p)
	then(s, c, &p, subs)
	nodeSizes(s, kinds(c, all), &p)
	for i := range p.Then {
		p.Then[i].Slurm = p.Slurm // the nodes are the same
		p.Then[i].PaidUnit = paidUnit(c, t, subs[i])
	}
	c.Checkpoint.read(s, directive.Pool)
	s.done()
	return p
}

// paidUnit is the unit in which a source's instances are paid for, where idle nodes are
// to use what is paid: it is long, and the site says nothing of when they go.
func paidUnit(c *Config, t times, s *section) time.Duration {
	named, _ := s.table["provider"].(string)
	provider, _ := c.Provider(named)
	if unit := price.Of(provider.Kind).Unit; !t.said && unit >= time.Hour {
		return unit
	}
	return 0
}

// hourly says whether all of a pool's sources have such a unit.
func hourly(c *Config, t times, all []*section) bool {
	return !slices.ContainsFunc(all, func(s *section) bool { return paidUnit(c, t, s) == 0 })
}

func partitionOf(s *section, server bool) string {
	if server {
		return s.name() // what the key says is refused
	}
	return s.required("partition", `"cloud"`)
}

// nodes expands the pool's hostlist.
func nodes(s *section) []string {
	text := s.required("nodes", `"cloud-[001-010]"`)
	if text == "" {
		return nil
	}
	all, err := hostlist.Expand(text)
	if err != nil {
		s.failAt("nodes", "%v: write it as Slurm does, as in \"cloud-[001-010]\"", err)
		return nil
	}
	seen := make(map[string]bool, len(all))
	for _, n := range all {
		switch {
		case !names().MatchString(n):
			s.failAt("nodes", "%q is no name of a node: %s", n, namesRule)
			return nil
		case strings.EqualFold(n, "DEFAULT") || strings.EqualFold(n, "ALL"):
			s.failAt("nodes", "%q has a meaning of its own in slurm.conf: choose another name", n)
			return nil
		case seen[n]:
			s.failAt("nodes", "names %s twice: name every node once", n)
			return nil
		}
		seen[n] = true
	}
	return all
}

func checkFleet(s *section, f *fleet.Config) {
	c := *f
	if len(c.Types) == 0 {
		if list, ok := s.value("instance_types").([]any); !s.has("instance_types") || ok && len(list) == 0 {
			s.failAt("instance_types", "names no type: add it, as in instance_types = [\"small\"]")
		}
		c.Types = []string{"any"}
	}
	if err := c.Validate(); err != nil {
		s.failAt("market", "%v", err)
	}
	f.SpotTimeout = s.duration("spot_timeout", 0)
	if f.SpotTimeout > 0 && c.Market != fleet.SpotThenOnDemand {
		s.failAt("spot_timeout", "is for market = %q: remove it", fleet.SpotThenOnDemand)
	}
}

// checkWords reports what would break the pool's lines in slurm.conf.
func checkWords(s *section, p conf.Pool) {
	if p.Partition != "" && (!names().MatchString(p.Partition) || strings.EqualFold(p.Partition, "DEFAULT")) {
		s.failAt("partition", "%q is no name of a partition: %s", p.Partition, namesRule)
	}
	if p.Hostname != "" && !names().MatchString(p.Hostname) {
		s.failAt("hostname", "%q is no name of a host: %s", p.Hostname, namesRule)
	}
	for _, f := range p.Features {
		if strings.ContainsAny(f, ", \t\r\n\"#=&|") {
			s.failAt("features", "%q is no feature: write one word for each", f)
		}
	}
	if err := conf.CheckOptions(p.Options); err != nil {
		s.failAt("node_options", "%v", err)
	}
}

// onProvider reads what depends on the kind of the provider that the instances
// are bought of; s is the pool's section, or that of a further source.
func onProvider(s *section, c *Config, p *Pool) {
	provider, known := c.Provider(p.Power.Provider)
	if !known && p.Power.Provider != "" {
		s.failAt("provider", "%q is not known: add a section [provider.%[1]s], or name one of %s", p.Power.Provider, providerNames(c))
	}
	switch provider.Kind {
	case "aws":
		s.refuse(notFor("vultr"), vultrKeys...)
		launched := launch(s, p)
		provider.AWS.Pools[p.Power.Name] = launched
		boot(s, c, provider.AWS, p)
	case "vultr":
		provider.Vultr.Pools[p.Power.Name] = vultrLaunch(s, p)
		vultrBoot(s, c, p)
	case "local":
		s.refuse(notFor("aws"), launchKeys...)
		s.refuse(notFor("aws", "vultr"), append(slices.Clone(bootKeys), "login", "file_systems")...)
		s.refuse(notFor("vultr"), vultrKeys...)
		return
	default: // what such a provider needs cannot be judged
		for _, key := range slices.Concat(launchKeys, bootKeys, vultrKeys, []string{"login", "file_systems"}) {
			s.value(key)
		}
		return
	}
	p.Folders = folders(s, p.Boot.Mounts)
	if p.Power.MaxBootFailures == 0 {
		p.Power.MaxBootFailures = defaultBootFailures
	}
}

// nodeSizes reads what slurm.conf says of the nodes, by the kinds of all providers of
// which their instances are bought.
func nodeSizes(s *section, kinds map[string]Provider, p *Pool) {
	here, isLocal := kinds["local"]
	_, unknown := kinds[""]
	switch {
	case isLocal:
		p.Slurm.OneHost = true
		nodeSize(s, p, s.count)
		localPorts(s, here.Local, p)
	case unknown:
		nodeSize(s, p, s.count)
	default:
		s.refuse(notFor("local"), "ports")
		p.Slurm.Ports = ""
		nodeSize(s, p, s.number)
	}
}

// defaultBootFailures stops a pool of a cloud whose instances do not become
// nodes: a wrong image costs money with each of them.
const defaultBootFailures = 5

// nodeSize reads what jobs see of a node, by number where a catalog may say it.
func nodeSize(s *section, p *Pool, read func(key, unit, example string) int) {
	p.Slurm.CPUs = read("cpus", "", "4")
	p.Slurm.RealMemory = read("real_memory", " of MiB", "15000")
}

func localPorts(s *section, l Local, p *Pool) {
	ports, err := parsePorts(p.Slurm.Ports)
	switch {
	case err != nil:
		s.failAt("ports", "%q: %v", p.Slurm.Ports, err)
		p.Slurm.Ports = ""
	case l.Network == ownNetwork:
		if p.Slurm.Ports != "" && len(ports) != 1 {
			s.failAt("ports", "holds %d ports: with a network of their own all nodes have one port", len(ports))
		}
	default:
		onThisHost(s, p, len(ports))
	}
}

// onThisHost: the nodes share this host's name and address, so each needs a port.
func onThisHost(s *section, p *Pool, ports int) {
	p.Slurm.Addr = "127.0.0.1"
	if p.Slurm.Hostname == "" {
		name, err := os.Hostname()
		if err != nil {
			s.failAt("hostname", "is missing and the host does not say its name (%v): add it", err)
		}
		p.Slurm.Hostname, _, _ = strings.Cut(name, ".")
	}
	if n := len(p.Slurm.Nodes); n > 0 && n != ports {
		s.failAt("ports", "names %d ports for %d nodes: nodes on one host need one each, as in ports = \"%s\"", ports, n, portExample(n))
	}
}

func portExample(n int) string {
	if n == 1 {
		return "17001"
	}
	return fmt.Sprintf("17001-%d", 17000+n)
}

func providerNames(c *Config) string {
	if len(c.Providers) == 0 {
		return "those in the file (there is none)"
	}
	var all []string
	for _, p := range c.Providers {
		all = append(all, p.Name)
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}

func isPort(text string) bool {
	n, err := strconv.Atoi(text)
	return err == nil && n >= 1 && n <= 65535
}

// parsePorts reads "17001", "17001-17006" and lists of both with commas.
func parsePorts(text string) ([]int, error) {
	if text == "" {
		return nil, nil
	}
	var all []int
	var seen [65536]bool
	for item := range strings.SplitSeq(text, ",") {
		first, last, isRange := strings.Cut(item, "-")
		if !isRange {
			last = first
		}
		if !isPort(first) || !isPort(last) {
			return nil, errors.New(`is no list of ports: write numbers from 1 to 65535, as in "17001-17006"`)
		}
		a, _ := strconv.Atoi(first)
		b, _ := strconv.Atoi(last)
		if a > b {
			return nil, fmt.Errorf("%s runs backwards: write the smaller port first", item)
		}
		for n := a; n <= b; n++ {
			if seen[n] {
				return nil, fmt.Errorf("names port %d twice", n)
			}
			seen[n] = true
			all = append(all, n)
		}
	}
	return all, nil
}

// hostPorts are the ports that the pool takes on this host.
func hostPorts(p Pool) []int {
	if p.Slurm.Addr == "" {
		return nil
	}
	all, _ := parsePorts(p.Slurm.Ports) // empty where it was found wrong
	return all
}
