package config

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/burst-hpc/burst/cloud/vultr"
)

// SlowTimeout is the least default of resume_timeout for pools whose instances boot
// slowly: ours for others is too short for them.
const SlowTimeout = 45 * time.Minute

// SlowBoot says why the pool's own source is slow to make a node; "": it is not.
func (c *Config) SlowBoot(p Pool) string {
	return c.slowBoot(p.Power.Provider, p.Power.Image, p.Power.Fleet.Types)
}

func (c *Config) slowBoot(provider, image string, types []string) string {
	switch p, _ := c.Provider(provider); {
	case p.Kind != "vultr":
		return ""
	case slices.ContainsFunc(types, func(plan string) bool { return strings.HasPrefix(plan, "vbm-") }):
		return "bare metal takes Vultr long to install"
	case vultr.FromSnapshot(image):
		return "an instance of a snapshot takes Vultr 10 to 15 minutes longer than one of an operating system"
	}
	return ""
}

// slowPartitions are those in which a pool has a slow source. Their time is the
// default of all their pools: Slurm has one for a partition.
func slowPartitions(c *Config, subs []*section) map[string]bool {
	slow := map[string]bool{}
	for _, s := range subs {
		tables := []any{s.table}
		switch then := s.table["then"].(type) {
		case []any:
			tables = append(tables, then...)
		case []map[string]any:
			for _, t := range then {
				tables = append(tables, t)
			}
		}
		for _, t := range tables {
			source, _ := t.(map[string]any)
			provider, _ := source["provider"].(string)
			image, _ := source["image"].(string)
			list, _ := source["instance_types"].([]any)
			var plans []string
			for _, one := range list {
				plan, _ := one.(string)
				plans = append(plans, plan)
			}
			if c.slowBoot(provider, image, plans) != "" {
				slow[inPartition(s)] = true
			}
		}
	}
	return slow
}

// inPartition is the partition of a pool that is yet to be read. That of a server
// has its own name.
func inPartition(s *section) string {
	partition, _ := s.table["partition"].(string)
	return cmp.Or(partition, s.name())
}
