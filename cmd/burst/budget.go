package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/burst-hpc/burst/cmd/internal/api"
	"github.com/burst-hpc/burst/cmd/internal/config"
	"github.com/burst-hpc/burst/slurm/conf"
)

func budgetCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "budget",
		Short: "Show how the budgets stand",
		Long: "Show how each cap of [budget] stands in the present day or month: what is spent, what is committed, as\n" +
			"what runs now can still cost by the jobs' time limits, and what is left for launches. Users see their own\n" +
			"caps and those of their jobs, root and SlurmUser all. It says, too, what becomes of what runs at a cap, unless\n" +
			"it goes on to its end.\n\n" +
			"Exit codes: 0 done, 1 burstd does not answer, 2 wrong usage.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			client, err := dial(cmd)
			if err != nil {
				return err
			}
			defer client.Close()
			return runBudget(cmd.Context(), cmd.OutOrStdout(), client, asJSON)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func runBudget(ctx context.Context, w io.Writer, client *api.Client, asJSON bool) error {
	all, err := client.Budget(ctx, -1)
	if err != nil {
		return explain(err)
	}
	if asJSON {
		return writeJSON(w, append([]api.BudgetRow{}, all...))
	}
	if len(all) == 0 {
		_, err := fmt.Fprintln(w, "No cap of yours: burst.toml has none in [budget], or none for you.")
		return err
	}
	rows := [][]string{{"BUDGET", "PERIOD", "CAP", "SPENT", "COMMITTED", "LEFT"}}
	unpriced := 0.0
	for _, r := range all {
		usd := func(v float64) string { return fmt.Sprintf("%.2f", v) }
		rows = append(rows, []string{strings.TrimSpace(r.Of + " " + r.Name), period(r), usd(r.Cap), usd(r.Spent), usd(r.Committed), usd(r.Left)})
		unpriced = max(unpriced, r.UnpricedHours)
	}
	if err := writeTable(w, rows); err != nil {
		return err
	}
	if unpriced > 0 {
		_, err := fmt.Fprintf(w, "\nThe price of up to %s instance-hours is not known: nothing is launched under a cap that they count to,\nunless burst.toml says what such an hour counts (unknown_price in [budget]).\n", hours(unpriced*3600))
		if err != nil {
			return err
		}
	}
	if text := atCap(all[len(all)-1].AtCap); text != "" { // it is the same of all
		_, err := fmt.Fprintf(w, "\n%s (at_cap in [budget]).\n", text)
		return err
	}
	return nil
}

// atCap says what becomes of what runs at a cap; empty: nothing.
func atCap(word string) string {
	const begin = "What runs in the cloud when a cap is really spent is "
	switch word {
	case config.RequeueJobs:
		return begin + "checkpointed and requeued; what cannot be saved goes on to its end"
	case config.CancelJobs:
		return begin + "cancelled"
	}
	return ""
}

// period names the time that a cap is of, in the zone of the budget.
func period(r api.BudgetRow) string {
	switch r.Period {
	case "day":
		return r.From.In(r.From.Location()).Format(time.DateOnly)
	case "month":
		return r.From.In(r.From.Location()).Format("2006-01")
	}
	return "all attempts"
}

// checkBudget finds caps that are likely not meant so, and says what becomes of what runs at one.
func checkBudget(cfg *config.Config, site conf.Site, names directory) (all []conf.Finding) {
	if cfg.Budget == nil {
		return nil
	}
	if text := atCap(cfg.Budget.AtCap); text != "" {
		all = append(all, conf.Finding{Level: conf.OK, Key: "budget.at_cap", Have: cfg.Budget.AtCap, Why: text + "."})
	}
	all = append(all, checkOverTime(cfg, site)...)
	for _, d := range cfg.Budget.Doubts {
		all = append(all, conf.Finding{Level: conf.Advice, Key: d.Key, Have: fmt.Sprintf("line %d", d.Line), Why: d.What + "."})
	}
	for _, name := range slices.Sorted(maps.Keys(cfg.Budget.Caps.Users)) {
		if names.noUser(name) {
			all = append(all, conf.Finding{Level: conf.Advice, Key: "budget.user." + name, Have: name, Why: "This host knows no such user: the cap counts nobody's jobs, if Slurm knows none either."})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(cfg.Budget.Caps.Accounts)) {
		doubt := conf.Finding{Level: conf.Advice, Key: "budget.account." + name, Have: name}
		if names.noAccount(name) {
			doubt.Why = "slurmdbd has no such account: the cap counts nobody's jobs."
		} else if below := names.below(name); len(below) > 0 {
			doubt.Why = fmt.Sprintf("The cap does not count jobs of accounts below it (%s): names are compared as they are.", some(below))
		} else {
			continue
		}
		all = append(all, doubt)
	}
	return all
}

// checkOverTime finds that jobs may run on after their time limits without an end.
func checkOverTime(cfg *config.Config, site conf.Site) (all []conf.Finding) {
	const key, endless = "OverTimeLimit", "UNLIMITED"
	const why = "Slurm keeps no time limit there: to [budget] each job of it counts as one without a time limit."
	if strings.EqualFold(site.Get(key), endless) {
		all = append(all, conf.Finding{Level: conf.Advice, Key: key, Have: endless, Why: why})
	}
	for _, p := range site.Partitions {
		of := func(pool config.Pool) bool { return pool.Slurm.Partition == p.Name }
		if strings.EqualFold(p.Attrs[strings.ToLower(key)], endless) && slices.ContainsFunc(cfg.Pools, of) {
			all = append(all, conf.Finding{Level: conf.Advice, Key: "PartitionName", Have: p.Name, Why: key + "=" + endless + ": " + why})
		}
	}
	return all
}
