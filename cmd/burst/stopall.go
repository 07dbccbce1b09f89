package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/cmd/internal/api"
	"github.com/burst-hpc/burst/cmd/internal/cli"
	"github.com/burst-hpc/burst/cmd/internal/config"
	"github.com/burst-hpc/burst/cmd/internal/endpoint"
	"github.com/burst-hpc/burst/cmd/internal/stopall"
)

type stopAllOptions struct {
	config, pool, provider, cluster string
	yes, json                       bool
	in                              io.Reader
}

func stopAllCommand() *cobra.Command {
	var o stopAllOptions
	cmd := &cobra.Command{
		Use:   "stop-all [--pool POOL] [--provider PROVIDER] [--yes]",
		Short: "Terminate every instance of this cluster",
		Long: "Terminate every instance of this cluster, and with it the jobs that run there. The\n" +
			"clouds are asked by the cluster's tag: neither burstd nor Slurm nor the journal is\n" +
			"needed. burstd launches nothing from then on, also if it is away now, until burst\n" +
			"resume; with --pool or --provider only if it answers, until burst pool start. The\n" +
			"command returns when the clouds say that all are gone, and may be interrupted and\n" +
			"repeated. Root has burstd's credentials: those that burstd's unit sets are taken\n" +
			"from there, if they are not set here.\n\n" +
			"Exit codes: 0 done, 1 something is left, or was not confirmed, 2 wrong usage or\n" +
			"configuration.",
		Example: "  burst stop-all\n  burst stop-all --pool c6i --yes\n  burst stop-all --cluster-id 0f3a5c7e9b1d2f48   # when the state folder is lost",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.config, o.in = configFlag(cmd), cmd.InOrStdin()
			return runStopAll(cmd.Context(), streams{cmd.OutOrStdout(), cmd.ErrOrStderr()}, o)
		},
	}
	cmd.Flags().StringVar(&o.pool, "pool", "", "only this `pool`'s instances")
	cmd.Flags().StringVar(&o.provider, "provider", "", "only this `provider`'s instances")
	cmd.Flags().StringVar(&o.cluster, "cluster-id", "", "the cluster's `id` (default: from burstd's state folder, or burstd)")
	cmd.Flags().BoolVar(&o.yes, "yes", false, "do not ask")
	cmd.Flags().BoolVar(&o.json, "json", false, "print what became of the instances as JSON")
	return cmd
}

// button is one press of the red button.
type button struct {
	stopAllOptions
	streams
	cfg       *config.Config
	open      *opened
	providers map[string]cloud.Provider
	failed    map[string]error // providers that could not be opened
	client    *api.Client
	named     bool              // the cluster's id was given
	files     []api.FilesOn     // as burstd says, if it answers
	left      map[string]string // the same, of providers that are not in burst.toml
}

func runStopAll(ctx context.Context, s streams, o stopAllOptions) error {
	if !o.yes && !isTerminal(o.in) {
		return errNoTerminal("burst stop-all")
	}
	cfg, err := config.Load(endpoint.Path(o.config))
	if err != nil {
		return err
	}
	if _, ok := cfg.Provider(o.provider); o.provider != "" && !ok {
		return cli.UsageError(fmt.Errorf("%s has no provider %s", cfg.Path, o.provider), "see [provider.NAME] there")
	}
	b := &button{stopAllOptions: o, streams: s, cfg: cfg, open: openedOf(cfg), providers: map[string]cloud.Provider{}, failed: map[string]error{},
		client: api.NewClient(cfg.Endpoint.Socket)}
	defer b.client.Close()
	for _, p := range cfg.Providers {
		if o.provider != "" && p.Name != o.provider {
			continue
		}
		if provider, err := b.open.get(ctx, p.Name); err != nil {
			b.failed[p.Name] = err
		} else {
			b.providers[p.Name] = provider
		}
	}
	b.foreign(ctx)
	if b.named = b.cluster != ""; !b.named {
		if b.cluster, err = b.findCluster(ctx); err != nil {
			return err
		}
	}
	return b.press(ctx)
}

