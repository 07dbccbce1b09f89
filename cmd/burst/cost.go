package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/burst-hpc/burst/cmd/internal/api"
	"github.com/burst-hpc/burst/cmd/internal/cli"
	"github.com/burst-hpc/burst/cmd/internal/config"
	"github.com/burst-hpc/burst/slurm/conf"
)

type costOptions struct {
	since, until time.Time // until zero: no end
	by           string
	json, csv    bool
	reconcile    bool
}

func costCommand() *cobra.Command {
	var o costOptions
	var since, until string
	cmd := &cobra.Command{
		Use:   "cost",
		Short: "Show what the instances cost, by job, user, account, pool, provider, offering or day",
		Long: "Show what the instances cost, as burstd's ledger has it: users see their own jobs,\n" +
			"root and SlurmUser everything. Time that no job had, as boots and idle nodes, stands as \"-\".\n" +
			"Days are those of this host's time zone.\n\n" +
			"Exit codes: 0 done, 1 burstd does not answer, or with --reconcile something differs, 2 wrong usage.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var err error
			if o.since, o.until, err = parseSpan(since, until, time.Now()); err != nil {
				return cli.UsageError(err, "see burst cost --help")
			}
			if o.reconcile && (o.csv || until != "" || cmd.Flags().Changed("by")) {
				return cli.UsageError(errors.New("--reconcile goes with --since and --json only"), "see burst cost --help")
			}
			if o.json && o.csv {
				return cli.UsageError(errors.New("--json and --csv exclude each other"), "see burst cost --help")
			}
			if !slices.Contains(api.UsageKeys, o.by) {
				return cli.UsageError(fmt.Errorf("--by is %q, none of %s", o.by, strings.Join(api.UsageKeys, ", ")), "see burst cost --help")
			}
			client, err := dial(cmd)
			if err != nil {
				return err
			}
			defer client.Close()
			if o.reconcile {
				return runBills(cmd.Context(), cmd.OutOrStdout(), client, o)
			}
			return runCost(cmd.Context(), cmd.OutOrStdout(), client, o)
		},
	}
	cmd.Flags().StringVar(&since, "since", "30d", "count the last `TIME`, as in 12h or 7d, or from a day on, as in 2026-01-31; at most 400d are kept")
	cmd.Flags().StringVar(&until, "until", "", "count until so long ago, as in 12h or 7d, or until the end of a day, as in 2026-01-31 (default now)")
	cmd.Flags().StringVar(&o.by, "by", "job", "sum up by `WHAT`: "+strings.Join(api.UsageKeys, ", "))
	cmd.Flags().BoolVar(&o.json, "json", false, "print JSON")
	cmd.Flags().BoolVar(&o.csv, "csv", false, "print CSV with a header line")
	cmd.Flags().BoolVar(&o.reconcile, "reconcile", false, "compare what is booked of each instance that is gone with its provider's word; for root and SlurmUser")
	return cmd
}

// maxDays is more than the ledger keeps.
const maxDays = 10_000

// parseSince reads a duration that may be in days.
func parseSince(text string) (time.Duration, error) {
	d, err := parseAgo(text)
	if err != nil {
		return 0, fmt.Errorf("--since is %q: write a time as in 12h or 7d", text)
	}
	return d, nil
}

// parseAgo is parseSince without the words.
func parseAgo(text string) (time.Duration, error) {
	var d time.Duration
	var err error
	if days, ok := strings.CutSuffix(text, "d"); ok {
		var n int
		if n, err = strconv.Atoi(days); n < 0 || n > maxDays {
			err = errors.New("out of range")
		}
		d = time.Duration(n) * 24 * time.Hour
	} else {
		d, err = time.ParseDuration(text)
	}
	if err == nil && d <= 0 {
		err = errors.New("out of range")
	}
	return d, err
}

func runCost(ctx context.Context, w io.Writer, client *api.Client, o costOptions) error {
	usage, err := client.Usage(ctx, api.UsageQuery{Since: o.since, Until: o.until, By: o.by})
	if err != nil {
		return explain(err)
	}
	if o.json {
		return writeJSON(w, append([]api.Usage{}, usage...)) // [] in JSON, not null
	}
	if o.csv {
		return writeUsageCSV(w, usage)
	}
	head := []string{strings.ToUpper(o.by)}
	if o.by == "job" {
		head = append(head, "USER", "ACCOUNT")
	}
	rows := [][]string{append(head, "INSTANCES", "HOURS", "USD", "ON-DEMAND")}
	total := api.Usage{Key: "total"}
	for _, u := range usage {
		rows = append(rows, costRow(u, o.by))
		total.Seconds += u.Seconds
		total.UnpricedSeconds += u.UnpricedSeconds
		total.OnDemandUnknownSeconds += u.OnDemandUnknownSeconds
		total.USD, total.OnDemandUSD = plus(total.USD, u.USD), plus(total.OnDemandUSD, u.OnDemandUSD)
		for _, x := range noted {
			seconds, usd := x.of(&total)
			s, d := x.of(&u)
			*seconds, *usd = *seconds+*s, *usd+*d
		}
	}
	last := costRow(total, o.by)
	clear(last[1 : len(last)-3]) // nobody's; and an instance may be in several rows
	if err := writeTable(w, append(rows, last)); err != nil {
		return err
	}
	return writeCostNotes(w, total)
}

