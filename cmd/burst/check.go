package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/cloud/aws"
	"github.com/burst-hpc/burst/cmd/internal/cli"
	"github.com/burst-hpc/burst/cmd/internal/config"
	"github.com/burst-hpc/burst/slurm/conf"
	"github.com/burst-hpc/burst/slurm/directive"
)

type checkOptions struct {
	config   string
	programs string
	offline  bool
	json     bool
}

func checkCommand() *cobra.Command {
	var o checkOptions
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Check burst.toml, and what slurm.conf lacks",
		Long: "Check burst.toml, then compare it with the running slurmctld and with slurm.conf. Where nodes come from AWS, check\n" +
			"that too, as \"burst aws check\" does, and where they come from Vultr, the account and the pools there; what cannot\n" +
			"be reached is unknown, not wrong. Where they are set up over SSH, look at burstd's keys for it.\n\n" +
			"Exit codes: 0 all is well, 1 something must be changed, 2 burst.toml is wrong.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.config = configFlag(cmd)
			return runCheck(cmd.Context(), cmd.OutOrStdout(), o)
		},
	}
	cmd.Flags().StringVar(&o.programs, "programs", "", "`folder` of burst-resume and the others (default: beside burst, then "+defaultPrograms+")")
	cmd.Flags().BoolVar(&o.offline, "offline", false, "ask no cloud")
	cmd.Flags().BoolVar(&o.json, "json", false, "print the findings as JSON")
	return cmd
}

// report is what check found; its JSON is that of check --json.
type report struct {
	Config   string         `json:"config"`
	Compared []string       `json:"compared"` // "slurmctld", the path of slurm.conf
	Change   int            `json:"change"`   // findings that stand in the way
	Findings []conf.Finding `json:"findings"`
	AWS      []account      `json:"aws,omitempty"`
	Vultr    []account      `json:"vultr,omitempty"`
}

func runCheck(ctx context.Context, w io.Writer, o checkOptions) error {
	cfg, in, err := wanted(o.config, o.programs)
	if err != nil {
		return err
	}
	both, err := readSites(ctx, cfg)
	if err != nil {
		return err
	}
	var asked asked
	if !o.offline {
		asked = askClouds(ctx, cfg, &in)
	}
	r := both.compare(in)
	r.Config, r.AWS, r.Vultr = cfg.Path, asked.aws, asked.vultr
	r.Findings = append(r.Findings, asked.pools...)
	r.Findings = append(r.Findings, checkPrograms(in.Programs, both.chained(in.Programs))...)
	unheard := checkListen(cfg)
	r.Findings = append(r.Findings, unheard...)
	r.Findings = append(r.Findings, checkServers(ctx, cfg, o.offline)...)
	r.Findings = append(r.Findings, checkBoots(cfg)...)
	rules := checkOverflow(cfg, both.file)
	r.Findings = append(r.Findings, rules...)
	r.Findings = append(r.Findings, checkBudget(cfg)...)
	logins := checkLogins(cfg)
	r.Findings = append(r.Findings, logins...)
	total := len(r.Findings)
	r.Change = standing(r.Findings)
	hint := "\"burst genconf\" prints what slurm.conf needs; slurmctld must be restarted after it"
	switch r.Change {
	case 0:
		hint = "docs/aws.md and docs/vultr.md say what Burst needs of an account"
	case len(unheard):
		hint = "burst.toml(5) describes listen"
	case standing(rules):
		hint = "docs/overflow.md says how the rules of overflow are read"
	case standing(logins):
		hint = "docs/ssh-bootstrap.md says what burstd needs to log in to nodes"
	}
	accounts := slices.Concat(r.AWS, r.Vultr)
	r.Change += wrongs(accounts)
	for _, a := range accounts {
		total += len(a.Findings)
	}
	if o.json {
		enc := json.NewEncoder(w)
		enc.SetIndent("", "  ")
		err = enc.Encode(r)
	} else {
		err = r.print(w)
	}
	if err != nil {
		return fmt.Errorf("writing the findings: %w", err)
	}
	if r.Change > 0 {
		return cli.WithHint(fmt.Errorf("%d of %d findings must be changed", r.Change, total), "%s", hint)
	}
	return nil
}

// standing is how many findings stand in the way.
func standing(all []conf.Finding) (n int) {
	for _, f := range all {
		if f.MustChange() {
			n++
		}
	}
	return n
}

// asked is what the clouds say.
type asked struct {
	pools []conf.Finding // pools that they did not describe
	aws   []account
	vultr []account
}

