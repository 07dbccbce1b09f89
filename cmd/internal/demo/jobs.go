package demo

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/burst-hpc/burst/slurm"
)

// submit submits the queue, in its order.
func (s *show) submit(ctx context.Context) error {
	if err := os.WriteFile(filepath.Join(s.site.Work, jobScript), []byte(s.heat.script), 0o755); err != nil {
		return err
	}
	s.output.path = filepath.Join(s.site.Work, jobOutput)
	for i, q := range s.queue {
		var err error
		if q.id, err = s.site.Submit(ctx, q.script, "--partition=onprem"); err != nil {
			return fmt.Errorf("submitting %s: %w", q.name, err)
		}
		s.say("job", fmt.Sprintf("%s is submitted: %s", title(slurm.Job{ID: q.id, Name: q.name}), q.does))
		if i > 0 {
			continue
		}
		if err := s.until(ctx, "the site's node is in use", func() bool { return q.now.State == "RUNNING" }); err != nil {
			return err
		}
	}
	return nil
}

// leaves waits until heat is in the cloud.
func (s *show) leaves(ctx context.Context) error {
	late := fmt.Errorf("the job is not in the cloud within %s of its submission", leaveTime)
	ctx, cancel := context.WithTimeoutCause(ctx, leaveTime, late)
	defer cancel()
	err := s.until(ctx, "the job runs in the cloud", func() bool {
		return s.heat.now.Partition == "cloud" && s.heat.now.State != "PENDING" && s.heat.now.State != "CONFIGURING"
	})
	if err != nil && context.Cause(ctx) == late { // whatever was cut off by it
		j := s.heat.now
		return fmt.Errorf("%w: job %s is %s in partition %s, %s", late, title(j), j.State, j.Partition, cmp.Or(j.AdminComment, "reason "+j.Reason))
	}
	return err
}

// completed says whether all jobs have ended well.
func (s *show) completed() bool {
	return !slices.ContainsFunc(s.queue, func(q *queued) bool { return q.now.State != "COMPLETED" })
}

// lookAtJobs reads the jobs when it is time to; an error says that one has ended badly, or
// that Slurm does not answer.
func (s *show) lookAtJobs(ctx context.Context) error {
	now := time.Now()
	if now.Sub(s.jobsAt) < jobEvery || s.completed() {
		return nil
	}
	if err := s.readJobs(ctx); err != nil && now.Sub(s.jobsAt) > silence {
		return err
	}
	for _, q := range s.queue {
		who := "the job"
		if q != s.heat {
			who = "job " + title(q.now)
		}
		if !q.endedAt.IsZero() && now.Sub(q.endedAt) > endedTime {
			return fmt.Errorf("%s has ended as %s, exit code %d", who, q.now.State, q.now.ExitCode)
		}
	}
	return nil
}

func (s *show) readJobs(ctx context.Context) error {
	all, err := s.site.Slurm().Jobs(ctx)
	if err != nil {
		return err
	}
	s.jobsAt = time.Now()
	for _, q := range s.queue {
		for _, j := range all {
			if j.ID == q.id && q.id != 0 {
				s.line.add(ofJob(q.now, j, s.jobsAt))
				q.now = j
			}
		}
		if !endedBadly(q.now.State) {
			q.endedAt = time.Time{}
		} else if q.endedAt.IsZero() {
			q.endedAt = s.jobsAt
		}
	}
	j := s.heat.now
	for i := range s.ordered {
		if e := &s.ordered[i]; e.running.IsZero() && j.State == "RUNNING" && j.Restarts > e.restarts {
			e.running = s.jobsAt
		}
	}
	return nil
}

// endedBadly says so of a job's state; an evicted one has it until burstd has requeued it.
func endedBadly(state string) bool {
	switch state {
	case "FAILED", "CANCELLED", "NODE_FAIL", "TIMEOUT", "BOOT_FAIL", "OUT_OF_MEMORY", "PREEMPTED":
		return true
	}
	return false
}
