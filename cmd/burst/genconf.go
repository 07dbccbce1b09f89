package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/spf13/cobra"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/cmd/internal/cli"
	"github.com/burst-hpc/burst/cmd/internal/config"
	"github.com/burst-hpc/burst/cmd/internal/endpoint"
	"github.com/burst-hpc/burst/slurm/conf"
)

type genconfOptions struct {
	config   string
	output   string
	programs string
	chain    bool
	json     bool

	diff      bool
	slurmConf string // of diff
}

func genconfCommand() *cobra.Command {
	var o genconfOptions
	cmd := &cobra.Command{
		Use:   "genconf [-o FILE | --diff]",
		Short: "Print Burst's part of slurm.conf",
		Long: "Print Burst's part of slurm.conf, merged with what the site has: write it to a file that the last line of\n" +
			"slurm.conf includes. A site with a PrologSlurmctld of its own also needs the script that --chain prints.\n\n" +
			"With --diff print what to change in the slurm.conf that the running slurmctld reads, in what it includes, and in\n" +
			"topology.conf, as diff -u does: \"patch -p1 -d /\" takes it. Lines that begin with # say what the lines do not show.\n\n" +
			"Exit codes: 0 done, 1 failed, 2 wrong usage or configuration; of --diff as of diff: 0 nothing to change,\n" +
			"1 something, 2 it cannot be told.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.config = configFlag(cmd)
			if o.slurmConf != "" && !o.diff {
				return cli.UsageError(errors.New("--slurm-conf is for --diff"), "see burst genconf --help")
			}
			if o.diff {
				return runGenconfDiff(cmd.Context(), streams{cmd.OutOrStdout(), cmd.ErrOrStderr()}, o)
			}
			return runGenconf(cmd.Context(), streams{cmd.OutOrStdout(), cmd.ErrOrStderr()}, o)
		},
	}
	cmd.Flags().StringVarP(&o.output, "output", "o", "", "`file` to write instead of printing; an existing one is replaced")
	cmd.Flags().StringVar(&o.programs, "programs", "", "`folder` of burst-resume and the others (default: beside burst, then "+defaultPrograms+")")
	cmd.Flags().BoolVar(&o.chain, "chain", false, "print the script that calls the gate and the site's own PrologSlurmctld")
	cmd.Flags().BoolVar(&o.json, "json", false, "print fragment and script, or what to change, as JSON")
	cmd.Flags().BoolVar(&o.diff, "diff", false, "print what to change in slurm.conf and what it includes")
	cmd.Flags().StringVar(&o.slurmConf, "slurm-conf", "", "`file` to compare with (default: that of the running slurmctld); for --diff")
	cmd.MarkFlagsMutuallyExclusive("chain", "json")
	cmd.MarkFlagsMutuallyExclusive("chain", "diff")
	cmd.MarkFlagsMutuallyExclusive("output", "diff")
	return cmd
}

// streams are where a command writes its result and its remarks.
type streams struct{ out, err io.Writer }

// generated is the output of genconf --json.
type generated struct {
	Fragment  string `json:"fragment"`
	Chain     string `json:"chain,omitempty"` // the script's text, if it is needed
	ChainPath string `json:"chain_path,omitempty"`
}

func runGenconf(ctx context.Context, s streams, o genconfOptions) error {
	cfg, in, err := wanted(o.config, o.programs)
	if err != nil {
		return err
	}
	if err := askShapes(ctx, cfg, &in); err != nil {
		return err
	}
	both, err := readSites(ctx, cfg)
	if err != nil {
		return err
	}
	site := both.files.Outside() // what the fragment will be included in
	if both.fileErr != nil {
		site = both.running
		both.files = conf.Files{Site: site}
	}
	g := generated{Fragment: conf.Fragment(site, in), Chain: missingChain(site, in)}
	if o.chain {
		g.Chain = both.files.ChainScript(in, chainInPlace(in))
	}
	if g.Chain != "" {
		g.ChainPath = in.Programs.Chain
	}
	if err := hints(s.err, cfg.Path, g, o); err != nil {
		return err
	}
	text, mode := g.Fragment, fs.FileMode(0o644)
	switch {
	case o.chain && g.Chain == "" && conf.Chained(site, in.Programs):
		return cli.WithHint(fmt.Errorf("which program of the site's own %s is to call is not known", in.Programs.Chain),
			"slurm.conf names the script alone, and the script is not there: write PrologSlurmctld=PROGRAM above the Include, and run it again")
	case o.chain && g.Chain == "":
		return cli.WithHint(fmt.Errorf("no script is needed: PrologSlurmctld is %s", site.Get("PrologSlurmctld")),
			"the gate alone is enough where the site has no PrologSlurmctld of its own; Slurm 24.05 and newer run it beside the site's")
	case o.chain:
		text, mode = g.Chain, 0o755
	case o.json:
		b, err := json.MarshalIndent(g, "", "  ")
		if err != nil {
			return fmt.Errorf("writing JSON: %w", err)
		}
		text = string(b) + "\n"
	}
	if o.output != "" {
		return outFile{path: o.output, text: text, mode: mode, replace: true}.write()
	}
	_, err = io.WriteString(s.out, text)
	return err
}

// missingChain is the text of the script that the site needs, "" if one is in place that calls the site's program.
func missingChain(site conf.Site, in conf.Input) string {
	script := conf.ChainScript(site, in)
	if conf.ChainCalls(script) == conf.ChainCalls(chainInPlace(in)) {
		return ""
	}
	return script
}

// chainInPlace is the text of the script in place, "" if there is none that can be read.
func chainInPlace(in conf.Input) string {
	text, err := os.ReadFile(in.Programs.Chain)
	if err != nil {
		return ""
	}
	return string(text)
}

// askShapes asks the clouds for what the file does not say of its pools; if it
// says all, nobody is asked.
func askShapes(ctx context.Context, cfg *config.Config, in *conf.Input) error {
	ctx, cancel := context.WithTimeout(ctx, cloudTimeout)
	defer cancel()
	open := openedOf(cfg)
	failed := shapes(ctx, cfg, open, in)
	for _, p := range cfg.Pools { // the first, in the order of the file
		if err := failed[p.Power.Name]; err != nil {
			if cloud.KindOf(err) == cloud.Auth {
				return open.explain(fmt.Errorf("describing the nodes of pool %s: %w", p.Power.Name, err))
			}
			return cli.WithHint(fmt.Errorf("describing the nodes of pool %s: %w", p.Power.Name, err),
				"with cpus and real_memory in [pool.%s] nobody is asked; \"burst aws check\" says more of AWS", p.Power.Name)
		}
	}
	return nil
}

// hints tells what the fragment alone does not do.
func hints(w io.Writer, path string, g generated, o genconfOptions) error {
	if path != endpoint.DefaultPath {
		if _, err := fmt.Fprintf(w, "burst: hint: slurmctld gives its programs no environment, so they read %s: link it to %s\n",
			endpoint.DefaultPath, path); err != nil {
			return err
		}
	}
	if g.Chain == "" || o.chain || o.json {
		return nil
	}
	_, err := fmt.Fprintf(w, "burst: hint: the site has a PrologSlurmctld of its own: run \"burst genconf --chain -o %s\" too\n", g.ChainPath)
	return err
}
