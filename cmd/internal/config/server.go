package config

import (
	"cmp"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/burst-hpc/burst/cloud/bootstrap"
	"github.com/burst-hpc/burst/cloud/fleet"
	"github.com/burst-hpc/burst/slurm/hostlist"
)

// server is what other pools must know of one that serves a folder: they are read before it, or after.
type server struct{ provider, node, folder string }

// servers are the pools of a file with exports, by name. What is wrong with them is said where they are read.
func servers(tree map[string]any) map[string]server {
	all := map[string]server{}
	pools, _ := tree["pool"].(map[string]any)
	for name, of := range pools {
		t, _ := of.(map[string]any)
		folder, _ := t["exports"].(string)
		if folder == "" {
			continue
		}
		s := server{folder: folder}
		s.provider, _ = t["provider"].(string)
		list, _ := t["nodes"].(string)
		if nodes, err := hostlist.Expand(list); err == nil && len(nodes) == 1 {
			s.node = nodes[0]
		}
		all[name] = s
	}
	return all
}

// longestUnused is the most of end_unused.
const longestUnused = 90 * 24 * time.Hour

// notOfServers are keys that make no sense for a pool that serves a folder.
var notOfServers = map[string]string{
	"partition":      "is for pools whose nodes run jobs: remove it; a pool with exports has a partition of its name, which takes none",
	"file_systems":   "is for pools whose nodes run jobs: remove it",
	"suspend_time":   "a server of files is not powered down for being idle: remove it, or see end_unused",
	"on_rebalance":   "a server of files is not replaced while nodes mount from it: remove it",
	"on_maintenance": "a server of files is not drained while nodes mount from it: remove it",
	"spot_timeout":   "a server of files is bought on demand: remove it",
	"then":           "what a server of files serves is at one provider: remove it",
	"max_price":      "a server of files is bought on demand: remove it",
}

// serves reads what a pool with exports is, before the rest of the pool; false: it has none.
func serves(s *section) bool {
	folder := s.text("exports", "")
	if folder == "" {
		s.refuse("is for pools with exports: remove it", "exports_to", "end_unused")
		return false
	}
	for key, why := range notOfServers {
		s.refuse(why, key)
	}
	if n := nodesIn(s.table["nodes"]); n > 1 {
		s.failAt("nodes", "names %d nodes: a pool with exports has one, which serves the folder", n)
	}
	if m, _ := s.table["market"].(string); m != "" && m != fleet.OnDemandOnly {
		s.failAt("market", "is %q: what it serves would go with the spot instance; write %q, or remove it", m, fleet.OnDemandOnly)
	}
	return true
}

func nodesIn(list any) int {
	text, _ := list.(string)
	all, err := hostlist.Expand(text)
	if err != nil {
		return 0
	}
	return len(all)
}

// export reads the keys of the folder that the pool's node serves.
func export(s *section) bootstrap.Export {
	e := bootstrap.Export{Folder: s.text("exports", ""), To: s.texts("exports_to")}
	for _, to := range e.To {
		if err := bootstrap.CheckNetwork(to); err != nil {
			s.failAt("exports_to", "%v", err)
			e.To = nil
			break
		}
	}
	return e
}

// asServer makes a pool with exports what it is to the engine and to Slurm.
func asServer(s *section, p *Pool) {
	p.Power.Partition, p.Slurm.Partition = p.Power.Name, p.Power.Name
	p.Slurm.Server, p.Power.Serves = true, true
	p.OnRebalance, p.OnMaintenance = Ignore, Ignore
	p.Power.EndUnused = s.span("end_unused", longestUnused)
}

// ofPool is a mount's source that is a pool of Burst's.
var ofPool = regexp.MustCompile(`^pool:([^/:]+)$`)

// fromServer makes a mount whose source is a pool one of the server's node, which the pool then needs.
func fromServer(s *section, c *Config, p *Pool, m *bootstrap.Mount) {
	match := ofPool.FindStringSubmatch(m.Source)
	if match == nil {
		if strings.HasPrefix(m.Source, "server:") || strings.HasPrefix(m.Source, "pool:") && !strings.HasPrefix(m.Source, "pool:/") {
			s.failAt("source", "%q: write a server's host:/path, or pool:NAME of a pool with exports, whose whole folder is mounted", m.Source)
		}
		return
	}
	name := match[1]
	from, known := c.servers[name]
	switch {
	case m.Kind != "nfs":
		s.failAt("kind", "is %q: what a pool exports is mounted with kind = \"nfs\"", m.Kind)
	case !known:
		s.failAt("source", "no pool %s has exports: add exports = \"/shared\" to [pool.%[1]s], or name one that has", name)
	case p.Slurm.Server:
		s.failAt("source", "a server of files cannot wait for another: mount it on the pools that run jobs")
	case from.provider != p.Power.Provider:
		s.failAt("source", "pool %s is of provider %s, and this one of %s: their nodes share no network; make a server for each", name, cmp.Or(from.provider, "none"), p.Power.Provider)
	}
	m.Source = "server:" + cmp.Or(from.node, name) + ":" + cmp.Or(from.folder, "/shared")
	if from.node != "" && !slices.Contains(p.Power.Needs, from.node) {
		p.Power.Needs = append(p.Power.Needs, from.node)
	}
}

// serverPools reports what only the pools together show.
func (f *file) serverPools(subs []*section, c *Config) {
	of := map[string]Pool{} // by node
	for i, p := range c.Pools {
		if !p.Slurm.Server {
			continue
		}
		for _, n := range p.Power.Nodes {
			of[n] = p
		}
		if provider, _ := c.Provider(p.Power.Provider); provider.Kind == "vultr" && vpcOf(c, p) == "" {
			subs[i].failAt("vpc", "is missing: a folder is served to a private network alone; add the vpc of the nodes that mount it")
		}
		for j, other := range c.Pools {
			if i != j && other.Slurm.Partition == p.Slurm.Partition {
				subs[j].failAt("partition", "%q is the name of a pool with exports, whose partition takes no jobs: choose another", p.Slurm.Partition)
			}
		}
	}
	for i, p := range c.Pools {
		for _, need := range p.Power.Needs {
			s := of[need]
			if a, b := vpcOf(c, p), vpcOf(c, s); a != b {
				subs[i].failAt("mounts", "pool %s is in another vpc: their nodes share no network", s.Power.Name)
			}
		}
	}
}

// vpcOf is the VPC of a pool on Vultr.
func vpcOf(c *Config, p Pool) string {
	provider, _ := c.Provider(p.Power.Provider)
	return provider.Vultr.Pools[p.Power.Name].VPC
}
