package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/burst-hpc/burst/cmd/internal/api"
	"github.com/burst-hpc/burst/cmd/internal/cli"
	"github.com/burst-hpc/burst/cmd/internal/config"
	"github.com/burst-hpc/burst/cmd/internal/endpoint"
	"github.com/burst-hpc/burst/slurm/conf"
	"github.com/burst-hpc/burst/slurm/overflow"
)

type overflowOptions struct {
	dryRun bool
	last   int
	json   bool
	rules  json.RawMessage // of the file; empty: burstd's own
}

func overflowCommand() *cobra.Command {
	var o overflowOptions
	cmd := &cobra.Command{
		Use:   "overflow",
		Short: "Show which waiting jobs go to the cloud, too, by which rule, and why",
		Long: "Show the jobs to which the rules of [[overflow]] have added partitions of a cloud, when and why,\n" +
			"and what became of them. With --dry-run show each pending job that waits in a partition which some\n" +
			"rule is from, what is to be done about it now, and why; nothing is done. For root and SlurmUser\n" +
			"that is by the rules of burst.toml as it is now, which burstd follows after its next start.\n" +
			"Users see their own jobs, root and SlurmUser all.\n\n" +
			"Exit codes: 0 done, 1 burstd or Slurm does not answer, 2 wrong usage or configuration.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.last < 1 || o.last > api.MaxOverflows {
				return cli.UsageError(fmt.Errorf("--last is %d, not from 1 to %d", o.last, api.MaxOverflows), "see burst overflow --help")
			}
			if o.dryRun {
				if cmd.Flags().Changed("last") {
					return cli.UsageError(errors.New("--last is of the log, not for --dry-run"), "see burst overflow --help")
				}
				var err error
				if o.rules, err = rulesOf(endpoint.Path(configFlag(cmd))); err != nil {
					return err
				}
			}
			client, err := dial(cmd)
			if err != nil {
				return err
			}
			defer client.Close()
			return runOverflow(cmd.Context(), cmd.OutOrStdout(), client, o)
		},
	}
	cmd.Flags().BoolVar(&o.dryRun, "dry-run", false, "say what the rules say of the pending jobs now, and do nothing")
	cmd.Flags().IntVarP(&o.last, "last", "n", 50, fmt.Sprintf("show the last `N` jobs of the log, at most %d", api.MaxOverflows))
	cmd.Flags().BoolVar(&o.json, "json", false, "print JSON")
	return cmd
}

// rulesOf reads the rules of the file, if this user may.
func rulesOf(path string) (json.RawMessage, error) {
	cfg, err := config.Load(path)
	switch {
	case errors.Is(err, fs.ErrPermission) || errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, err
	}
	text, err := json.Marshal(cfg.Overflow)
	if err != nil {
		return nil, fmt.Errorf("sending the rules: %w", err)
	}
	return text, nil
}

func runOverflow(ctx context.Context, w io.Writer, client *api.Client, o overflowOptions) error {
	if !o.dryRun {
		return showOverflows(ctx, w, client, o)
	}
	jobs, err := client.OverflowPlan(ctx, api.OverflowAsk{Rules: o.rules})
	if err != nil {
		return explain(err)
	}
	if o.json {
		return writeJSON(w, append([]api.OverflowJob{}, jobs...)) // [] in JSON, not null
	}
	rows := [][]string{{"JOB", "USER", "PARTITION", "NODES", "WAITED", "DO", "RULE", "WHY"}}
	for _, j := range jobs {
		waited := (time.Duration(j.Waited) * time.Second).String()
		rows = append(rows, []string{clipped(j.Job), j.User, j.Partition, strconv.Itoa(j.Nodes), waited, j.Action, cmp.Or(j.Rule, "-"), j.Why})
	}
	if err := writeTable(w, rows); err != nil {
		return err
	}
	if unread := len(slices.DeleteFunc(jobs, func(j api.OverflowJob) bool { return !j.Unread })); unread > 0 {
		_, err = fmt.Fprintf(w, "%d of them are not decided about: their scripts are not read yet, some at each call. Ask again.\n", unread)
	}
	return err
}

// clipped is a job's name with the beginning of a long list of tasks.
func clipped(job string) string {
	if len(job) > 30 {
		return job[:30] + "…"
	}
	return job
}

func showOverflows(ctx context.Context, w io.Writer, client *api.Client, o overflowOptions) error {
	all, err := client.Overflows(ctx, api.OverflowQuery{Last: o.last})
	if err != nil {
		return explain(err)
	}
	if o.json {
		return writeJSON(w, append([]api.Overflowed{}, all...)) // [] in JSON, not null
	}
	rows := [][]string{{"JOB", "USER", "FROM", "TO", "ADDED", "WHY", "ENDED", "STATE"}}
	for _, j := range all {
		rows = append(rows, []string{j.Job, j.User, j.Was, j.To, stamp(j.Added), j.Why, stamp(j.Ended), cmp.Or(j.EndedWhy, j.State)})
	}
	return writeTable(w, rows)
}

