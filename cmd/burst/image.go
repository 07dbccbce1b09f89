package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/cmd/internal/cli"
	"github.com/burst-hpc/burst/cmd/internal/config"
	"github.com/burst-hpc/burst/cmd/internal/endpoint"
	"github.com/burst-hpc/burst/cmd/internal/imaging"
)

const imageExits = "\n\nExit codes: 0 done, 1 failed, 2 wrong usage or configuration."

func imageCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "image",
		Short: "Make a machine image for a pool, list those made, delete them",
		Long: "Make a machine image for a pool, so that its nodes need not install themselves; list\n" +
			"those that Burst has made, and delete them." + imageExits,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			return cli.UsageError(errors.New("burst image needs build, list or delete"), "see burst image --help")
		},
	}
	cmd.AddCommand(imageBuildCommand(), imageListCommand(), imageDeleteCommand())
	return cmd
}

type imageBuildOptions struct {
	config, pool, provider string
	within                 time.Duration
	overBudget, json       bool
}

func imageBuildCommand() *cobra.Command {
	var o imageBuildOptions
	cmd := &cobra.Command{
		Use:   "build --pool POOL",
		Short: "Make an image of a pool's node, set up but not joined",
		Long: "Launch one instance of the pool, on demand; have it install the packages\n" +
			"and run the setup commands of the pool's nodes, with BURST_IMAGE=1; remove from it what\n" +
			"two instances must not share (keys, machine id, logs); have the cloud make an image of\n" +
			"it; end it; print what to write into the pool. An interrupt ends the instance and removes\n" +
			"the image that was begun. burstd must run on this host: it ends the instance if this\n" +
			"command is killed. Nothing is launched when the cluster's budget has nothing left. burstd's\n" +
			"user may." + imageExits,
		Example: "  sudo -u slurm burst image build --pool c6i",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.config = configFlag(cmd)
			return runImageBuild(cmd.Context(), streams{cmd.OutOrStdout(), cmd.ErrOrStderr()}, o)
		},
	}
	cmd.Flags().StringVar(&o.pool, "pool", "", "the `pool` whose nodes the image is for")
	cmd.Flags().StringVar(&o.provider, "provider", "", "the `provider` of the pool's that the image is for (default: its first)")
	cmd.Flags().DurationVar(&o.within, "within", 2*time.Hour, "end the instance after this `time`, whatever has come of it: from 10m to 12h")
	cmd.Flags().BoolVar(&o.overBudget, "over-budget", false, "build also when the cluster's budget has nothing left, or is not known")
	cmd.Flags().BoolVar(&o.json, "json", false, "print the image as JSON")
	return cmd
}

// builtImage is what burst image build --json prints.
type builtImage struct {
	cloud.Image
	Provider string             `json:"provider"`
	Instance string             `json:"instance"`
	USD      *float64           `json:"usd"`     // of the instance; null: its price is not known
	Seconds  map[string]float64 `json:"seconds"` // of the stages

	slow string // why nodes of it boot slowly; "": they need no longer than they have
}

