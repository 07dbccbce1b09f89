package main

import (
	"context"
	"fmt"

	"github.com/burst-hpc/burst/cloud/aws"
	"github.com/burst-hpc/burst/cloud/vultr"
	"github.com/burst-hpc/burst/cmd/internal/config"
)

// checkVultr asks Vultr about the providers of kind "vultr" and their pools, or the one named.
func checkVultr(ctx context.Context, cfg *config.Config, open *opened, only string) []account {
	ctx, cancel := context.WithTimeout(ctx, cloudTimeout)
	defer cancel()
	var all []account
	for _, c := range cfg.Providers {
		if c.Kind != "vultr" || only != "" && c.Name != only {
			continue
		}
		a := account{Provider: c.Name, cloud: "Vultr"}
		provider, err := open.get(ctx, c.Name)
		asked, ok := provider.(*vultr.Provider)
		if !ok {
			a.Findings = append(a.Findings, aws.Finding{Level: aws.LevelWrong, Subject: "provider " + c.Name, Text: fmt.Sprint(err)})
			all = append(all, a)
			continue
		}
		var pools []vultr.CheckPool
		for _, p := range cfg.Sources() {
			if p.Power.Provider == c.Name {
				pools = append(pools, vultr.CheckPool{Name: p.Power.Name, Plans: p.Power.Fleet.Types, Image: p.Power.Image})
			}
		}
		for _, f := range asked.Check(ctx, pools) {
			one := aws.Finding{Level: aws.Level(f.Level), Subject: f.Subject, Text: f.Text}
			if f.Level != vultr.LevelOK && f.Subject == "account" {
				one.Hint = open.hint()
			}
			a.Findings = append(a.Findings, one)
		}
		a.Findings = append(a.Findings, checkUnfinished(ctx, cfg, c.Name, provider)...)
		all = append(all, a)
	}
	return all
}
