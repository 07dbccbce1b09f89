package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/burst-hpc/burst/cmd/internal/bench"
	"github.com/burst-hpc/burst/cmd/internal/cli"
)

type benchOptions struct {
	only []string
	json string
}

// benchCommand is for developers, and hidden: it starts clusters and measures.
func benchCommand() *cobra.Command {
	var o benchOptions
	cmd := &cobra.Command{
		Use:    "bench [--only NAME,...] [--json FILE]",
		Short:  "Run the benchmarks",
		Hidden: true,
		Long: "Run the benchmarks, one after the other, and print a line for each: value, goal, spread, method.\n" +
			"Those that take minutes, container-…, cost-…, ft-preemptive-… and ulfm-…, are run only if --only names them.\n\n" +
			"Exit codes: 0 done, also when a goal is missed, 1 a benchmark failed, 2 wrong usage.",
		Example: "  burst bench --only hostlist-100k --json build/bench.json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runBench(cmd.Context(), cmd.OutOrStdout(), o)
		},
	}
	cmd.Flags().StringSliceVar(&o.only, "only", nil, "run only these, by `name`")
	cmd.Flags().StringVar(&o.json, "json", "", "write the results to `file` too")
	return cmd
}

func runBench(ctx context.Context, w io.Writer, o benchOptions) error {
	err := bench.Run(ctx, o.only, w, o.json)
	if errors.Is(err, bench.ErrUnknown) {
		return cli.UsageError(err, "without --only all are run but those that take minutes")
	}
	return err
}

// benchResume1000Command is the child of a benchmark that measures memory.
func benchResume1000Command() *cobra.Command {
	return &cobra.Command{
		Use:    "bench-resume-1000 FOLDER",
		Short:  "Resume 1,000 simulated nodes, with the journal in an empty folder, and print figures as JSON",
		Hidden: true,
		Args:   cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			figures, err := bench.Scale(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			return writeJSON(cmd.OutOrStdout(), figures)
		},
	}
}

// benchStorm1000Command is the child of a benchmark that measures memory.
func benchStorm1000Command() *cobra.Command {
	return &cobra.Command{
		Use:    "bench-storm-1000 FOLDER",
		Short:  "Give 1,000 notices at once, ten times, with the journal in an empty folder, and print figures as JSON",
		Hidden: true,
		Args:   cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			figures, err := bench.Storms(cmd.Context(), args[0], bench.StormCount)
			if err != nil {
				return err
			}
			return writeJSON(cmd.OutOrStdout(), figures)
		},
	}
}

// benchAWSCommand is the child of the benchmarks on a fake EC2.
func benchAWSCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "bench-aws FOLDER ENDPOINT NODES...",
		Short:  "Resume simulated nodes, so many in each pool, by the EC2 at an endpoint, and print figures as JSON",
		Hidden: true,
		Args:   cobra.MinimumNArgs(3),
		RunE: func(cmd *cobra.Command, args []string) error {
			var groups []int
			for _, text := range args[2:] {
				n, err := strconv.Atoi(text)
				if err != nil || n < 1 {
					return cli.UsageError(fmt.Errorf("%q is no number of nodes", text), "write one above 0 for each pool")
				}
				groups = append(groups, n)
			}
			figures, err := bench.AWS(cmd.Context(), args[0], args[1], groups)
			if err != nil {
				return err
			}
			return writeJSON(cmd.OutOrStdout(), figures)
		},
	}
}

// benchSlurmCommand is what a burstd that is measured runs in place of Slurm's commands.
func benchSlurmCommand() *cobra.Command {
	return &cobra.Command{
		Use:                "bench-slurm SOCKET COMMAND [ARGUMENT...]",
		Short:              "Have a simulated slurmctld answer one of Slurm's commands",
		Hidden:             true,
		DisableFlagParsing: true,
		Args:               cobra.MinimumNArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			code, err := bench.Shim(args[0], args[1:], cmd.OutOrStdout(), cmd.ErrOrStderr())
			if err == nil && code != 0 {
				os.Exit(code) // the answer has said why
			}
			return err
		},
	}
}
