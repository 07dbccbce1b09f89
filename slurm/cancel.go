package slurm

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// CancelRunning ends a job as its user's scancel does: SIGTERM, and SIGKILL when KillWait is over;
// of a heterogeneous job all parts, of an array this task. One that waits, that Slurm does not
// know any more, or of which the present reading, of a heterogeneous job that of each part, is not
// meant any more is left alone, and is no error.
func (c *Client) CancelRunning(ctx context.Context, id uint32, meant func(Job) bool) error {
	name, err := c.ifMeant(ctx, id, meant)
	if err != nil || name == "" {
		return err
	}
	if _, err := c.run(ctx, "scancel", name); err != nil {
		return fmt.Errorf("cancelling job %d: %w", id, err)
	}
	return nil
}

// RequeueMeant is RequeueRunning for a job whose present reading, of a heterogeneous one that of a part, is meant
// still. Another, or one that Slurm does not know any more, is left alone, and is no error.
func (c *Client) RequeueMeant(ctx context.Context, id uint32, meant func(Job) bool) error {
	name, err := c.ifMeant(ctx, id, meant)
	if err != nil || name == "" {
		return err
	}
	if _, err := c.run(ctx, "scontrol", "requeue", "incomplete", name); err != nil && !errors.Is(err, errPending) {
		return fmt.Errorf("requeueing job %d: %w", id, err)
	}
	return nil
}

// ifMeant names a job for what can be done only to all of a heterogeneous one; empty: it waits, is gone, or is not meant.
func (c *Client) ifMeant(ctx context.Context, id uint32, meant func(Job) bool) (name string, err error) {
	jobs, err := c.JobsOf(ctx, id)
	if err != nil {
		return "", err
	}
	n := slices.IndexFunc(jobs, func(j Job) bool { return j.ID == id })
	if n < 0 {
		return "", nil
	}
	j := jobs[n]
	one := func(part Job) bool { return (part.ID == id || j.HetID != 0 && part.HetID == j.HetID) && meant(part) }
	switch {
	case j.State == "PENDING" || !slices.ContainsFunc(jobs, one):
		return "", nil
	case j.HetID != 0:
		return decimal(j.HetID), nil
	}
	return target(j), nil
}
