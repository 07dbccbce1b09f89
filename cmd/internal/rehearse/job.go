package rehearse

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/burst-hpc/burst/slurm"
)

// job is the job in Slurm.
type job struct {
	id     uint32
	client *slurm.Client
	runner slurm.Runner
}

const (
	lookEvery = time.Second
	// silent is how long slurmctld may not answer.
	silent = 5 * time.Minute
	// endTime is what a job that is killed may take to be gone.
	endTime = 10 * time.Minute
)

// scontrol runs a command that names the job.
func (j job) scontrol(ctx context.Context, args ...string) error {
	return j.run(ctx, "scontrol", append(args, strconv.FormatUint(uint64(j.id), 10))...)
}

func (j job) run(ctx context.Context, name string, args ...string) error {
	_, errs, err := j.runner.Run(ctx, name, args...)
	if err != nil {
		return fmt.Errorf("%s %s: %w: %.300s", name, strings.Join(args, " "), err, strings.TrimSpace(string(errs)))
	}
	return nil
}

// until asks Slurm for the job until ok says that it is enough. A slurmctld that is
// restarted is waited for.
func (j job) until(ctx context.Context, ok func(slurm.Job) (bool, error)) error {
	answered := time.Now()
	for {
		now, err := j.client.Job(ctx, j.id)
		switch {
		case errors.Is(err, slurm.ErrNoJob):
			return fmt.Errorf("jobs that have ended are known for MinJobAge of slurm.conf: %w", err)
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err == nil:
			answered = time.Now()
			if done, err := ok(now); done || err != nil {
				return err
			}
		case time.Since(answered) > silent:
			return err
		}
		if !pause(ctx, lookEvery) {
			return context.Cause(ctx)
		}
	}
}

// hold ends the job's attempt, if it has not ended, and has it wait as the next one.
func (j job) hold(ctx context.Context, next int) error {
	ctx, cancel := context.WithTimeoutCause(ctx, endTime, fmt.Errorf("job %d does not end within %v", j.id, endTime))
	defer cancel()
	var refused error
	asked := false
	err := j.until(ctx, func(now slurm.Job) (bool, error) {
		switch {
		case now.Restarts > next:
			return false, view{job: now, attempt: next}.foreign()
		case now.Restarts == next:
			return now.State == "PENDING", nil
		case asked && now.State == "COMPLETING":
			return false, nil
		}
		refused = j.scontrol(ctx, "requeuehold") // Slurm may refuse it while the job completes
		asked = true
		return false, nil
	})
	if err != nil && refused != nil {
		return errors.Join(err, refused)
	}
	return err
}

// settled is more than the second in which slurmd was told to end the job: it takes
// no credential of that second for the next attempt.
const settled = 1100 * time.Millisecond

// letGo lets the waiting job start, also before the time for which Slurm has a
// requeued job wait.
func (j job) letGo(ctx context.Context) error {
	if !waited(ctx, settled) {
		return context.Cause(ctx)
	}
	now := time.Time{}
	if err := j.client.UpdateJob(ctx, j.id, slurm.JobUpdate{Start: &now}); err != nil {
		return err
	}
	return j.scontrol(ctx, "release")
}

// cancelTime bounds the wait for the end of a job that is cancelled.
const cancelTime = 2 * time.Minute

// cancel ends the job for good, and returns when no process of it is left.
func (j job) cancel(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), cancelTime, fmt.Errorf("it has not ended within %v", cancelTime))
	defer cancel()
	var failed error
	err := j.until(ctx, func(now slurm.Job) (bool, error) {
		if (view{job: now}).over() {
			return true, nil
		}
		if now.State != "COMPLETING" {
			failed = j.run(ctx, "scancel", strconv.FormatUint(uint64(j.id), 10))
		}
		return false, nil
	})
	if err == nil || errors.Is(err, slurm.ErrNoJob) {
		return nil
	}
	return fmt.Errorf("cancelling job %d: %w: run scancel %d", j.id, errors.Join(err, failed), j.id)
}

// pause waits about d, and says false when ctx ended first.
func pause(ctx context.Context, d time.Duration) bool { return waited(ctx, d*3/4+rand.N(d/2)) }

func waited(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}