func runImageBuild(ctx context.Context, s streams, o imageBuildOptions) error {
	cfg, err := config.Load(endpoint.Path(o.config))
	if err != nil {
		return err
	}
	n := slices.IndexFunc(cfg.Pools, func(p config.Pool) bool { return p.Power.Name == o.pool })
	switch {
	case o.pool == "":
		return cli.UsageError(errors.New("--pool is missing: it says for whose nodes the image is"), "see burst image build --help")
	case n < 0:
		return cli.UsageError(fmt.Errorf("%s has no pool %s", cfg.Path, printable(o.pool)), "see [pool.NAME] there")
	case o.within < imaging.Least || o.within > imaging.Most:
		return cli.UsageError(fmt.Errorf("--within %s is not from %s to %s", o.within, imaging.Least, imaging.Most), "see burst image build --help")
	}
	pool, err := sourceOf(cfg.Pools[n], o.provider)
	if err != nil {
		return err
	}
	if all := cfg.Pools[n].Providers(); o.provider == "" && len(all) > 1 {
		fmt.Fprintf(s.err, "pool %s buys of %s; this image is for %s, --provider makes one for another\n", o.pool, strings.Join(all, ", "), all[0])
	}
	open := openedOf(cfg)
	provider, err := open.get(ctx, pool.Power.Provider)
	if err != nil {
		return err
	}
	if _, ok := provider.(cloud.Imager); !ok {
		return noImager(cfg, pool.Power.Provider)
	}
	log := slog.New(slog.NewTextHandler(s.err, &slog.HandlerOptions{Level: slog.LevelWarn}))
	way := imaging.Way{Pool: pool, Provider: provider, State: cfg.Endpoint.State, Limit: o.within, Log: log}
	cluster, err := builtFor(cfg)
	if err != nil {
		return err
	}
	if err := mayBuild(ctx, cfg, pool, cluster); err != nil {
		return err
	}
	if err := sameAccount(ctx, s.err, cfg, pool.Power.Provider, provider); err != nil {
		return err
	}
	if err := roomForBuild(ctx, s.err, cfg, o.overBudget); err != nil {
		return err
	}
	allowed := func(ctx context.Context) error {
		if err := mayBuild(ctx, cfg, pool, cluster); !errors.Is(err, errFails) {
			return err
		}
		return nil
	}
	request, err := way.Request(ctx, cluster)
	if e := (*cloud.Error)(nil); errors.As(err, &e) && e.Kind != cloud.Invalid {
		return open.explain(fmt.Errorf("choosing the instance: %w", err))
	}
	if err != nil {
		return cli.UsageError(fmt.Errorf("no image can be made for pool %s: %w", o.pool, err), "docs/images.md says what pools can have images made")
	}
	if pool.SSH != nil {
		if err := pool.SSH.Auth.Check(); err != nil {
			return fmt.Errorf("the instance could not be set up over SSH: %w", err)
		}
	}
	line := &imageLine{w: s.err, tty: isTerminal(s.err), began: time.Now()}
	result, err := imaging.Build(ctx, imaging.Config{Provider: provider, Request: request, Leases: imaging.LeasesIn(cfg.Endpoint.State),
		Within: o.within, Allowed: allowed, SetUp: way.SetUp, Report: line.report})
	line.end()
	usd := tellCost(context.WithoutCancel(ctx), s.err, built{cfg, pool, provider, result})
	if result.Image.State == cloud.ImageAvailable {
		if werr := tellImage(s.out, o, builtImage{Image: result.Image, Provider: pool.Power.Provider, Instance: result.Instance, USD: usd,
			slow: slowImage(cfg, pool, result.Image.ID)}, result.Took); werr != nil {
			err = errors.Join(err, werr)
		}
	}
	return buildError(ctx, s.err, err)
}

// noImager is the error of a provider that makes no images.
func noImager(cfg *config.Config, name string) error {
	p, _ := cfg.Provider(name)
	why := "its clouds make none that Burst knows how to ask for"
	if p.Kind == "local" {
		why = "its nodes are processes of this host, and have what it has"
	}
	return cli.UsageError(fmt.Errorf("provider %s (%s) has no machine images: %s", name, p.Kind, why), "docs/images.md says which providers have")
}

// tellImage prints what has been made.
func tellImage(w io.Writer, o imageBuildOptions, b builtImage, took map[imaging.Stage]time.Duration) error {
	b.Seconds = map[string]float64{}
	total := time.Duration(0)
	for stage, t := range took {
		b.Seconds[string(stage)] = t.Round(time.Millisecond).Seconds()
		total += t
	}
	if o.json {
		return writeJSON(w, b)
	}
	var parts []string
	for _, stage := range []imaging.Stage{imaging.Booting, imaging.SettingUp, imaging.Imaging} {
		parts = append(parts, fmt.Sprintf("%s %s", stage, took[stage].Round(time.Second)))
	}
	where := fmt.Sprintf("[pool.%s]", o.pool)
	if o.provider != "" {
		where = fmt.Sprintf("what pool %s says of provider %s", o.pool, b.Provider)
	}
	text := fmt.Sprintf("%s is made, in %s (%s). For nodes of it, write into %s:\n\nimage = %q\n",
		printable(b.ID), total.Round(time.Second), strings.Join(parts, ", "), where, b.ID)
	if b.slow != "" {
		text += fmt.Sprintf("\nand, as %s, into [pool.%s]:\n\nresume_timeout = %q\n\nThat is Slurm's too: run \"burst genconf\" again.\n", b.slow, o.pool, inToml(config.SlowTimeout))
	}
	_, err := io.WriteString(w, text)
	return err
}

