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
	line("")
	line("[provider.here]")
	line("kind = \"local\"")
	line("dir = %q", s.Control.Dir)
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
	if first, last := s.Cluster.CloudPorts(); first > 0 {
		line("ports = \"%d-%d\"", first, last)
	}
	if s.o.ExtraToml != "" {
		line("")
		line("%s", strings.TrimRight(s.o.ExtraToml, "\n"))
	}
	return b.String()
}

func quoted(words []string) string {
	all := make([]string, len(words))
	for i, w := range words {
		all[i] = fmt.Sprintf("%q", w)
	}
	return strings.Join(all, ", ")
}
