package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/burst-hpc/burst/cloud/aws"
	"github.com/burst-hpc/burst/cmd/internal/cli"
	"github.com/burst-hpc/burst/cmd/internal/config"
	"github.com/burst-hpc/burst/cmd/internal/endpoint"
)

func awsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "aws",
		Short: "Look at what AWS says of providers of kind \"aws\"",
		Args:  cobra.NoArgs,
	}
	cmd.AddCommand(awsCheckCommand())
	return cmd
}

type awsCheckOptions struct {
	config   string
	provider string
	json     bool
}

func awsCheckCommand() *cobra.Command {
	var o awsCheckOptions
	cmd := &cobra.Command{
		Use:   "check [--provider NAME]",
		Short: "Check account, permissions, network and pools on AWS",
		Long: "Check credentials, endpoints, permissions, images, subnets, security groups, types and quotas of the providers\n" +
			"of kind \"aws\" and their pools. Nothing is changed: permissions are tried with EC2's DryRun, tagged with the\n" +
			"cluster's id, which burstd keeps in its state folder: run this as root, who may read that.\n\n" +
			"Exit codes: 0 nothing is wrong, 1 something is, 2 wrong usage or configuration.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.config = configFlag(cmd)
			return runAWSCheck(cmd.Context(), cmd.OutOrStdout(), o)
		},
	}
	cmd.Flags().StringVar(&o.provider, "provider", "", "only this `provider`")
	cmd.Flags().BoolVar(&o.json, "json", false, "print the findings as JSON")
	return cmd
}

// account is what was found of one provider.
type account struct {
	Provider string        `json:"provider"`
	Findings []aws.Finding `json:"findings"`
	cloud    string        // "AWS", "Vultr"
}

func runAWSCheck(ctx context.Context, w io.Writer, o awsCheckOptions) error {
	cfg, err := config.Load(endpoint.Path(o.config))
	if err != nil {
		return err
	}
	if p, ok := cfg.Provider(o.provider); o.provider != "" && (!ok || p.Kind != "aws") {
		return cli.UsageError(fmt.Errorf("%s has no provider %s of kind \"aws\"", cfg.Path, o.provider), "see [provider.NAME] there")
	}
	accounts := checkAWS(ctx, cfg, openedOf(cfg), o.provider)
	if len(accounts) == 0 {
		return cli.UsageError(fmt.Errorf("%s has no provider of kind \"aws\"", cfg.Path), "docs/aws.md shows one")
	}
	if o.json {
		err = writeJSON(w, accounts)
	} else {
		for _, a := range accounts {
			if _, err = io.WriteString(w, a.text()); err != nil {
				err = fmt.Errorf("writing the findings: %w", err)
				break
			}
		}
	}
	if err != nil {
		return err
	}
	if n := wrongs(accounts); n > 0 {
		return cli.WithHint(fmt.Errorf("%d findings must be mended before nodes can be launched", n), "docs/aws.md says what Burst needs of an account")
	}
	return nil
}

// checkAWS asks AWS about the providers of kind "aws", or the one named.
func checkAWS(ctx context.Context, cfg *config.Config, open *opened, only string) []account {
	ctx, cancel := context.WithTimeout(ctx, cloudTimeout)
	defer cancel()
	all := []account{}
	cluster, known := clusterID(cfg.Endpoint.ClusterFile())
	for _, p := range cfg.Providers {
		if p.Kind != "aws" || only != "" && p.Name != only {
			continue
		}
		a := account{Provider: p.Name, Findings: []aws.Finding{known}, cloud: "AWS"}
		provider, err := open.get(ctx, p.Name)
		if asked, ok := provider.(*aws.Provider); ok {
			found := asked.Check(ctx, cluster, poolsOn(cfg, p.Name))
			for i, f := range found {
				if f.Level == aws.LevelWrong && f.Subject == "credentials" {
					found[i].Hint = f.Hint + "; " + open.hint()
				}
			}
			a.Findings = append(a.Findings, found...)
			a.Findings = append(a.Findings, checkUnfinished(ctx, cfg, p.Name, provider)...)
		} else {
			a.Findings = append(a.Findings, aws.Finding{Level: aws.LevelWrong, Subject: "credentials", Text: fmt.Sprint(err), Hint: open.hint()})
		}
		all = append(all, a)
	}
	return all
}

// clusterID is the id that marks our instances, as burstd keeps it; empty, with
// the reason, where it is not to be had.
func clusterID(path string) (string, aws.Finding) {
	f := aws.Finding{Level: aws.LevelOK, Subject: "cluster id"}
	text, err := os.ReadFile(path)
	id := strings.TrimSpace(string(text))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		f.Level, f.Text = aws.LevelUnknown, path+" is not there: the cluster has no id yet"
		f.Hint = "as root, burstd --cluster-id makes it; then write it into the controller's policy (contrib/aws)"
	case err != nil:
		f.Level, f.Text = aws.LevelUnknown, err.Error()
		f.Hint = "run this as root: without the id, what a policy allows by its tag cannot be tried"
	case id == "":
		f.Level, f.Text, f.Hint = aws.LevelUnknown, path+" is empty", "restart burstd: it writes the id anew"
	default:
		f.Text = id
	}
	return id, f
}

func poolsOn(cfg *config.Config, provider string) []aws.CheckPool {
	var all []aws.CheckPool
	for _, p := range cfg.Sources() {
		if p.Power.Provider == provider {
			all = append(all, aws.CheckPool{Name: p.Power.Name, Offerings: p.Power.Fleet.Offerings(), Image: p.Power.Image, Nodes: len(p.Power.Nodes)})
		}
	}
	return all
}

// wrongs counts what stands in the way of launches.
func wrongs(accounts []account) int {
	n := 0
	for _, a := range accounts {
		n += len(slices.DeleteFunc(slices.Clone(a.Findings), func(f aws.Finding) bool { return f.Level != aws.LevelWrong }))
	}
	return n
}

func (a account) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "provider %s on %s:\n", a.Provider, a.cloud)
	for _, f := range a.Findings {
		fmt.Fprintf(&b, "%-8s %s: %s\n", f.Level, printable(f.Subject), printable(f.Text))
		if f.Hint != "" {
			fmt.Fprintf(&b, "         %s\n", printable(f.Hint))
		}
	}
	return b.String()
}
