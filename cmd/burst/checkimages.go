package main

import (
	"fmt"

	"github.com/burst-hpc/burst/cmd/internal/config"
	"github.com/burst-hpc/burst/cmd/internal/firstfile"
	"github.com/burst-hpc/burst/slurm/conf"
)

// checkImages finds pools that install a slurmd of a stock image's own packages, which slurmctld would not take: each of
// their nodes would boot, cost, and end with that word.
func checkImages(cfg *config.Config, ctld conf.Release) []conf.Finding {
	if ctld == (conf.Release{}) {
		return nil
	}
	var all []conf.Finding
	for _, p := range cfg.Sources() {
		s, known := firstfile.StockOf(p.Power.Image)
		if !known || !p.Boot.Packages || p.Boot.Slurmd != "" || s.Slurmd.Fits(ctld) {
			continue
		}
		provider, _ := cfg.Provider(p.Power.Provider)
		instead := "no stock image's does; name one of yours with Slurm %s, docs/aws.md says how."
		if image := firstfile.StockInstead(p.Power.Image, provider.Kind, ctld); image != "" {
			instead = fmt.Sprintf("write image = %q, or an image of yours with Slurm %%s.", image)
		}
		why := "older than"
		if !ctld.Since(s.Slurmd) {
			why = "newer than"
		}
		all = append(all, conf.Finding{Level: conf.Wrong, Key: "image", Have: p.Power.Image, Why: fmt.Sprintf("Pool %s: the slurmd of %s's own packages is %s, %s slurmctld %s takes. Its nodes would boot and not register: "+
			instead, p.Power.Name, s.Name, s.Slurmd, why, ctld, ctld)})
	}
	return all
}
