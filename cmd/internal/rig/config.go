package rig

import (
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strings"
	"time"

	"github.com/burst-hpc/burst/cloud/local"
	"github.com/burst-hpc/burst/cloud/price"
)

// writeConfig writes burst.toml, and the prices that it names.
func (s *Site) writeConfig(socket string) error {
	u, err := user.Current()
	if err != nil {
		return fmt.Errorf("naming the user who runs Slurm: %w", err)
	}
	if s.o.DemoPrices {
		s.o.Prices = filepath.Join(s.Dir, pricesFile)
		if err := os.WriteFile(s.o.Prices, price.LocalCSV(), 0o644); err != nil {
			return err
		}
	}
	return os.WriteFile(s.Config, []byte(s.configText(socket, u.Username)), 0o644)
}

func (s *Site) configText(socket, user string) string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("# A site on this host: written at each start, edits are lost.")
	line("cluster = \"sandbox\"")
	line("")
	line("[slurm]")
	line("conf = %q", s.Cluster.Conf)
	line("user = %q", user)
	if !s.o.PaidHours {
		line("suspend_time = \"%s\"", s.o.SuspendTime)
	}
	line("suspend_timeout = \"%s\"", s.o.SuspendTimeout)
	line("resume_timeout = \"%s\"", s.o.ResumeTimeout)
	line("")
	line("[daemon]")
	line("socket = %q", socket)
	line("spool = %q", filepath.Join(s.Dir, spoolDir))
	line("state = %q", filepath.Join(s.Dir, stateDir))
	block := func(text string) {
		if text != "" {
			line("%s", strings.TrimRight(text, "\n"))
		}
	}
	block(s.o.DaemonToml)
	line("")
	line("[provider.here]")
	if s.o.ProviderToml == "" {
		line("kind = \"local\"")
		line("dir = %q", s.Control.Dir)
		if s.o.Prices != "" {
			line("price_table = %q", s.o.Prices)
		}
	}
	block(s.o.ProviderToml)
	if s.o.NetNS && s.o.ProviderToml == "" {
		line("network = %q", local.NetNS)
		line("subnet = %q", s.subnet)
	}
	for _, p := range s.pools() {
		s.writePool(p, line)
		block(s.o.PoolToml)
	}
	line("")
	block(s.o.ExtraToml)
	return b.String()
}

// pool is one pool's share of the cloud nodes.
type pool struct {
	name, nodes string // and of its partition
	first, last int    // numbers of its nodes
}

// pools deals the cloud nodes out, in order, as evenly as they go.
func (s *Site) pools() []pool {
	if s.o.Pools == 1 {
		return []pool{{"cloud", fmt.Sprintf("c[1-%d]", s.o.Nodes), 1, s.o.Nodes}}
	}
	all := make([]pool, s.o.Pools)
	for i := range all {
		first, last := i*s.o.Nodes/s.o.Pools+1, (i+1)*s.o.Nodes/s.o.Pools
		all[i] = pool{fmt.Sprint("cloud", i+1), fmt.Sprintf("c[%d-%d]", first, last), first, last}
	}
	return all
}

// partitions are the lines of slurm.conf for pools that share the cloud nodes.
func (s *Site) partitions() string {
	if s.o.Pools == 1 {
		return ""
	}
	seconds := func(d time.Duration) int { return int((d + time.Second - 1) / time.Second) } // as the sandbox rounds
	var b strings.Builder
	for _, p := range s.pools() {
		fmt.Fprintf(&b, "PartitionName=%s Nodes=%s Default=NO State=UP SuspendTime=%d SuspendTimeout=%d ResumeTimeout=%d\n",
			p.name, p.nodes, seconds(s.o.SuspendTime), seconds(s.o.SuspendTimeout), seconds(s.o.ResumeTimeout))
	}
	return b.String()
}

func (s *Site) writePool(p pool, line func(string, ...any)) {
	line("")
	line("[pool.%s]", p.name)
	line("provider = \"here\"")
	line("nodes = %q", p.nodes)
	line("partition = %q", p.name)
	line("instance_types = [%s]", quoted(s.o.Types))
	if s.o.Zones[0] != "" {
		line("zones = [%s]", quoted(s.o.Zones))
	}
	line("market = %q", s.o.Market)
	line("cpus = %d", s.o.CPUs)
	line("real_memory = 1000")
	if first, _ := s.Cluster.CloudPorts(); first > 0 && s.o.ProviderToml == "" {
		line("ports = \"%d-%d\"", first+p.first-1, first+p.last-1)
	}
}

func quoted(words []string) string {
	all := make([]string, len(words))
	for i, w := range words {
		all[i] = fmt.Sprintf("%q", w)
	}
	return strings.Join(all, ", ")
}
