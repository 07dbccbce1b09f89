package config

import (
	"maps"
	"slices"
	"strings"

	"github.com/burst-hpc/burst/cloud/bootstrap"
	"github.com/burst-hpc/burst/cloud/fleet"
	"github.com/burst-hpc/burst/slurm/power"
)

// ofNodes are keys of a pool that say what its nodes are, wherever their instances
// are bought: its further sources have none of them.
var ofNodes = []string{"nodes", "partition", "cpus", "real_memory", "ports", "hostname", "features", "node_options",
	"suspend_time", "resume_timeout", "suspend_timeout", "max_boot_failures", "on_rebalance", "on_maintenance",
	"network_gbit", "storage_iops", "checkpoint", "exports", "exports_to", "end_unused", "then"}

// Sources are the pool as it would be if it had but one source, in the order in
// which they are tried: its own first.
func (p Pool) Sources() []Pool {
	own := p
	own.Then, own.Power.Then = nil, nil
	return append([]Pool{own}, p.Then...)
}

// hourly says whether burstd has the pool's idle nodes use the hours that are paid for,
// whichever source they are of.
func (p Pool) hourly() bool {
	return !slices.ContainsFunc(p.Sources(), func(s Pool) bool { return s.PaidUnit == 0 })
}

// Source is the pool as it buys of a provider; false: it does not.
func (p Pool) Source(provider string) (Pool, bool) {
	all := p.Sources()
	i := slices.IndexFunc(all, func(s Pool) bool { return s.Power.Provider == provider })
	if i < 0 {
		return Pool{}, false
	}
	return all[i], true
}

// Providers are the names of the pool's sources, in their order.
func (p Pool) Providers() []string {
	all := []string{p.Power.Provider}
	for _, s := range p.Then {
		all = append(all, s.Power.Provider)
	}
	return all
}

// Sources are those of all pools.
func (c *Config) Sources() []Pool {
	var all []Pool
	for _, p := range c.Pools {
		all = append(all, p.Sources()...)
	}
	return all
}

// then reads the pool's further sources, of these sections, into it.
func then(s *section, c *Config, p *Pool, subs []*section) {
	for _, sub := range subs {
		sub.refuse("is about the pool's nodes, wherever their instances are bought: write it in ["+s.at.String()+"]", ofNodes...)
		q := *p
		q.Then, q.SSH, q.Boot, q.Power.Then, q.Folders = nil, nil, bootstrap.Config{}, nil, nil
		buys(sub, &q)
		if slices.Contains(p.Providers(), q.Power.Provider) && q.Power.Provider != "" {
			sub.failAt("provider", "%q is a source of the pool already: write all types and zones that it is to buy there into one", q.Power.Provider)
			continue
		}
		onProvider(sub, c, &q)
		sub.done()
		p.Then = append(p.Then, q)
		p.Power.Then = append(p.Power.Then, power.Source{Provider: q.Power.Provider, Fleet: q.Power.Fleet, Image: q.Power.Image,
			UserData: q.Power.UserData, Tags: q.Power.Tags})
		p.Slurm.Configless = p.Slurm.Configless || q.Slurm.Configless
		p.Slurm.EFA = p.Slurm.EFA || q.Slurm.EFA
		p.Power.MaxBootFailures = max(p.Power.MaxBootFailures, q.Power.MaxBootFailures)
	}
	if len(p.Then) == 0 {
		return
	}
	for _, q := range p.Sources() {
		if len(q.Power.Needs) > 0 {
			s.failAt("mounts", "the nodes of several providers share no network in which %s could serve them: mount from a server of the site, or make a pool for each provider",
				strings.Join(q.Power.Needs, ","))
			break
		}
	}
	p.Slurm.Features, p.Slurm.Sources = slices.Clone(p.Slurm.Features), p.Providers()
	for _, name := range p.Slurm.Sources { // by them a job is kept to one
		if !slices.Contains(p.Slurm.Features, name) {
			p.Slurm.Features = append(p.Slurm.Features, name)
		}
	}
}

// buys reads how instances are bought, whatever the kind of their provider.
func buys(s *section, p *Pool) {
	p.Power.Provider = s.required("provider", `"here"`)
	p.Power.Fleet = fleet.Config{
		Types:  s.texts("instance_types"),
		Zones:  s.texts("zones"),
		Market: s.text("market", fleet.OnDemandOnly),
		Order:  s.choice("order", "written", fleet.ByPrice, fleet.ByPricePerCore),
	}
	p.Power.Image, p.Power.UserData = s.text("image", ""), ""
	p.Power.Tags = maps.Clone(s.strings("tags"))
	if p.Power.Fleet.Order == "written" {
		p.Power.Fleet.Order = ""
	}
	checkFleet(s, &p.Power.Fleet)
}

// kinds are those of the providers that the sections name, known ones.
func kinds(c *Config, all []*section) map[string]Provider {
	by := map[string]Provider{}
	for _, s := range all {
		name, _ := s.table["provider"].(string)
		p, _ := c.Provider(name)
		if _, have := by[p.Kind]; !have {
			by[p.Kind] = p
		}
	}
	return by
}
