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

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/cloud/price"
	"github.com/burst-hpc/burst/cmd/internal/cli"
	"github.com/burst-hpc/burst/cmd/internal/config"
	"github.com/burst-hpc/burst/cmd/internal/endpoint"
)

type pricesOptions struct {
	config string
	pool   string
	sort   string
	json   bool
}

func pricesCommand() *cobra.Command {
	var o pricesOptions
	cmd := &cobra.Command{
		Use:   "prices [--pool POOL] [--sort price|price-per-core|type]",
		Short: "Show what the pools' instances cost",
		Long: "Show what the instances cost that the pools may buy: by the provider's price_table, else by the cloud's word;\n" +
			"of all clouds in one table, with how each counts the time.\n" +
			"Cores are physical ones, but of Vultr's cloud compute vCPUs, which may be threads of one core: they are marked so,\n" +
			"and what one costs is not to be compared with a core. Memory is what the cloud advertises.\n\n" +
			"Exit codes: 0 done, 1 failed, 2 wrong usage or configuration.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.config = configFlag(cmd)
			return runPrices(cmd.Context(), streams{cmd.OutOrStdout(), cmd.ErrOrStderr()}, o)
		},
	}
	cmd.Flags().StringVar(&o.pool, "pool", "", "only this `pool`'s")
	cmd.Flags().StringVar(&o.sort, "sort", "", "by price, price-per-core or type (default: as the configuration has them)")
	cmd.Flags().BoolVar(&o.json, "json", false, "print JSON")
	return cmd
}

// priced is one line of burst prices. What is not known is zero, and left out.
type priced struct {
	Pool     string `json:"pool"`
	Provider string `json:"provider"`
	cloud.Offering
	USDPerHour float64   `json:"usd_per_hour,omitzero"`
	Billed     billed    `json:"billed"`
	Date       time.Time `json:"date,omitzero"` // when it cost so
	Source     string    `json:"source,omitzero"`
	Cores      int       `json:"cores,omitzero"`
	VCPUs      bool      `json:"cores_are_vcpus,omitzero"` // Cores and PerCore are of vCPUs
	MemoryMiB  int       `json:"memory_mib,omitzero"`
	PerCore    float64   `json:"usd_per_core_hour,omitzero"`
}

// billed is how the cloud counts an instance's time, in seconds. What is zero there is not.
type billed struct {
	Unit  float64 `json:"unit_seconds"` // each that is begun is charged
	Least float64 `json:"least_seconds,omitzero"`
	Month float64 `json:"month_seconds,omitzero"` // of an instance in a calendar month at most
	text  string
}

func billedBy(inc price.Increment) billed {
	return billed{inc.Unit.Seconds(), inc.Min.Seconds(), inc.Month.Seconds(), inc.String()}
}

func runPrices(ctx context.Context, s streams, o pricesOptions) error {
	if o.sort != "" && !slices.Contains([]string{"price", "price-per-core", "type"}, o.sort) {
		return cli.UsageError(fmt.Errorf("--sort %q is not known", o.sort), "write price, price-per-core or type")
	}
	cfg, err := config.Load(endpoint.Path(o.config))
	if err != nil {
		return err
	}
	pools := slices.DeleteFunc(cfg.Sources(), func(p config.Pool) bool { return o.pool != "" && p.Power.Name != o.pool })
	if len(pools) == 0 && o.pool != "" {
		return cli.UsageError(fmt.Errorf("%s has no pool %s", cfg.Path, o.pool), "burst status names them")
	}
	ctx, cancel := context.WithTimeout(ctx, cloudTimeout)
	defer cancel()
	open := openedOf(cfg)
	var rows []priced
	var failed []error
	for _, p := range pools {
		more, err := pricesOf(ctx, cfg, p, open)
		rows = append(rows, more...)
		if err != nil {
			failed = append(failed, open.explain(fmt.Errorf("prices of pool %s, provider %s: %w", p.Power.Name, p.Power.Provider, err)))
		}
	}
	sortPrices(rows, o.sort)
	if o.json {
		err = writeJSON(s.out, slices.Concat([]priced{}, rows)) // [] where there is none
	} else {
		err = printPrices(s.out, rows)
	}
	return errors.Join(append(failed, err)...)
}

