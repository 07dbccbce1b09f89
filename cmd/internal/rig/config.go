package rig

import (
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strings"

	"github.com/burst-hpc/burst/cloud/local"
)

// writeConfig writes burst.toml.
func (s *Site) writeConfig(socket string) error {
	u, err := user.Current()
	if err != nil {
		return fmt.Errorf("naming the user who runs Slurm: %w", err)
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
	line("suspend_time = \"%s\"", s.o.SuspendTime)
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
	}
	block(s.o.ProviderToml)
	if s.o.NetNS {
		line("network = %q", local.NetNS)
		line("subnet = %q", s.subnet)
	}
	line("")
	line("[pool.cloud]")
	line("provider = \"here\"")
	line("nodes = %q", fmt.Sprintf("c[1-%d]", s.o.Nodes))
	line("partition = \"cloud\"")
	line("instance_types = [%s]", quoted(s.o.Types))
	line("zones = [%s]", quoted(s.o.Zones))
	line("market = %q", s.o.Market)
	line("cpus = %d", s.o.CPUs)
	line("real_memory = 1000")
	if first, last := s.Cluster.CloudPorts(); first > 0 && s.o.ProviderToml == "" {
		line("ports = \"%d-%d\"", first, last)
	}
	block(s.o.PoolToml)
	line("")
	block(s.o.ExtraToml)
	return b.String()
}

func quoted(words []string) string {
	all := make([]string, len(words))
	for i, w := range words {
		all[i] = fmt.Sprintf("%q", w)
	}
	return strings.Join(all, ", ")
}