// foreign takes out providers of which this command has another account's credentials than the burstd that answers: it
// would find none of burstd's instances there, and say so.
func (b *button) foreign(ctx context.Context) {
	hearing, cancel := context.WithTimeout(ctx, burstdTimeout)
	defer cancel()
	status, err := b.client.Status(hearing)
	if err != nil {
		return // it may be down: the button works without it
	}
	for name, provider := range b.providers {
		a, can := provider.(cloud.Accountant)
		if !can || status.Accounts[name] == "" {
			continue
		}
		asking, cancel := context.WithTimeout(ctx, accountTimeout)
		here, err := a.Account(asking)
		cancel()
		if err == nil && status.Accounts[name] != api.AccountMark(here) {
			b.failed[name] = fmt.Errorf("the credentials here are of account %s, and burstd's of another: give this command burstd's", printable(here))
			delete(b.providers, name)
		}
	}
}

func (b *button) press(ctx context.Context) error {
	what := stopall.Options{Cluster: b.cluster}
	if b.pool != "" {
		what.Wanted = func(i cloud.Instance) bool { return b.poolOf(i) == b.pool }
	}
	said := make(chan error, 1)
	go func() { said <- b.another(ctx) }()
	found, unasked := stopall.List(ctx, b.providers, what)
	another := <-said
	if ctx.Err() != nil {
		return errors.New("interrupted; nothing has been done")
	}
	if another != nil {
		return another
	}
	for _, name := range slices.Sorted(maps.Keys(unasked)) {
		fmt.Fprintf(b.err, "burst: warning: provider %s could not be asked, and is asked again: %s\n", name, printable(unasked[name].Error()))
	}
	for _, name := range slices.Sorted(maps.Keys(b.failed)) {
		unasked[name] = b.failed[name]
		fmt.Fprintf(b.err, "burst: warning: provider %s could not be asked: its instances live on: %s\n", name, printable(b.failed[name].Error()))
	}
	if err := b.show(ctx, found, slices.Sorted(maps.Keys(unasked))); err != nil {
		return err
	}
	none := !slices.ContainsFunc(slices.Collect(maps.Values(found)), func(all []cloud.Instance) bool { return len(all) > 0 })
	known := b.pool == "" || slices.ContainsFunc(b.cfg.Pools, func(p config.Pool) bool { return p.Power.Name == b.pool })
	if none && len(unasked) == 0 && !known {
		return cli.WithHint(fmt.Errorf("there is no instance of a pool %s, and %s has no such pool: nothing has been done", printable(b.pool), b.cfg.Path),
			"without --pool the command shows which pools the instances were launched for")
	}
	if none && len(unasked) == 0 { // a wrong id has none either
		text := fmt.Sprintf("If you expect some: is the id %s this site's? The clouds have instances of\n", printable(b.cluster))
		if err := b.showClusters(ctx, text); err != nil {
			return err
		}
	}
	if !b.yes {
		if err := confirm(ctx, b.in, b.err, b.cfg.Cluster, "yes"); err != nil {
			return err
		}
	}
	burstd, quieted := b.quiet(ctx)
	fmt.Fprintln(b.err, burstd)
	if quieted {
		what.Busy = b.launching
	}
	progress := &progressLine{w: b.err, tty: isTerminal(b.err), found: found}
	what.Report = progress.report
	results := stopall.Run(ctx, b.providers, what)
	progress.end()
	for _, name := range slices.Sorted(maps.Keys(b.failed)) {
		results = append(results, stopall.Result{Provider: name, Err: b.failed[name]})
	}
	return b.tell(burstd, results, context.Cause(ctx))
}

