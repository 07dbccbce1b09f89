package slurm

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// JobUpdate is one change to a job. Nil fields change nothing.
type JobUpdate struct {
	AdminComment *string
	// Start is the time before which the job does not start; the zero time is now.
	Start *time.Time
	// Requeue says whether Slurm may requeue the job.
	Requeue *bool
}

// UpdateJob changes a job; ErrNoJob when Slurm does not know it, and
// ErrNotPending when a start time comes too late.
func (c *Client) UpdateJob(ctx context.Context, id uint32, u JobUpdate) error {
	if u == (JobUpdate{}) {
		return nil
	}
	j, err := c.Job(ctx, id)
	if err != nil {
		return err
	}
	return c.updateJob(ctx, j, u)
}

func (c *Client) updateJob(ctx context.Context, j Job, u JobUpdate) error {
	args := []string{"update", "jobid=" + target(j)}
	if u.AdminComment != nil {
		args = append(args, "admincomment="+printable(*u.AdminComment))
	}
	if u.Start != nil {
		args = append(args, "starttime="+startTime(*u.Start))
	}
	if u.Requeue != nil {
		v := "0"
		if *u.Requeue {
			v = "1"
		}
		args = append(args, "requeue="+v)
	}
	if _, err := c.run(ctx, "scontrol", args...); err != nil {
		return fmt.Errorf("updating job %d: %w", j.ID, err)
	}
	return nil
}

// startTime writes t as seconds since 1970, which no time zone can shift.
func startTime(t time.Time) string {
	if t.IsZero() {
		return "now"
	}
	return fmt.Sprintf("uts%d", t.Add(time.Second-1).Unix())
}

// target names exactly this job: the plain id of an array's first job means the whole array.
func target(j Job) string {
	switch {
	case j.ArrayTask == "":
		return decimal(j.ID)
	case strings.Trim(j.ArrayTask, "0123456789") == "":
		return fmt.Sprintf("%d_%s", j.ArrayID, j.ArrayTask)
	}
	tasks, _, _ := strings.Cut(j.ArrayTask, "%")
	return fmt.Sprintf("%d_[%s]", j.ArrayID, tasks)
}

// Requeue puts a job, also one that has ended, back into the queue; a
// heterogeneous job goes as a whole. To requeue a pending job is no error.
// Slurm holds the job for a while: see Release.
func (c *Client) Requeue(ctx context.Context, id uint32) error { return c.requeue(ctx, id) }

// Hold keeps a pending job from starting until its user or an admin releases it
// ("scontrol release"). ErrNoJob when Slurm does not know it.
func (c *Client) Hold(ctx context.Context, id uint32) error {
	whole, err := c.whole(ctx, id)
	if err != nil {
		return err
	}
	if _, err := c.run(ctx, "scontrol", "uhold", whole); err != nil {
		return fmt.Errorf("holding job %d: %w", id, err)
	}
	return nil
}

// Unhold gives a pending job its priority back, whoever has taken it: an admin, its
// user, or Slurm, which thought that the job can never run. ErrNoJob when Slurm does not know it.
func (c *Client) Unhold(ctx context.Context, id uint32) error {
	whole, err := c.whole(ctx, id)
	if err != nil {
		return err
	}
	if _, err := c.run(ctx, "scontrol", "release", whole); err != nil {
		return fmt.Errorf("releasing job %d: %w", id, err)
	}
	return nil
}

// RequeueRunning is Requeue for a job that has not ended, that is, one that is
// configuring, running, stopped or suspended. In any other state it does
// nothing and returns nil: no job that has finished this moment runs again.
func (c *Client) RequeueRunning(ctx context.Context, id uint32) error {
	return c.requeue(ctx, id, "incomplete")
}

func (c *Client) requeue(ctx context.Context, id uint32, option ...string) error {
	whole, err := c.whole(ctx, id)
	if err != nil {
		return err
	}
	args := append(append([]string{"requeue"}, option...), whole)
	if _, err := c.run(ctx, "scontrol", args...); err != nil && !errors.Is(err, errPending) {
		return fmt.Errorf("requeueing job %d: %w", id, err)
	}
	return nil
}

// whole names a job for what can be done only to all of a heterogeneous job.
func (c *Client) whole(ctx context.Context, id uint32) (string, error) {
	j, err := c.Job(ctx, id)
	if err != nil || j.HetID == 0 {
		return target(j), err
	}
	return decimal(j.HetID), nil
}

// Signal is what a job is sent.
type Signal struct {
	Name  string // without SIG: "USR1"
	Batch bool   // to the batch script only, not to its children
	Full  bool   // to the batch script, its children and the steps
}

// Signal sends a signal to a running job. With neither Batch nor Full it goes
// to the job's steps and not to the batch script.
func (c *Client) Signal(ctx context.Context, id uint32, s Signal) error {
	if s.Name == "" || strings.Trim(s.Name, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789") != "" {
		return fmt.Errorf("signalling job %d: %q is no signal's name", id, s.Name)
	}
	j, err := c.Job(ctx, id)
	if err != nil {
		return err
	}
	args := []string{"--signal=" + s.Name}
	if s.Batch {
		args = append(args, "--batch")
	}
	if s.Full {
		args = append(args, "--full")
	}
	if _, err := c.run(ctx, "scancel", append(args, target(j))...); err != nil {
		return fmt.Errorf("signalling job %d: %w", id, err)
	}
	return nil
}
