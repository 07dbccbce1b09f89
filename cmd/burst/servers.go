package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/burst-hpc/burst/cmd/internal/config"
	"github.com/burst-hpc/burst/slurm/conf"
)

// checkServers says what the servers of files cost that nobody ends but an admin, and warns of those whose
// nodes would be given up while they boot. Without open no cloud is asked.
func checkServers(ctx context.Context, cfg *config.Config, open *opened) []conf.Finding {
	ctx, cancel := context.WithTimeout(ctx, cloudTimeout)
	defer cancel()
	var all []conf.Finding
	of := map[string]config.Pool{} // by node
	for _, p := range cfg.Pools {
		if !p.Slurm.Server {
			continue
		}
		for _, n := range p.Power.Nodes {
			of[n] = p
		}
		f := conf.Finding{Level: conf.OK, Key: "exports", Have: p.Boot.Export.Folder}
		cost := "what it costs is not known here"
		if usd := hourly(ctx, cfg, p, open); usd > 0 {
			cost = fmt.Sprintf("%.2f USD a day", 24*usd)
		}
		if p.Power.EndUnused > 0 {
			f.Why = fmt.Sprintf("Pool %s: ended, and its files with it, when no node has mounted it for %s; until then %s.", p.Power.Name, p.Power.EndUnused, cost)
		} else {
			f.Level, f.Why = conf.Advice, fmt.Sprintf("Pool %s: once needed its server runs, also while nobody uses it, until an admin ends it by "+
				"\"scontrol update nodename=%s state=power_down\": %s. end_unused ends it, and its files with it, by itself.", p.Power.Name, p.Power.Nodes[0], cost)
		}
		all = append(all, f)
		all = append(all, exportsTo(cfg, p)...)
	}
	for _, p := range cfg.Pools {
		for _, n := range p.Power.Needs {
			// A node that waits is given back when four fifths of its time are over, and its own boot comes after.
			if s := of[n]; 2*s.Slurm.ResumeTimeout > p.Slurm.ResumeTimeout {
				all = append(all, conf.Finding{Level: conf.Advice, Key: "resume_timeout", Have: p.Slurm.ResumeTimeout.String(),
					Why: fmt.Sprintf("Nodes of pool %s wait for server %s first, whose pool has %s, and boot then: write %q for pool %[1]s, or less for the server if it boots faster. "+
						"With less a job's first try may be given back while the server boots; the next one finds it up.", p.Power.Name, n, s.Slurm.ResumeTimeout, inToml(2*s.Slurm.ResumeTimeout))})
			}
		}
	}
	return all
}

// hourly is what the dearest of a pool's offerings costs in USD, by the site's table alone if open is nil; 0: not known.
func hourly(ctx context.Context, cfg *config.Config, p config.Pool, open *opened) (usd float64) {
	var rows []priced
	if open == nil {
		for _, o := range p.Power.Fleet.Offerings() {
			rows = append(rows, priced{Offering: o})
		}
		provider, _ := cfg.Provider(p.Power.Provider)
		if _, err := fromTable(provider, rows); err != nil {
			return 0
		}
	} else {
		rows, _ = pricesOf(ctx, cfg, p, open) // those that are known
	}
	for _, r := range rows {
		usd = max(usd, r.USDPerHour)
	}
	return usd
}

// exportsTo finds a server on AWS that is reached from other subnets than its own, and serves its own alone.
func exportsTo(cfg *config.Config, server config.Pool) []conf.Finding {
	provider, _ := cfg.Provider(server.Power.Provider)
	if provider.Kind != "aws" || len(server.Boot.Export.To) > 0 {
		return nil
	}
	subnets := slices.Clone(provider.AWS.Pools[server.Power.Name].Subnets)
	for _, p := range cfg.Pools {
		if slices.ContainsFunc(p.Power.Needs, func(n string) bool { return slices.Contains(server.Power.Nodes, n) }) {
			subnets = append(subnets, provider.AWS.Pools[p.Power.Name].Subnets...)
		}
	}
	slices.Sort(subnets)
	if subnets = slices.Compact(subnets); len(subnets) < 2 {
		return nil
	}
	return []conf.Finding{{Level: conf.Missing, Key: "exports_to", Want: `["10.1.0.0/16"]`, Why: fmt.Sprintf("Pool %s serves the subnet of its own address alone, and nodes are launched in %d: "+
		"those elsewhere could not mount. Write, in place of this example, what \"aws ec2 describe-subnets --subnet-ids %s --query Subnets[].CidrBlock\" prints, or the VPC's network.",
		server.Power.Name, len(subnets), strings.Join(subnets, " "))}}
}

// inToml writes a duration as burst.toml has them: "30m", not "30m0s".
func inToml(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}