// plus adds amounts, of which either may be unknown.
func plus(a, b *float64) *float64 {
	if a == nil || b == nil {
		return cmp.Or(a, b)
	}
	sum := *a + *b
	return &sum
}

// noted are the kinds of time of which only the sum over the table is printed.
var noted = []struct {
	head, name string
	of         func(*api.Usage) (seconds, usd *float64)
}{
	{noJobs, "boots", func(u *api.Usage) (*float64, *float64) { return &u.BootSeconds, &u.BootUSD }},
	{noJobs, "idle nodes", func(u *api.Usage) (*float64, *float64) { return &u.IdleSeconds, &u.IdleUSD }},
	{noJobs, "servers of files", func(u *api.Usage) (*float64, *float64) { return &u.ServeSeconds, &u.ServeUSD }},
	{noJobs, "the rest of units begun", func(u *api.Usage) (*float64, *float64) { return &u.RestSeconds, &u.RestUSD }},
	{ofJobs, "work done again after evictions", func(u *api.Usage) (*float64, *float64) { return &u.LostSeconds, &u.LostUSD }},
	{ofJobs, "writing checkpoints", func(u *api.Usage) (*float64, *float64) { return &u.CheckpointSeconds, &u.CheckpointUSD }},
}

const (
	noJobs = "Of this no job had: "
	ofJobs = "Of jobs that ended in this time, since the start of each: "
)

// writeCostNotes says in words what the table leaves open.
func writeCostNotes(w io.Writer, total api.Usage) error {
	var notes []string
	if total.UnpricedSeconds > 0 {
		notes = append(notes, fmt.Sprintf("The price of %s instance-hours is not known: they are not in USD.", hours(total.UnpricedSeconds)))
	}
	if total.OnDemandUSD != nil && total.OnDemandUnknownSeconds > 0 {
		notes = append(notes, fmt.Sprintf("What %s instance-hours would have cost on demand is not known: they are not in ON-DEMAND.", hours(total.OnDemandUnknownSeconds)))
	}
	for _, head := range []string{noJobs, ofJobs} {
		var parts []string
		for _, x := range noted {
			if seconds, usd := x.of(&total); *seconds > 0 && x.head == head {
				parts = append(parts, fmt.Sprintf("%s %s h, %.4f USD", x.name, hours(*seconds), *usd))
			}
		}
		if len(parts) > 0 {
			notes = append(notes, head+strings.Join(parts, "; ")+".")
		}
	}
	if len(notes) == 0 {
		return nil
	}
	_, err := fmt.Fprintf(w, "\n%s\n", strings.Join(notes, "\n"))
	return err
}

func costRow(u api.Usage, by string) []string {
	row := []string{cmp.Or(taskName(u.ArrayJob, u.ArrayTask), u.Key, "-")}
	if by == "job" {
		row = append(row, cmp.Or(u.User, "-"), cmp.Or(u.Account, "-"))
	}
	return append(row, strconv.Itoa(u.Instances), hours(u.Seconds), inUSD(u.USD), inUSD(u.OnDemandUSD))
}

// checkCost finds that what jobs have cost cannot be written where the site wants it.
func checkCost(cfg *config.Config, site conf.Site) []conf.Finding {
	const key, want = "AccountingStorageType", "accounting_storage/slurmdbd"
	if have := site.Get(key); cfg.Cost.Comment && site.Settings != nil && !strings.EqualFold(have, want) {
		return []conf.Finding{{Level: conf.Advice, Key: key, Have: have, Want: want,
			Why: "[cost] comment writes what jobs have cost into slurmdbd's records, and there are none."}}
	}
	return nil
}

// inUSD is an amount in a table; nil: not known.
func inUSD(usd *float64) string {
	if usd == nil {
		return "-"
	}
	return fmt.Sprintf("%.4f", *usd)
}

func hours(seconds float64) string { return fmt.Sprintf("%.2f", seconds/3600) }
