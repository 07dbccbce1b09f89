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

	"github.com/burst-hpc/burst/cmd/internal/cli"
	"github.com/burst-hpc/burst/cmd/internal/steprecord"
	"github.com/burst-hpc/burst/ft/ckpt"
	"github.com/burst-hpc/burst/slurm"
)

// goneJobs are those of the jobs in a checkpoint directory that Slurm does not know.
func goneJobs(ctx context.Context, c *slurm.Client, left []steprecord.Left) (gone []steprecord.Left, err error) {
	conf, err := c.ShowConfig(ctx)
	if err != nil {
		return nil, err
	}
	cluster, ctld := conf["ClusterName"], steprecord.Ctld(conf)
	if cluster == "" || ctld == "" {
		return nil, errors.New("slurmctld does not say what its cluster is called, or where it runs itself")
	}
	now, err := c.Snapshot(ctx) // no node at all is an error: Slurm has lost its state
	if err != nil {
		return nil, err
	}
	jobs := slices.Collect(maps.Values(now.Jobs))
	for _, l := range left {
		if l.Cluster == cluster && l.Ctld == ctld && !l.KnownTo(jobs) {
			gone = append(gone, l)
		}
	}
	return gone, nil
}

// pruneGone deletes what jobs have left that Slurm does not know any more.
func pruneGone(ctx context.Context, w io.Writer, o checkpointOptions, args []string) error {
	for _, a := range args {
		if strings.Contains(a, ".") {
			return cli.UsageError(fmt.Errorf("%s is a step: --gone deletes what whole jobs have left", printable(a)), "name the job")
		}
	}
	left, err := steprecord.LeftIn(ctx, o.dir)
	if left == nil && err != nil {
		return cli.WithHint(err, "name the directory with --dir; burst explain job.sh shows it")
	}
	errs := []error{err}
	left = slices.DeleteFunc(left, func(l steprecord.Left) bool {
		return len(args) > 0 && !slices.Contains(args, l.Job) || o.older > 0 && time.Since(l.Last) < o.older
	})
	if o.client == nil {
		o.client = slurm.New(slurm.Exec{Timeout: askTimeout})
	}
	gone, err := goneJobs(ctx, o.client, left)
	if err != nil {
		return fmt.Errorf("nothing is deleted, as it is not known which jobs are gone: %w", err)
	}
	for _, a := range args {
		if !slices.ContainsFunc(gone, func(l steprecord.Left) bool { return l.Job == a }) {
			errs = append(errs, fmt.Errorf("job %s stays: Slurm knows it, or there is no record of it here, of this cluster and so old", printable(a)))
		}
	}
	lines := []generation{}
	for _, l := range gone {
		part := o
		part.keep = 1
		listed, err := eachStep(part, []string{l.Job}, func(f *ckpt.Folder) ([]ckpt.Entry, error) { return f.List(ctx) })
		if len(listed) > 0 {
			errs = append(errs, err)
		}
		if !o.dryRun {
			if err := l.Remove(ctx, o.dir, o.client.JobsOf); err != nil {
				errs = append(errs, err)
				continue
			}
		}
		lines = append(lines, listed...)
	}
	if !o.dryRun {
		errs = append(errs, ckpt.RemoveRest(o.dir))
	}
	return show(w, lines, o.json, errors.Join(errs...))
}
