package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/burst-hpc/burst/cmd/internal/api"
	"github.com/burst-hpc/burst/cmd/internal/cli"
	"github.com/burst-hpc/burst/cmd/internal/config"
	"github.com/burst-hpc/burst/cmd/internal/endpoint"
	"github.com/burst-hpc/burst/cmd/internal/resumetest"
	"github.com/burst-hpc/burst/slurm"
	"github.com/burst-hpc/burst/slurm/hostlist"
)

type resumeTestOptions struct {
	config            string
	noJob, keep, json bool
	timeout           time.Duration
	tty               bool // standard output is a terminal
}

func resumeTestCommand() *cobra.Command {
	var o resumeTestOptions
	cmd := &cobra.Command{
		Use:   "resume-test NODE",
		Short: "Bring one node up and take it down, and tell each step",
		Long: "Bring one node up and take it down, the way that a job's nodes go: Slurm is asked to power it up, calls burst-resume, and\n" +
			"so on to a job of one task on it and to the end of its instance. Each step is told when it is done: at which second, and how\n" +
			"many it took. It costs what the instance costs. The node has to be a pool's, off, and nobody else's. Whatever ends the test,\n" +
			"the node is Slurm's, which powers it down when it has been idle for its partition's SuspendTime. Root and SlurmUser may.\n\n" +
			"Exit codes: 0 all steps are done, 1 one has failed, or the node may not be tested now, 2 wrong usage or configuration.",
		Example: "  burst resume-test c6i-001\n  burst resume-test c6i-001 --no-job --json",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if names, err := hostlist.Expand(args[0]); err != nil || len(names) != 1 {
				return cli.UsageError(fmt.Errorf("%s is not one node", printable(args[0])), "one node is tested at a time; see burst resume-test --help")
			}
			if o.timeout < 0 {
				return cli.UsageError(fmt.Errorf("--timeout is %s", o.timeout), "see burst resume-test --help")
			}
			o.config, o.tty = configFlag(cmd), isTerminal(cmd.OutOrStdout())
			client, err := dial(cmd)
			if err != nil {
				return err
			}
			defer client.Close()
			return runResumeTest(cmd.Context(), streams{cmd.OutOrStdout(), cmd.ErrOrStderr()}, client, o, args[0])
		},
	}
	cmd.Flags().BoolVar(&o.noJob, "no-job", false, "run no job on the node")
	cmd.Flags().BoolVar(&o.keep, "keep", false, "leave the node up, to look at it; Slurm powers it down when it has been idle")
	cmd.Flags().DurationVar(&o.timeout, "timeout", 0, "`time` for all steps (default: twice the pool's resume_timeout and suspend_timeout, and 5m)")
	cmd.Flags().BoolVar(&o.json, "json", false, "print JSON, at the end")
	return cmd
}

func runResumeTest(ctx context.Context, s streams, client *api.Client, o resumeTestOptions, node string) error {
	cfg, err := config.Load(endpoint.Path(o.config))
	if err != nil {
		return err
	}
	at := slices.IndexFunc(cfg.Pools, func(p config.Pool) bool { return slices.Contains(p.Power.Nodes, node) })
	if at < 0 {
		return cli.UsageError(fmt.Errorf("no pool of %s has the node %s", cfg.Path, printable(node)), "burst nodes lists those that are Burst's")
	}
	pool := cfg.Pools[at]
	if pool.Slurm.Server {
		return cli.WithHint(fmt.Errorf("%s serves files to other nodes: it is powered up with them, and runs no job", node), "test a node of a pool that mounts from it: it comes up first")
	}
	if o.timeout == 0 {
		o.timeout = 2*(pool.Slurm.ResumeTimeout+pool.Slurm.SuspendTimeout) + 5*time.Minute
	}
	show := &steps{out: s.out, tty: o.tty && !o.json, began: time.Now(), quiet: o.json,
		head: fmt.Sprintf("testing node %s of pool %s, partition %s, for at most %s\n", node, pool.Power.Name, pool.Slurm.Partition, o.timeout)}
	ro := resumetest.Options{
		Node: node, Pool: pool.Power.Name, Partition: pool.Slurm.Partition, Job: !o.noJob, Keep: o.keep, Timeout: o.timeout, API: client,
		Runner: slurm.Exec{Conf: cfg.Endpoint.SlurmConf, BinDir: cfg.Endpoint.SlurmBin},
		Price: func(ctx context.Context, provider, offering string) (float64, error) {
			return priceOf(ctx, cfg, pool, provider, offering)
		},
		Step: show.step, Live: show.live,
	}
	r, err := resumetest.Run(ctx, ro)
	show.clear()
	if o.json && len(r.Steps) > 0 {
		if err := writeJSON(s.out, r); err != nil {
			return err
		}
	}
	var refusal *resumetest.Refusal
	switch {
	case err == nil:
		return show.err
	case errors.As(err, &refusal):
		return err
	case errors.Is(err, slurm.ErrNoNode):
		return cli.WithHint(err, "slurmctld has not read what burst genconf writes: burst genconf --diff says what is missing")
	case r.Error == "": // it had not begun
		return explain(err)
	}
	if !o.json && len(r.Events) > 0 {
		fmt.Fprintln(s.out, "what burstd noted:")
		for _, e := range r.Events {
			fmt.Fprintln(s.out, "  "+printable(e))
		}
	}
	if r.Next != "" {
		return cli.WithHint(err, "%s", r.Next)
	}
	return err
}

// priceOf asks what an hour of an offering costs, written as provider and offering are shown.
func priceOf(ctx context.Context, cfg *config.Config, pool config.Pool, provider, offering string) (float64, error) {
	for _, source := range pool.Sources() {
		if source.Power.Provider != provider {
			continue
		}
		rows, err := pricesOf(ctx, cfg, source, openedOf(cfg))
		for _, r := range rows {
			if r.Offering.String() == offering && r.USDPerHour > 0 {
				return r.USDPerHour, nil
			}
		}
		return 0, err
	}
	return 0, nil
}

// steps shows what is done, and on a terminal below it what is waited for.
type steps struct {
	out        io.Writer
	tty, quiet bool
	began      time.Time
	head       string // above the first line; none where the test has not begun
	shown      bool   // the line of what is waited for
	err        error
}

func (s *steps) print(format string, args ...any) {
	if _, err := fmt.Fprintf(s.out, format, args...); err != nil && s.err == nil {
		s.err = fmt.Errorf("writing: %w", err)
	}
}

func (s *steps) step(st resumetest.Step) {
	if s.quiet {
		return
	}
	s.clear()
	s.begin()
	s.print("%7.1f s  %-8s%-12s%7.1f s  %s\n", st.At, st.State, st.Name, st.Seconds, printable(st.Text))
}

// live is called now and again with what is waited for.
func (s *steps) live(what string) {
	if s.tty {
		s.begin()
		s.print("\r\x1b[K%7.1f s  … %s", time.Since(s.began).Seconds(), what)
		s.shown = true
	}
}

func (s *steps) begin() {
	s.print("%s", s.head)
	s.head = ""
}

func (s *steps) clear() {
	if s.shown {
		s.print("\r\x1b[K")
		s.shown = false
	}
}
