package main

import (
	"fmt"

	"github.com/burst-hpc/burst/cmd/internal/config"
	"github.com/burst-hpc/burst/slurm/conf"
)

// checkBoots warns of pools whose instances may boot for longer than their nodes have.
// Each that is late would be ended, and has cost what an hour of it costs.
func checkBoots(cfg *config.Config) []conf.Finding {
	var all []conf.Finding
	for _, p := range cfg.Sources() {
		if why := cfg.SlowBoot(p); why != "" && p.Slurm.ResumeTimeout < config.SlowTimeout {
			all = append(all, conf.Finding{Level: conf.Advice, Key: "resume_timeout", Have: p.Slurm.ResumeTimeout.String(),
				Why: fmt.Sprintf("Pool %s, at %s: %s. An instance that is late is ended, its hour paid for, and after %d in a row the pool is stopped: "+
					"write %q, the default, or more, unless your nodes have been faster.", p.Power.Name, p.Power.Provider, why, p.Power.MaxBootFailures, inToml(config.SlowTimeout))})
		}
	}
	return all
}
