package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/cloud/aws"
	"github.com/burst-hpc/burst/cmd/internal/api"
	"github.com/burst-hpc/burst/cmd/internal/config"
	"github.com/burst-hpc/burst/slurm/conf"
)

// asked is what the clouds say.
type asked struct {
	pools   []conf.Finding // pools that they did not describe
	servers []conf.Finding // of pools that serve files
	aws     []account
	vultr   []account
}

// askClouds adds to in what clouds know of the pools' types, and checks their accounts, of all clouds at
// once: one that does not answer takes no time from the others. Offline none is asked.
func askClouds(ctx context.Context, cfg *config.Config, in *conf.Input, offline bool) asked {
	if offline {
		return asked{servers: checkServers(ctx, cfg, nil)}
	}
	ctx, cancel := context.WithTimeout(ctx, cloudTimeout)
	defer cancel()
	var a asked
	var wg sync.WaitGroup
	open := openedOf(cfg)
	accounts := make([]struct{ aws, vultr []account }, len(cfg.Providers))
	for i, p := range cfg.Providers {
		wg.Go(func() {
			accounts[i].aws, accounts[i].vultr = checkAWS(ctx, cfg, open, p.Name), checkVultr(ctx, cfg, open, p.Name)
		})
	}
	wg.Go(func() { a.servers = checkServers(ctx, cfg, open) })
	var words map[string]string
	wg.Go(func() { words = burstdsWords(ctx, cfg) })
	failed := shapes(ctx, cfg, open, in)
	wg.Wait()
	for _, of := range accounts {
		a.aws, a.vultr = append(a.aws, of.aws...), append(a.vultr, of.vultr...)
	}
	for _, account := range a.aws {
		for i, f := range account.Findings {
			// This host may have no way there, or this user no credentials, while burstd has: "burst aws
			// check" is the one to say so.
			if word, runs := words[account.Provider]; runs && word != "ok" {
				break // it is no better off
			}
			if f.Level == aws.LevelWrong && (f.Subject == "credentials" || strings.HasPrefix(f.Subject, "endpoint ")) {
				account.Findings[i].Level = aws.LevelUnknown
			}
		}
	}
	for _, of := range [][]account{a.aws, a.vultr} {
		for i, account := range of {
			switch word, runs := words[account.Provider]; {
			case runs && word == "ok":
				of[i].Findings = append(account.Findings, aws.Finding{Level: aws.LevelOK, Subject: "burstd", Text: "it runs, and has no error of this provider"})
			case runs:
				of[i].Findings = append(account.Findings, aws.Finding{Level: aws.LevelWarning, Subject: "burstd", Text: "its last question failed: " + word,
					Hint: "\"burst status\" says whether it still does"})
			}
		}
	}
	for _, p := range cfg.Pools {
		err := failed[p.Power.Name]
		if err == nil {
			continue
		}
		f := conf.Finding{Level: conf.Unknown, Key: "NodeName", Have: p.Slurm.Name, Why: fmt.Sprintf("CPUs and memory are not compared: %v.", err)}
		var refused *cloud.Error
		if !errors.As(err, &refused) || cloud.KindOf(err) == cloud.Invalid { // our own word, or the cloud's: not a lack of an answer
			f.Level = conf.Wrong
		}
		a.pools = append(a.pools, f)
	}
	return a
}

// burstdsWords is what burstd, with its own credentials and its own way to them, has of the providers, by name: "ok", or
// its last error; none where it does not run.
func burstdsWords(ctx context.Context, cfg *config.Config) map[string]string {
	ctx, cancel := context.WithTimeout(ctx, burstdTimeout)
	defer cancel()
	client := api.NewClient(cfg.Endpoint.Socket)
	defer client.Close()
	s, err := client.Status(ctx)
	if err != nil {
		return nil // that it does not answer is a finding of this host
	}
	return s.Providers
}