// slowImage says why nodes of the image need longer to boot than those of the pool have now.
func slowImage(cfg *config.Config, pool config.Pool, id string) string {
	pool.Power.Image = id
	if pool.Slurm.ResumeTimeout >= config.SlowTimeout {
		return ""
	}
	return cfg.SlowBoot(pool)
}

// buildError shows the output of a failing setup line before the error that names it.
func buildError(ctx context.Context, w io.Writer, err error) error {
	if err == nil {
		return nil
	}
	var setup *imaging.SetupError
	if errors.As(err, &setup) {
		for line := range strings.Lines(setup.Tail) {
			fmt.Fprintf(w, "  %s\n", printable(strings.TrimRight(line, "\n")))
		}
		err = fmt.Errorf("the setup has failed, no image is made: %w", err)
		if strings.HasPrefix(setup.Why, "setup line ") { // else it is a step of the bootstrap's own
			err = cli.WithHint(err, "mend the line in the pool's setup, and build again")
		}
		return err
	}
	if e := (*cloud.Error)(nil); errors.As(err, &e) && e.Kind == cloud.Capacity {
		return cli.WithHint(fmt.Errorf("no image is made, as there is no instance to make it of: %w", err), "build again later, or with another type or zone in the pool; docs/images.md says which type is taken")
	}
	if errors.Is(err, imaging.ErrUnknown) {
		return cli.WithHint(err, "nothing is wrong with the pool's setup as far as is known: build again")
	}
	if ctx.Err() != nil {
		return fmt.Errorf("interrupted, no image is made: %w", err)
	}
	return err
}

// imageLine shows how far a build is: in one line of a terminal, else in a line for
// each stage and each quarter of the image.
type imageLine struct {
	w     io.Writer
	tty   bool
	began time.Time
	stage imaging.Stage
	shown int // of the per cent
	drawn bool
	said  string // the last problem
}

var stageWords = map[imaging.Stage]string{
	imaging.Launching: "launching an instance", imaging.Booting: "waiting for it to run", imaging.SettingUp: "setting it up",
	imaging.Imaging: "making the image", imaging.Ending: "ending the instance",
}

func (l *imageLine) report(p imaging.Progress) {
	if p.Problem != nil {
		if text := printable(p.Problem.Error()); text != l.said {
			l.end()
			l.said = text
			fmt.Fprintf(l.w, "%s; it is tried again\n", text)
		}
		return
	}
	fresh := p.Stage != l.stage
	if fresh {
		l.end()
		l.stage, l.shown = p.Stage, 0
	}
	what := stageWords[p.Stage]
	for _, id := range []string{p.Instance, p.Image} {
		if id != "" {
			what += " " + printable(id)
		}
	}
	if l.tty {
		const width = 30
		bar := ""
		if p.Percent >= 0 {
			full := width * min(p.Percent, 100) / 100
			bar = fmt.Sprintf(" [%s%s] %d %%", strings.Repeat("#", full), strings.Repeat(".", width-full), p.Percent)
		}
		fmt.Fprintf(l.w, "\r%s %s%s ", time.Since(l.began).Round(time.Second), what, bar)
		l.drawn = true
		return
	}
	if fresh || p.Percent >= l.shown+25 {
		if p.Percent >= 0 {
			l.shown = p.Percent
			what += fmt.Sprintf(", %d %%", p.Percent)
		}
		fmt.Fprintf(l.w, "%s %s\n", time.Since(l.began).Round(time.Second), what)
	}
}

// end leaves the line.
func (l *imageLine) end() {
	if l.drawn {
		fmt.Fprintln(l.w)
	}
	l.drawn = false
}
