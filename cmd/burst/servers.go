package main

import (
	"context"
	"fmt"

	"github.com/burst-hpc/burst/cmd/internal/config"
	"github.com/burst-hpc/burst/slurm/conf"
)

// checkServers says what the servers of files cost that nobody ends but an admin, and warns of those whose
// nodes would be given up while they boot.
func checkServers(ctx context.Context, cfg *config.Config, offline bool) []conf.Finding {
	ctx, cancel := context.WithTimeout(ctx, cloudTimeout)
	defer cancel()
	var open *opened
	if !offline {
		open = openedOf(cfg)
	}
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
	}
	for _, p := range cfg.Pools {
		for _, n := range p.Power.Needs {
			if s := of[n]; s.Slurm.ResumeTimeout > p.Slurm.ResumeTimeout {
				all = append(all, conf.Finding{Level: conf.Advice, Key: "resume_timeout", Have: p.Slurm.ResumeTimeout.String(),
					Why: fmt.Sprintf("Nodes of pool %s wait for server %s first, whose pool has %s: write at least as much for both.", p.Power.Name, n, s.Slurm.ResumeTimeout)})
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