// poolOf is the pool that has the instance's node, else, where no pool has, the one that it was launched for:
// a pool may have got another name since, and its name may be another's by now.
func (b *button) poolOf(i cloud.Instance) string {
	for _, p := range b.cfg.Pools {
		if i.Node != "" && slices.Contains(p.Power.Nodes, i.Node) {
			return p.Power.Name
		}
	}
	return i.Pool
}

// show says what will end, and what it costs, as far as the providers could be asked.
func (b *button) show(ctx context.Context, found map[string][]cloud.Instance, unasked []string) error {
	ctx, cancel := context.WithTimeout(ctx, 15*time.Second) // the price of a wish to know the price
	defer cancel()
	rows := [][]string{{"PROVIDER", "POOL", "INSTANCES", "USD/HOUR"}}
	total := 0
	for _, name := range slices.Sorted(maps.Keys(found)) {
		usdOf := b.prices(ctx, name, found[name])
		pools := map[string][]cloud.Instance{}
		for _, i := range found[name] {
			pools[b.poolOf(i)] = append(pools[b.poolOf(i)], i)
		}
		for _, pool := range slices.Sorted(maps.Keys(pools)) {
			sum, known := 0.0, true
			for _, i := range pools[pool] {
				sum += usdOf[i.Offering]
				known = known && usdOf[i.Offering] > 0
			}
			if !known {
				sum = 0
			}
			total += len(pools[pool])
			rows = append(rows, []string{name, orDash(pool), fmt.Sprint(len(pools[pool])), usd(sum)})
		}
	}
	whose := fmt.Sprintf("cluster %s (id %s)", printable(b.cfg.Cluster), printable(b.cluster))
	switch all := len(b.providers) + len(b.failed); {
	case len(b.providers) == 0:
		fmt.Fprintf(b.err, "No provider could be asked: no instance of %s will be terminated.\n", whose)
	case len(unasked) == all:
		fmt.Fprintf(b.err, "No provider could be asked: how many instances of %s there are is not known. Those of providers that\nanswer yet will be terminated, with all jobs on them.\n", whose)
	case len(unasked) > 0:
		fmt.Fprintf(b.err, "%d instances of %s will be terminated, with all jobs on them; so will those that\nare being launched now. How many provider %s has is not known.\n",
			total, whose, strings.Join(unasked, ", "))
	default:
		fmt.Fprintf(b.err, "%d instances of %s will be terminated, with all jobs on them; so will those that\nare being launched now.\n", total, whose)
	}
	for _, p := range b.cfg.Pools {
		if p.Slurm.Server && slices.ContainsFunc(found[p.Power.Provider], func(i cloud.Instance) bool { return b.poolOf(i) == p.Power.Name }) {
			fmt.Fprintf(b.err, "Pool %s serves files: what is in %s is lost.\n", p.Power.Name, p.Boot.Export.Folder)
		}
	}
	b.showFiles(found)
	if len(rows) == 1 && len(unasked) > 0 {
		return nil
	}
	return writeTable(b.err, rows)
}

// prices are those of the instances' offerings, as far as they are known.
func (b *button) prices(ctx context.Context, name string, all []cloud.Instance) map[cloud.Offering]float64 {
	var rows []priced
	seen := map[cloud.Offering]bool{}
	for _, i := range all {
		if !seen[i.Offering] {
			seen[i.Offering] = true
			rows = append(rows, priced{Offering: i.Offering})
		}
	}
	by := map[cloud.Offering]float64{}
	provider, _ := b.cfg.Provider(name)
	left, err := fromTable(provider, rows)
	if err != nil {
		return by // a table that cannot be read must not be in the way
	}
	for _, r := range rows {
		by[r.Offering] = r.USDPerHour
	}
	if pricer, ok := b.providers[name].(cloud.Pricer); ok && len(left) > 0 {
		known, _ := pricer.Prices(ctx, left) // what is not known is shown so
		for _, k := range known {
			by[k.Offering] = k.USDPerHour
		}
	}
	return by
}
