package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/burst-hpc/burst/cmd/internal/cli"
	"github.com/burst-hpc/burst/cmd/internal/config"
	"github.com/burst-hpc/burst/slurm"
	"github.com/burst-hpc/burst/slurm/conf"
)

// confDiff is the output of genconf --diff --json.
type confDiff struct {
	SlurmConf string   `json:"slurm_conf"`
	Change    bool     `json:"change"`
	Diff      string   `json:"diff"`
	Notes     []string `json:"notes"`   // what the change does that its lines do not show
	ByHand    []string `json:"by_hand"` // what no change of a line mends
	Chain     string   `json:"chain,omitempty"`
	Unread    bool     `json:"unread"` // slurmctld has not read what the files say
}

// runGenconfDiff says what to change in slurm.conf and what it includes.
func runGenconfDiff(ctx context.Context, s streams, o genconfOptions) error {
	d, err := diffConf(ctx, s, o)
	if err != nil {
		var hint interface{ Hint() string }
		words := ""
		if errors.As(err, &hint) {
			words = hint.Hint()
		}
		return cli.UsageError(err, words) // 1 is that there is something to change
	}
	if o.json {
		if err := writeJSON(s.out, d); err != nil {
			return err
		}
	} else if _, err := fmt.Fprint(s.out, d.text()); err != nil {
		return err
	}
	if d.Change {
		return cli.Silent(cli.Failed)
	}
	return nil
}

func diffConf(ctx context.Context, s streams, o genconfOptions) (confDiff, error) {
	cfg, in, err := wanted(o.config, o.programs)
	if err != nil {
		return confDiff{}, err
	}
	if err := askShapes(ctx, cfg, &in); err != nil {
		return confDiff{}, err
	}
	path, running := "", conf.Site{}
	client := slurm.New(slurm.Exec{Conf: cfg.Endpoint.SlurmConf, BinDir: cfg.Endpoint.SlurmBin, Timeout: askTimeout})
	if o.slurmConf != "" {
		if path, err = filepath.Abs(o.slurmConf); err != nil {
			return confDiff{}, fmt.Errorf("finding %s: %w", o.slurmConf, err)
		}
	} else if path, running, err = runningConf(ctx, client, cfg); err != nil {
		if _, e := fmt.Fprintf(s.err, "burst: hint: slurmctld does not say which slurm.conf it reads (%v): this is of %s\n", err, path); e != nil {
			return confDiff{}, e
		}
	}
	files, err := conf.ReadFiles(path)
	if err != nil {
		return confDiff{}, cli.WithHint(err, "run it on the host of slurmctld, or name its file with --slurm-conf")
	}
	files.Release = releaseOf(ctx, client, running)
	change, err := files.Change(in)
	if err != nil {
		return confDiff{}, err
	}
	d := confDiff{SlurmConf: path, Change: !change.Nothing(), Notes: append([]string{}, change.Notes...), ByHand: append([]string{}, change.Hand...)}
	var b strings.Builder
	for _, f := range change.Files {
		b.WriteString(f.Unified())
	}
	d.Diff = b.String()
	if missingChain(files.Outside(), in) != "" {
		d.Chain = in.Programs.Chain
	}
	for _, f := range conf.Check(running, in) {
		d.Unread = d.Unread || running.Settings != nil && f.MustChange() && f.Want != ""
	}
	return d, nil
}

// runningConf is the slurm.conf that the running slurmctld says it reads, with its settings; if it does not
// answer, the one that burst.toml or the environment names, and why.
func runningConf(ctx context.Context, client *slurm.Client, cfg *config.Config) (string, conf.Site, error) {
	settings, err := client.ShowConfig(ctx)
	if err == nil && settings["SLURM_CONF"] == "" {
		err = errors.New("it names none")
	}
	if err != nil {
		return cmp.Or(cfg.Endpoint.SlurmConf, os.Getenv("SLURM_CONF"), "/etc/slurm/slurm.conf"), conf.Site{}, err
	}
	return settings["SLURM_CONF"], conf.Running(settings), nil
}

func (d confDiff) text() string {
	var b strings.Builder
	if d.Chain != "" {
		fmt.Fprintf(&b, "# first, before the change and a restart of slurmctld: burst genconf --chain -o %s\n", d.Chain)
	}
	switch {
	case !d.Change && d.Unread:
		fmt.Fprintf(&b, "nothing to change: %s has what Burst needs; but slurmctld has not read all of it: restart it\n", d.SlurmConf)
		return b.String()
	case !d.Change:
		fmt.Fprintf(&b, "nothing to change: %s has what Burst needs\n", d.SlurmConf)
		return b.String()
	}
	for _, n := range d.Notes {
		fmt.Fprintf(&b, "# %s\n", n)
	}
	for _, n := range d.ByHand {
		fmt.Fprintf(&b, "# by hand: %s\n", n)
	}
	b.WriteString(d.Diff)
	return b.String()
}