// askClouds adds to in what clouds know of the pools' types, and checks their accounts.
func askClouds(ctx context.Context, cfg *config.Config, in *conf.Input) asked {
	ctx, cancel := context.WithTimeout(ctx, cloudTimeout)
	defer cancel()
	open := openedOf(cfg)
	a := asked{aws: checkAWS(ctx, cfg, open, ""), vultr: checkVultr(ctx, cfg, open)}
	for _, account := range a.aws {
		for i, f := range account.Findings {
			// This host may have no way there, or this user no credentials, while burstd has: "burst aws
			// check" is the one to say so.
			if f.Level == aws.LevelWrong && (f.Subject == "credentials" || strings.HasPrefix(f.Subject, "endpoint ")) {
				account.Findings[i].Level = aws.LevelUnknown
			}
		}
	}
	failed := shapes(ctx, cfg, open, in)
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

// compare checks the running slurmctld, with the nodes and partitions of the
// file, or the file alone where slurmctld does not answer.
func (s sites) compare(in conf.Input) report {
	if s.askErr != nil {
		return report{Compared: []string{s.path}, Findings: conf.Check(s.file, in)}
	}
	if s.fileErr != nil {
		found := conf.Check(s.running, in)
		return report{Compared: []string{"slurmctld"}, Findings: append(found, s.tooSoon(in, found)...)}
	}
	both := s.file
	both.Settings = s.running.Settings
	written := map[string]bool{} // settings that the file has right
	for _, f := range conf.Check(s.file, in) {
		if f.Level == conf.OK {
			written[f.Key] = true
		}
	}
	found := conf.Check(both, in)
	for i, f := range found {
		if f.MustChange() && f.Want != "" && written[f.Key] && f.Key != "NodeName" && f.Key != "PartitionName" {
			found[i].Why = s.path + " says so already: restart slurmctld."
		}
	}
	return report{Compared: []string{"slurmctld", s.path}, Findings: append(found, s.tooSoon(in, found)...)}
}

// chained says whether the site calls, or must call, the script that chains its
// own PrologSlurmctld.
func (s sites) chained(p conf.Programs) bool {
	have := s.running.Get("PrologSlurmctld")
	if s.askErr != nil {
		have = s.file.Get("PrologSlurmctld")
	}
	return have != "" && have != p.Gate
}

// checkPrograms finds programs that slurmctld would refuse to start.
func checkPrograms(p conf.Programs, chained bool) []conf.Finding {
	paths := []string{p.Resume, p.Suspend, p.ResumeFail, p.Gate}
	if chained {
		paths = append(paths, p.Chain)
	}
	var all []conf.Finding
	for _, path := range paths {
		f := conf.Finding{Level: conf.OK, Key: filepath.Base(path), Have: path, Why: "slurmctld may start it."}
		info, err := os.Stat(path)
		switch {
		case err != nil && path == p.Chain:
			f.Level, f.Why = conf.Missing, fmt.Sprintf("%v: write it with \"burst genconf --chain -o %s\".", err, path)
		case err != nil:
			f.Level, f.Why = conf.Missing, fmt.Sprintf("%v: install it, or name its folder with --programs.", err)
		case info.IsDir() || info.Mode()&0o111 == 0:
			f.Level, f.Why = conf.Wrong, fmt.Sprintf("slurmctld cannot start it: its mode is %v; run chmod 755 on it.", info.Mode())
		case info.Mode()&0o022 != 0:
			f.Level, f.Why = conf.Wrong, fmt.Sprintf("slurmctld does not start what others may write: its mode is %v; run chmod 755 on it.", info.Mode())
		}
		all = append(all, f)
	}
	return all
}

// checkListen finds a method of checkpoints that no job would hear of: burst-srun has it
// from burstd's listener.
func checkListen(cfg *config.Config) []conf.Finding {
	if cfg.Endpoint.Listen != "" {
		return nil
	}
	for _, l := range cfg.Checkpoint.Layers {
		if s, ok := l.Value("ckpt"); ok && s.Value != directive.None {
			return []conf.Finding{{Level: conf.Missing, Key: "listen", Want: `"HOST:9811"`, Why: fmt.Sprintf("ckpt=%s of the %s, reaches no job, and no step hears of an eviction: "+
				"burst-srun asks burstd, which answers no node without listen under [daemon] in burst.toml.", s.Value, directive.Origin{Source: l.Source, Line: s.Line})}}
		}
	}
	return nil
}

func (r report) print(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s is valid; compared with %s:\n", r.Config, strings.Join(r.Compared, " and "))
	for _, f := range r.Findings {
		fmt.Fprintf(&b, "%-8s %s\n", f.Level, headline(f))
		if f.Level == conf.OK {
			continue
		}
		if f.Want != "" {
			fmt.Fprintf(&b, "         want %s\n", wantLine(f))
		}
		fmt.Fprintf(&b, "         %s\n", f.Why)
	}
	for _, a := range slices.Concat(r.AWS, r.Vultr) {
		b.WriteString(a.text())
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// headline is the finding as slurm.conf has it.
func headline(f conf.Finding) string {
	if f.Have == "" {
		return f.Key
	}
	return f.Key + "=" + f.Have
}

// wantLine is the line that slurm.conf needs; those of nodes and partitions are whole already.
func wantLine(f conf.Finding) string {
	if strings.HasPrefix(f.Want, f.Key+"=") {
		return f.Want
	}
	return f.Key + "=" + f.Want
}
