package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/burst-hpc/burst/cmd/internal/cli"
	"github.com/burst-hpc/burst/ft/ckpt"
	"github.com/burst-hpc/burst/slurm"
)

type checkpointOptions struct {
	dir    string
	keep   int
	all    bool
	gone   bool
	older  time.Duration
	dryRun bool
	json   bool
	client *slurm.Client // nil: the host's
}

// checkpointCommand is about generations on disk. None of its commands asks burstd.
func checkpointCommand() *cobra.Command {
	var o checkpointOptions
	cmd := &cobra.Command{
		Use:   "checkpoint",
		Short: "List, verify and prune the checkpoints of jobs; rehearse them",
		Long: "List, verify and prune the checkpoints of jobs, which are in job-JOB/step-STEP of the\n" +
			"directory that dir= names. burstd is not asked.\n\n" +
			"Exit codes: 0 done, 1 failed, 2 wrong usage.",
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			return cli.UsageError(errors.New("checkpoint needs a command"), "list, verify, prune, methods or rehearse: see burst checkpoint --help")
		},
	}
	run := func(do func(context.Context, io.Writer, checkpointOptions, []string) error) func(*cobra.Command, []string) error {
		return func(cmd *cobra.Command, args []string) error {
			return do(cmd.Context(), cmd.OutOrStdout(), o, args)
		}
	}
	list := &cobra.Command{
		Use:   "list [JOB[.STEP] ...]",
		Short: "List checkpoints",
		Long: "List the checkpoints of the jobs or steps, or all that are below the directory, newest\n" +
			"first, with what is not good and why. Files are looked at, not read: see verify.\n\n" +
			"Exit codes: 0 done, 1 failed, 2 wrong usage.",
		Example: "  burst checkpoint list\n  burst checkpoint list 4711 --dir /scratch/$USER/burst-checkpoints\n  burst checkpoint list 4711_3.0 --json",
		RunE:    run(runCheckpointList),
	}
	verify := &cobra.Command{
		Use:   "verify [JOB[.STEP] ...]",
		Short: "Read checkpoints whole and compare them with what was written",
		Long: "Read every file of the checkpoints of the jobs or steps, or of all below the directory,\n" +
			"and compare them with their SHA-256. Nothing is changed: a restart sets aside by itself\n" +
			"what is damaged, and takes the checkpoint before.\n\n" +
			"Exit codes: 0 all are whole, 1 one is damaged or could not be read, 2 wrong usage.",
		Example: "  burst checkpoint verify 4711\n  burst checkpoint verify --json",
		RunE:    run(runCheckpointVerify),
	}
	prune := &cobra.Command{
		Use:   "prune [JOB[.STEP] ...]",
		Short: "Delete checkpoints that are not needed any more",
		Long: "Delete, of each step of the jobs, all but the newest good checkpoints, what a dead writer\n" +
			"has left, and what never counts: of cut-off attempts, and damaged ones that have enough good\n" +
			"ones after them. The last good one stays, and has been read whole before an older one goes; so\n" +
			"does one that a step is starting from. A running burst-srun does this itself, as keep= says.\n\n" +
			"With --gone delete instead all that is left of those of the jobs that Slurm does not know any\n" +
			"more: nothing can start their steps again. burst-srun does this itself for jobs in the same\n" +
			"directory of which every step has ended well, unless keep_after=yes. Jobs of other clusters,\n" +
			"and what a later version of Burst wrote, stay.\n\n" +
			"Exit codes: 0 done, 1 failed, 2 wrong usage.",
		Example: "  burst checkpoint prune 4711 --keep 1\n  burst checkpoint prune --all --dry-run\n  burst checkpoint prune --all --gone --older-than 720h",
		RunE:    run(runCheckpointPrune),
	}
	cmd.PersistentFlags().StringVar(&o.dir, "dir", "burst-checkpoints", "`directory` of the checkpoints, as dir= of the job")
	for _, c := range []*cobra.Command{list, verify, prune} {
		c.Flags().BoolVar(&o.json, "json", false, "print JSON")
	}
	prune.Flags().IntVar(&o.keep, "keep", 2, "keep the newest `N` good ones of each step, at least 1")
	prune.Flags().BoolVar(&o.all, "all", false, "of all jobs below the directory")
	prune.Flags().BoolVar(&o.gone, "gone", false, "delete all of jobs that Slurm does not know any more; Slurm is asked")
	prune.Flags().DurationVar(&o.older, "older-than", 0, "with --gone: only of jobs that were last heard of this `time` ago")
	prune.Flags().BoolVar(&o.dryRun, "dry-run", false, "delete nothing: list what would go")
	cmd.AddCommand(list, verify, prune, checkpointMethodsCommand(), checkpointRehearseCommand())
	return cmd
}

func runCheckpointList(ctx context.Context, w io.Writer, o checkpointOptions, args []string) error {
	lines, err := eachStep(o, args, func(f *ckpt.Folder) ([]ckpt.Entry, error) { return f.List(ctx) })
	return show(w, lines, o.json, err)
}

func runCheckpointVerify(ctx context.Context, w io.Writer, o checkpointOptions, args []string) error {
	bad := 0
	lines, err := eachStep(o, args, func(f *ckpt.Folder) ([]ckpt.Entry, error) {
		all, err := f.List(ctx)
		for i := range all {
			e := &all[i]
			if e.State == ckpt.Good || e.State == ckpt.Late {
				if _, err := f.Verify(ctx, e.ID); err != nil {
					if ctx.Err() != nil {
						return all[:i], err
					}
					e.State, e.Why = ckpt.StateOf(err), err
				}
			}
			if e.State == ckpt.Damaged || e.State == ckpt.Unreadable {
				bad++
			}
		}
		return all, err
	})
	if bad > 0 {
		err = errors.Join(fmt.Errorf("%d of %d checkpoints are damaged or cannot be read", bad, len(lines)), err)
	}
	return show(w, lines, o.json, err)
}

func runCheckpointPrune(ctx context.Context, w io.Writer, o checkpointOptions, args []string) error {
	switch {
	case o.keep < 1:
		return cli.UsageError(fmt.Errorf("--keep is %d, not at least 1", o.keep), "to delete all of a job that has ended, delete its folder")
	case o.all == (len(args) > 0):
		return cli.UsageError(errors.New("name the jobs, or --all"), "see burst checkpoint prune --help")
	case o.older != 0 && (!o.gone || o.older < 0):
		return cli.UsageError(errors.New("--older-than is a time above 0, for --gone"), "see burst checkpoint prune --help")
	case o.gone:
		return pruneGone(ctx, w, o, args)
	}
	lines, err := eachStep(o, args, func(f *ckpt.Folder) ([]ckpt.Entry, error) {
		if o.dryRun {
			return f.Surplus(ctx)
		}
		return f.Prune(ctx)
	})
	return show(w, lines, o.json, err)
}