// checkOverflow finds rules that can be about no job, or are about others than it seems. Partitions are those of
// slurm.conf, where it was read.
func checkOverflow(cfg *config.Config, site conf.Site, names directory) []conf.Finding {
	var all []conf.Finding
	add := func(i int, level conf.Level, format string, args ...any) {
		r := cfg.Overflow.Rules[i]
		all = append(all, conf.Finding{Level: level, Key: "overflow", Have: r.Name,
			Why: fmt.Sprintf("%s:%d: ", filepath.Base(cfg.Path), r.Line) + fmt.Sprintf(format, args...)})
	}
	known := func(name string) bool {
		return slices.ContainsFunc(site.Partitions, func(l conf.Line) bool { return l.Name == name })
	}
	for i, r := range cfg.Overflow.Rules {
		missing := slices.DeleteFunc(slices.Clone(r.From), known)
		if site.Lines && len(missing) > 0 {
			add(i, conf.Wrong, "slurm.conf has no partition %s, which the rule is from.", strings.Join(missing, ", "))
		}
		before := cfg.Overflow.Rules[:i]
		switch of := overflow.Together(before, r); len(of) {
		case 0:
			for _, o := range before {
				// A narrower rule before a wider one is meant so.
				if what := o.Meets(r); what != "" && !r.Covers(o) {
					add(i, conf.Advice, "%s are decided by rule %s, line %d, though this rule is about them, too: the first that is decides.", what, o.Name, o.Line)
				}
			}
		case 1:
			add(i, conf.Wrong, "the rule is never reached: rule %s, line %d, is about all jobs that it is about, and the first that is decides. "+
				"Put the narrower rule first.", of[0].Name, of[0].Line)
		default:
			var named []string
			for _, o := range of {
				named = append(named, fmt.Sprintf("%s, line %d", o.Name, o.Line))
			}
			add(i, conf.Wrong, "the rule is never reached: rules %s, are together about all jobs that it is about, and the first that is decides. "+
				"Put the narrower rule first.", strings.Join(named, ", and "))
		}
		if r.After == 0 && r.StartsLater == 0 && r.AtOnce == 0 {
			add(i, conf.Advice, "the rule moves each job as soon as it has to wait, and any number of them: after, starts_later and at_once bound that.")
		}
		if spot := slices.DeleteFunc(slices.Clone(r.To), func(to string) bool { return !cfg.SpotPartitions()[to] }); site.Get("JobRequeue") == "0" && len(spot) > 0 && !r.NoRequeue {
			add(i, conf.Advice, "slurm.conf has JobRequeue=0, and jobs that Slurm may not requeue are not moved to %s, whose nodes the cloud may take back: "+
				"only those with --requeue are, or with requeue = \"any\" all.", strings.Join(spot, ","))
		}
		if why := r.Idle(cfg.Overflow.OnPrem); why != "" {
			add(i, conf.Wrong, "the rule moves no job: %s.", why)
		}
		for _, user := range r.Users {
			if names.noUser(strings.TrimPrefix(user, "!")) {
				add(i, conf.Advice, "this host knows no user %s: what the rule says of it is about nobody, if Slurm knows none either.", strings.TrimPrefix(user, "!"))
			}
		}
		for _, account := range r.Accounts {
			if names.noAccount(strings.TrimPrefix(account, "!")) {
				add(i, conf.Advice, "slurmdbd has no account %s: what the rule says of it is about nobody's jobs.", strings.TrimPrefix(account, "!"))
			}
		}
		if text := accountsBelow(r, names); text != "" {
			add(i, conf.Advice, "%s: names are compared as they are.", text)
		}
	}
	return all
}

// accountsBelow says which accounts below those of the rule it treats otherwise than these; "": none.
func accountsBelow(r overflow.Rule, names directory) string {
	var named, out []string
	for _, a := range r.Accounts {
		if name, not := strings.CutPrefix(a, "!"); not {
			out = append(out, name)
		} else {
			named = append(named, a)
		}
	}
	of, text := named, "it is not about jobs of the accounts below those that it names (%s)"
	if len(named) == 0 {
		of, text = out, "it is about jobs of the accounts below those that it leaves out (%s), too"
	}
	var all []string
	for _, name := range of {
		all = append(all, names.below(name, slices.Concat(named, out)...)...)
	}
	if len(all) == 0 {
		return ""
	}
	slices.Sort(all)
	return fmt.Sprintf(text, some(slices.Compact(all)))
}
