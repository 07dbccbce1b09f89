package slurm

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"time"
)

const (
	// releaseEvery is the time between two tries of Release.
	releaseEvery = 150 * time.Millisecond
	// startSlack is how far a start time may be off and still count as set.
	startSlack = 2 * time.Second
)

// Release sets the start of a requeued job, which Slurm otherwise holds for two
// minutes. A zero start is now; another is when the job may begin at the
// earliest. restarts is the count of the requeued job, one more than of the
// attempt before: a requeue raises it at once, also while the job is still
// COMPLETING. A job with another count was requeued again, and Release leaves
// it alone and returns nil; so it does when the job has started, is no longer
// pending, or is held by a user or an admin. ErrNoJob when Slurm no longer knows it.
//
//	COMPLETING ──► PENDING, Cleaning or BeginTime ──► PENDING, start as asked: done
//	   │ an update is accepted and forgotten  │ an update takes
//	   └──────── read again every 150 ms ─────┘
//
// A job is let start in a later second than the one in which it was seen
// pending: slurmd takes no credential of the second in which it was told to end the
// job before ("Job credential revoked"), and the job would have FAILED.
func (c *Client) Release(ctx context.Context, id uint32, restarts int, start time.Time) error {
	var later time.Time // the second after the one in which it was seen pending
	for {
		j, err := c.Job(ctx, id)
		if err != nil {
			return err
		}
		if j.Restarts != restarts {
			return nil
		}
		if j.HetID != 0 && j.HetID != id {
			id = j.HetID // an update of the leader is one of all its parts, and only then do they start
			continue
		}
		switch released(j, start, time.Now()) {
		case releaseDone:
			return nil
		case releaseSet:
			if later.IsZero() {
				later = time.Now().Truncate(time.Second).Add(time.Second)
			}
			if wait := time.Until(later); wait > 0 && !start.After(later) {
				if err := pause(ctx, min(wait, time.Second)); err != nil {
					return err
				}
				continue
			}
			err := c.updateJob(ctx, j, JobUpdate{Start: &start})
			if errors.Is(err, ErrNotPending) {
				return nil
			}
			if err != nil {
				return err
			}
		}
		if err := pause(ctx, releaseEvery+rand.N(releaseEvery/5)); err != nil {
			return err
		}
	}
}

type releaseStep int

const (
	releaseDone releaseStep = iota // nothing more to do
	releaseSet                     // set the start time now
	releaseWait                    // an update would be lost
)

// released says what Release does next with a job in this state.
func released(j Job, start, now time.Time) releaseStep {
	switch {
	case j.State == "COMPLETING", j.State == "REQUEUED", j.Reason == "Cleaning":
		return releaseWait
	case j.State != "PENDING", strings.HasPrefix(j.Reason, "JobHeld"):
		return releaseDone // an admin's or a user's hold is not ours to lift
	case start.After(now):
		if j.Eligible.Sub(start).Abs() <= startSlack {
			return releaseDone
		}
	case j.Reason != "BeginTime" && j.Eligible.Before(now.Add(startSlack)):
		return releaseDone
	}
	return releaseSet
}

// pause waits, unless ctx ends before.
func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-t.C:
		return nil
	}
}