// pricesOf asks what a pool's offerings cost and what they are. With an error
// come those that are known.
func pricesOf(ctx context.Context, cfg *config.Config, p config.Pool, open *opened) ([]priced, error) {
	offerings := p.Power.Fleet.Offerings()
	rows := make([]priced, len(offerings))
	provider, _ := cfg.Provider(p.Power.Provider)
	for i, offering := range offerings {
		rows[i] = priced{Pool: p.Power.Name, Provider: provider.Name, Offering: offering, Billed: billedBy(price.Of(provider.Kind))}
	}
	left, err := fromTable(provider, rows)
	if err != nil {
		return rows, err
	}
	prov, err := open.get(ctx, provider.Name)
	if err != nil {
		return rows, err
	}
	if pricer, ok := prov.(cloud.Pricer); ok && len(left) > 0 {
		known, askErr := pricer.Prices(ctx, left)
		for _, k := range known {
			for i := range rows {
				if rows[i].Offering == k.Offering {
					rows[i].USDPerHour, rows[i].Date, rows[i].Source = k.USDPerHour, k.Date, k.Source
					rows[i].Billed = billedBy(price.Of(provider.Kind).UpTo(k.USDPerHour, k.USDPerMonth))
				}
			}
		}
		err = askErr
	}
	if catalog, ok := prov.(cloud.Catalog); ok {
		types, askErr := catalog.Types(ctx, p.Power.Fleet.Types)
		for _, t := range types {
			for i := range rows {
				if rows[i].Type == t.Name {
					rows[i].Cores, rows[i].VCPUs, rows[i].MemoryMiB = t.Cores, t.CoresAreVCPUs, t.MemoryMiB
				}
			}
		}
		err = errors.Join(err, askErr)
	}
	for i, r := range rows {
		if r.Cores > 0 && r.USDPerHour > 0 {
			rows[i].PerCore = r.USDPerHour / float64(r.Cores)
		}
	}
	return rows, err
}

// fromTable fills in the prices of the site's own table, and returns the
// offerings that it does not have.
func fromTable(provider config.Provider, rows []priced) ([]cloud.Offering, error) {
	var table price.Table
	var err error
	switch {
	case provider.PriceTable != "":
		table, err = price.Load(provider.PriceTable)
	case provider.Kind == "local":
		table, err = price.Local()
	}
	if err != nil {
		return nil, err
	}
	var left []cloud.Offering
	for i, r := range rows {
		p, ok := table.Price(r.Offering)
		if !ok {
			left = append(left, r.Offering)
			continue
		}
		rows[i].USDPerHour, rows[i].Date, rows[i].Source = p.USDPerHour, p.Date, "table"
	}
	return left, nil
}

// sortPrices puts what is not known last.
func sortPrices(rows []priced, by string) {
	last := func(usd float64) float64 {
		if usd == 0 {
			return 1e18
		}
		return usd
	}
	slices.SortStableFunc(rows, func(a, b priced) int {
		switch by {
		case "price":
			return cmp.Compare(last(a.USDPerHour), last(b.USDPerHour))
		case "price-per-core":
			return cmp.Compare(last(a.PerCore), last(b.PerCore))
		case "type":
			return strings.Compare(a.Type, b.Type)
		}
		return 0
	})
}

func printPrices(w io.Writer, rows []priced) error {
	table := [][]string{{"POOL", "PROVIDER", "TYPE", "ZONE", "MARKET", "USD/HOUR", "BILLED BY", "CORES", "MEMORY", "USD/CORE-HOUR", "DATE", "SOURCE"}}
	for _, r := range rows {
		day, memory := "-", "-"
		cores, perCore := orDash(strings.TrimPrefix(strconv.Itoa(r.Cores), "0")), usd(r.PerCore)
		if r.VCPUs && r.Cores > 0 {
			cores += " vCPU"
			if r.PerCore > 0 {
				perCore += " (vCPU)"
			}
		}
		if !r.Date.IsZero() {
			day = r.Date.UTC().Format(time.DateOnly)
		}
		if r.MemoryMiB > 0 {
			memory = strconv.FormatFloat(float64(r.MemoryMiB)/1024, 'f', -1, 64) + "G"
		}
		table = append(table, []string{r.Pool, r.Provider, r.Type, orDash(r.Zone), string(r.Market), usd(r.USDPerHour), r.Billed.text,
			cores, memory, perCore, day, orDash(r.Source)})
	}
	return writeTable(w, table)
}

func usd(v float64) string {
	if v == 0 {
		return "-"
	}
	return strconv.FormatFloat(v, 'f', 4, 64)
}

func orDash(text string) string { return cmp.Or(text, "-") }
