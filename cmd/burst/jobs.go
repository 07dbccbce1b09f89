package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/burst-hpc/burst/cmd/internal/api"
	"github.com/burst-hpc/burst/cmd/internal/cli"
)

type jobsOptions struct {
	api.JobsQuery
	json bool
}

func jobsCommand() *cobra.Command {
	var o jobsOptions
	var since string
	cmd := &cobra.Command{
		Use:   "jobs",
		Short: "Show the runs of jobs: attempts, evictions, checkpoints, work lost, cost",
		Long: "Show the jobs that run, or have run, on our nodes or under burst-srun, those that\n" +
			"began last at the end: users see their own, root and SlurmUser all. What is not\n" +
			"known is \"-\". LOST is work that was done again, with \"+?\" if that of a restart is\n" +
			"not known, LOST_ITER its iterations, where the program counts them; SAVED is how long ago the last checkpoint of a running job was. Below it\n" +
			"are the steps that run now, as burst-srun said last: it speaks twice a minute.\n\n" +
			"Exit codes: 0 done, 1 burstd does not answer, 2 wrong usage.",
		Example: "  burst jobs --since 2d\n  burst jobs --label heat-4k --json\n  burst jobs --job 4711",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.validate(since, cmd.Flags().Changed("job")); err != nil {
				return cli.UsageError(err, "see burst jobs --help")
			}
			client, err := dial(cmd)
			if err != nil {
				return err
			}
			defer client.Close()
			return runJobs(cmd.Context(), cmd.OutOrStdout(), client, o)
		},
	}
	cmd.Flags().IntVarP(&o.Last, "last", "n", 50, fmt.Sprintf("show the last `N` runs, at most %d", api.MaxJobs))
	cmd.Flags().Uint32Var(&o.Job, "job", 0, "only of the job `ID`, or of all of an array or a heterogeneous job")
	cmd.Flags().StringVar(&o.User, "user", "", "only of `USER`")
	cmd.Flags().StringVar(&o.Label, "label", "", "only with this `LABEL`, or of jobs of this name that have none")
	cmd.Flags().StringVar(&since, "since", "", "only what ran in the last `TIME`, as in 12h or 7d; at most 400d are kept")
	cmd.Flags().BoolVar(&o.json, "json", false, "print JSON")
	return cmd
}

func (o *jobsOptions) validate(since string, job bool) error {
	switch {
	case o.Last < 1 || o.Last > api.MaxJobs:
		return fmt.Errorf("--last is %d, not from 1 to %d", o.Last, api.MaxJobs)
	case job && o.Job == 0:
		return fmt.Errorf("--job is 0, which is no job")
	case since == "":
		return nil
	}
	ago, err := parseSince(since)
	o.Since = time.Now().Add(-ago)
	return err
}

func runJobs(ctx context.Context, w io.Writer, client *api.Client, o jobsOptions) error {
	jobs, err := client.Jobs(ctx, o.JobsQuery)
	if err != nil {
		return explain(err)
	}
	if o.json {
		return writeJSON(w, append([]api.Job{}, jobs...)) // [] in JSON, not null
	}
	rows := [][]string{{"JOB", "USER", "LABEL", "STATE", "STARTED", "RAN", "NODES", "ATTEMPTS", "EVICTED", "CKPTS", "SAVED", "LOST", "LOST_ITER", "USD"}}
	for _, j := range jobs {
		rows = append(rows, []string{jobName(j), cmp.Or(j.User, "-"), cmp.Or(j.Label, j.Name, "-"), j.State, stamp(j.Started), span(&j.Seconds),
			strconv.Itoa(j.Nodes), strconv.Itoa(j.Attempts), strconv.Itoa(j.Evictions), strconv.Itoa(j.Checkpoints), span(j.SinceCheckpoint), lost(j), count(j.LostIterations), dollars(j)})
	}
	if err := writeTable(w, rows); err != nil {
		return err
	}
	return writeSteps(w, jobs)
}

// writeSteps writes how far the steps are that run now.
func writeSteps(w io.Writer, jobs []api.Job) error {
	rows := [][]string{{"JOB", "STEP", "ATTEMPT", "METHOD", "HOST", "NOW"}}
	for _, j := range jobs {
		for _, s := range j.Steps {
			rows = append(rows, []string{jobName(j), s.Step, strconv.Itoa(s.Attempt), cmp.Or(s.Method, "-"), cmp.Or(s.Host, "-"), howFar(s)})
		}
	}
	if len(rows) == 1 {
		return nil
	}
	if _, err := fmt.Fprintln(w); err != nil {
		return fmt.Errorf("writing: %w", err)
	}
	return writeTable(w, rows)
}

// jobName is the job's id as Slurm's commands take it.
func jobName(j api.Job) string {
	return cmp.Or(taskName(j.ArrayJob, j.ArrayTask), strconv.FormatUint(uint64(j.Job), 10))
}

// taskName is that of an array's task; "": it is none.
func taskName(array uint32, task string) string {
	if array == 0 || task == "" {
		return ""
	}
	return fmt.Sprintf("%d_%s", array, task)
}

// span writes seconds for people, as burst-srun does, "-" for what is not known.
func span(seconds *float64) string {
	if seconds == nil {
		return "-"
	}
	d := time.Duration(*seconds * float64(time.Second))
	if d < time.Minute {
		return d.Round(100 * time.Millisecond).String()
	}
	return d.Round(time.Second).String()
}

func lost(j api.Job) string {
	if j.LostUnknown == 0 {
		return span(j.LostSeconds)
	}
	if j.LostSeconds == nil || *j.LostSeconds == 0 {
		return "?"
	}
	return span(j.LostSeconds) + "+?"
}

// count writes a number, "-" for what is not known.
func count(n *int64) string {
	if n == nil {
		return "-"
	}
	return strconv.FormatInt(*n, 10)
}

func dollars(j api.Job) string {
	if j.USD == nil {
		return "-"
	}
	return fmt.Sprintf("%.4f", *j.USD)
}
