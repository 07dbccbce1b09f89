package daemon

import (
	"github.com/burst-hpc/burst/cmd/internal/config"
	"github.com/burst-hpc/burst/ft"
)

// poolRules looks up what a node's pool does about notices.
func poolRules(cfg *config.Config) func(node string) (ft.Pool, bool) {
	byNode := map[string]*ft.Pool{}
	for _, p := range cfg.Pools {
		rules := &ft.Pool{Name: p.Power.Name, Nodes: p.Power.Nodes, OnRebalance: p.OnRebalance, OnMaintenance: p.OnMaintenance,
			Site: cfg.Defaults(p.Slurm.Partition, p.Power.Name).Layers}
		for _, n := range p.Power.Nodes {
			byNode[n] = rules
		}
	}
	return func(node string) (ft.Pool, bool) {
		if p := byNode[node]; p != nil {
			return *p, true
		}
		return ft.Pool{}, false
	}
}
