package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/burst-hpc/burst/cmd/internal/demo"
)

type demoOptions struct {
	dir  string
	heat string
	json string
	end  string
	keep bool
}

func demoCommand() *cobra.Command {
	var o demoOptions
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Run a real Slurm cluster that bursts on this machine and survives two evictions",
		Long: "Run a real Slurm cluster on this machine, of one node of the site and cloud nodes, all of them processes.\n" +
			"Jobs wait for the site's node; a rule takes them to the cloud, within a budget, but for one that says\n" +
			"that it stays. One of them runs on four nodes there, is evicted twice, and must end with the result of\n" +
			"an uninterrupted run. Takes about a minute and a half, needs no root and no cloud, and leaves nothing\n" +
			"behind.\n\n" +
			"Exit codes: 0 all is as it must be, 1 it is not, 2 wrong usage.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.end != "" {
				return demo.End(o.end, cmd.OutOrStdout())
			}
			return runDemo(cmd.Context(), o)
		},
	}
	cmd.Flags().StringVar(&o.dir, "dir", "build/demo", "`folder` of the cluster; it must be new, empty, or of an earlier demo")
	cmd.Flags().StringVar(&o.heat, "heat", "", "the MPI program heat, a `file` (default: beside the folder of burst, then in PATH)")
	cmd.Flags().StringVar(&o.json, "json", "", "write the report to a `file`")
	cmd.Flags().BoolVar(&o.keep, "keep", false, "leave the cluster up and print how to use it")
	cmd.Flags().StringVar(&o.end, "end", "", "end the cluster that --keep left in this `folder`")
	cmd.MarkFlagsMutuallyExclusive("end", "keep")
	return cmd
}

func runDemo(ctx context.Context, o demoOptions) error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("finding the programs: %w", err)
	}
	// A closed pipe is an error of a write, after which all is cleaned up, and
	// not a signal that ends us at once. Unlike an ignored signal, children do not inherit it.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	return demo.Run(ctx, demo.Options{
		Dir: o.dir, Bin: filepath.Dir(self), Heat: o.heat, Keep: o.keep, JSON: o.json, Out: os.Stdout, TTY: isTerminal(os.Stdout),
	})
}
