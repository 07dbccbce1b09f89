package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/burst-hpc/burst/cmd/internal/cli"
	"github.com/burst-hpc/burst/cmd/internal/config"
	"github.com/burst-hpc/burst/cmd/internal/firstfile"
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
		Short: "Check this host, burst.toml, slurm.conf and the clouds",
		Long: "Check burst.toml, then all that can be wrong on a controller, a line each: this host (Slurm's version and build, MUNGE,\n" +
			"the clock, disks, sockets, who may read and write what, the programs' versions, burstd's unit), then slurm.conf, and what\n" +
			"the running slurmctld has of it. Where nodes come from AWS, check that too, as \"burst aws check\" does, and where they\n" +
			"come from Vultr, the account and the pools there. Where they are set up over SSH, look at burstd's keys for it.\n" +
			"It changes nothing. What hangs is given up; what could not be looked at is unknown, with the reason, and not wrong.\n" +
			"Run it as root, who sees everything, or as SlurmUser; before burstd has ever run, or while it does.\n\n" +
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
	Host     []conf.Finding `json:"host"`     // of this host; key is what was looked at, have where
	Findings []conf.Finding `json:"findings"` // of slurm.conf and burst.toml
	AWS      []account      `json:"aws,omitempty"`
	Vultr    []account      `json:"vultr,omitempty"`
}

func runCheck(ctx context.Context, w io.Writer, o checkOptions) error {
	cfg, in, err := wanted(o.config, o.programs)
	if err != nil {
		return err
	}
	both, lost := readSites(ctx, cfg)
	a := askClouds(ctx, cfg, &in, o.offline)
	looked := lookAt(ctx, cfg, in, both)
	r := report{Config: cfg.Path, Compared: []string{}, Host: looked.host, AWS: a.aws, Vultr: a.vultr}
	hint := ""
	if lost == nil {
		compared := both.compare(in)
		r.Compared, r.Findings = compared.Compared, append(compared.Findings, a.pools...)
		hint = r.rest(ctx, cfg, both, a.servers, looked)
	} else {
		r.Findings = []conf.Finding{{Level: conf.Missing, Key: "slurm.conf", Have: both.path,
			Why: fmt.Sprintf("Neither slurmctld answers nor can this file be read (%v): run burst check on the host of slurmctld, or set conf under [slurm] in %s.", both.fileErr, cfg.Path)}}
		lost = cli.WithHint(errors.New("nothing of Slurm could be compared"), "run it on the host of slurmctld, or do what the lines above say")
		r.Findings = slices.Concat(r.Findings, looked.programs, checkListen(cfg), looked.logins)
	}
	accounts := slices.Concat(r.AWS, r.Vultr)
	total := len(r.Findings)
	for _, a := range accounts {
		total += len(a.Findings)
	}
	ours, rest := standing(r.Host), standing(r.Findings)+wrongs(accounts)
	r.Change = ours + rest
	if o.json {
		err = writeJSON(w, r)
	} else {
		err = r.print(w)
	}
	switch {
	case err != nil:
		return fmt.Errorf("writing the findings: %w", err)
	case lost != nil:
		return lost
	case ours > 0 && rest > 0:
		return cli.WithHint(fmt.Errorf("%d of %d findings must be changed, and %d of this host", rest, total, ours), "first what is said of this host, from above; then %s", hint)
	case ours > 0:
		return cli.WithHint(fmt.Errorf("%d of %d findings of this host must be changed", ours, len(r.Host)), "each line above says what to do; docs/admin.md says more")
	case rest > 0:
		return cli.WithHint(fmt.Errorf("%d of %d findings must be changed", rest, total), "%s", hint)
	}
	return nil
}

// rest adds what is found of slurm.conf and burst.toml beside their settings, and returns what to do first of all.
func (r *report) rest(ctx context.Context, cfg *config.Config, both sites, servers []conf.Finding, l looked) (hint string) {
	r.Findings = append(r.Findings, l.programs...)
	unheard := checkListen(cfg)
	names := newDirectory(ctx, cfg)
	images := checkImages(cfg, both.file.Release)
	rules := checkOverflow(cfg, both.file, names)
	folders := checkFolders(cfg, firstfile.Folders("/"))
	for _, more := range [][]conf.Finding{unheard, servers, checkBoots(cfg), images, rules, folders, checkBudget(cfg, both.file, names), checkCost(cfg, both.file), l.logins} {
		r.Findings = append(r.Findings, more...)
	}
	hint = "\"burst genconf --diff\" shows what to change in slurm.conf; slurmctld must be restarted after it"
	switch standing(r.Findings) {
	case 0:
		hint = "docs/aws.md and docs/vultr.md say what Burst needs of an account"
	case len(unheard):
		hint = "burst.toml(5) describes listen"
	case standing(images):
		hint = "docs/aws.md says which slurmd slurmctld takes, and which image has it"
	case standing(rules):
		hint = "docs/overflow.md says how the rules of overflow are read"
	case standing(folders):
		hint = "docs/admin.md says how the site's folders come to nodes, and how to say that they are there"
	case standing(l.logins):
		hint = "docs/ssh-bootstrap.md says what burstd needs to log in to nodes"
	}
	return hint
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

// compare checks the running slurmctld, with the nodes and partitions of the
// file, or the file alone where slurmctld does not answer.
func (s sites) compare(in conf.Input) report {
	if s.askErr != nil {
		return report{Compared: []string{s.path}, Findings: conf.Check(s.file, in)}
	}
	if s.fileErr != nil {
		found := conf.Check(s.running, in)
		return report{Compared: []string{"slurmctld"}, Findings: slices.Concat(found, s.tooSoon(in, found), s.apart(in, found))}
	}
	both := s.file
	both.Settings, both.Prologs = s.running.Settings, s.running.Prologs
	written := map[string]bool{} // settings that the file has right
	for _, f := range conf.Check(s.file, in) {
		if f.Level == conf.OK {
			written[f.Key] = true
		}
	}
	found := conf.Check(both, in)
	for i, f := range found {
		if f.MustChange() && f.Want != "" && written[f.Key] && !slices.Contains([]string{"NodeName", "PartitionName", "SwitchName", "BlockName"}, f.Key) {
			found[i].Why = s.path + " says so already: restart slurmctld."
		}
	}
	found = slices.Concat(found, s.tooSoon(in, found), s.apart(in, found))
	return report{Compared: []string{"slurmctld", s.path}, Findings: append(found, s.unknown(in)...)}
}

// chained says whether the site calls, or must call, the script that chains its
// own PrologSlurmctld.
func (s sites) chained(p conf.Programs) bool {
	if s.askErr != nil {
		return conf.Chained(s.file, p)
	}
	return conf.Chained(s.running, p)
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
	b.WriteString("this host:\n")
	lines(&b, r.Host)
	fmt.Fprintf(&b, "%s is valid; compared with %s:\n", r.Config, cmp.Or(strings.Join(r.Compared, " and "), "nothing"))
	lines(&b, r.Findings)
	for _, a := range slices.Concat(r.AWS, r.Vultr) {
		b.WriteString(a.text())
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func lines(b *strings.Builder, all []conf.Finding) {
	for _, f := range all {
		fmt.Fprintf(b, "%-8s %s\n", f.Level, printable(headline(f)))
		if f.Level == conf.OK {
			continue
		}
		if f.Want != "" {
			fmt.Fprintf(b, "         want %s\n", printable(wantLine(f)))
		}
		fmt.Fprintf(b, "         %s\n", printable(f.Why))
	}
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
