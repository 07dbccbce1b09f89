package main

import (
	"context"
	"fmt"
	"io"
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
			"caps and those of their jobs, root and SlurmUser all.\n\n" +
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
		_, err = fmt.Fprintf(w, "\nThe price of up to %s instance-hours is not known: nothing is launched under a cap that they count to,\nunless burst.toml says what such an hour counts (unknown_price in [budget]).\n", hours(unpriced*3600))
	}
	return err
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

// checkBudget finds caps that are likely not meant so.
func checkBudget(cfg *config.Config) (all []conf.Finding) {
	if cfg.Budget == nil {
		return nil
	}
	for _, d := range cfg.Budget.Doubts {
		all = append(all, conf.Finding{Level: conf.Advice, Key: d.Key, Have: fmt.Sprintf("line %d", d.Line), Why: d.What + "."})
	}
	return all
}
