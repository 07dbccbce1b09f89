package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/burst-hpc/burst/cmd/internal/rig"
)

const (
	noticeRuns = 10
	noticeLead = 30 * time.Second
	// Slurm schedules and powers nodes up at ticks of 1 s: the notices come at
	// ten moments between two, evenly. The job's own start, for which Slurm
	// schedules no other job for 3 s (batch_sched_delay), is over by then.
	noticeAfter = 5 * time.Second
	noticeStep  = time.Second / noticeRuns
)

func noticeToRunning() Bench {
	return Bench{
		Name: "notice-to-running",
		Method: fmt.Sprintf("%d jobs of one node, which name no signal and so get no grace; 5.0 to 5.9 s after its start the node is evicted with a notice of %s; "+
			"from the notice to the first act of the script on a node that was powered down; local instances (a slurmd, no VM boot): median", noticeRuns, noticeLead),
		Unit:   "s",
		Better: Lower,
		Goal:   3,
		Run:    measureNotice,
	}
}

func measureNotice(ctx context.Context, env Env) (samples []float64, err error) {
	// The jobs go on after the measurement: there are nodes for all of them.
	s, err := startSite(ctx, env, "n", rig.Options{Nodes: 2 * noticeRuns, Gate: true})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	for i := range noticeRuns {
		took, err := evicted(ctx, s, noticeAfter+time.Duration(i)*noticeStep)
		if err != nil {
			return nil, err
		}
		samples = append(samples, took.Seconds())
	}
	return samples, nil
}

// evicted runs a job, takes its node after a while, and says how long after
// the notice the job has started elsewhere.
func evicted(ctx context.Context, s site, after time.Duration) (time.Duration, error) {
	off, err := s.off(ctx)
	if err != nil {
		return 0, err
	}
	id, _, err := s.submit(ctx)
	if err != nil {
		return 0, err
	}
	if _, err := s.started(ctx, id, 1); err != nil {
		return 0, err
	}
	node, err := s.on(ctx, id, off)
	if err != nil {
		return 0, err
	}
	if err := pause(ctx, after); err != nil {
		return 0, err
	}
	if off, err = s.off(ctx); err != nil {
		return 0, err
	}
	notice := time.Now()
	if err := s.Control.Evict(node, noticeLead); err != nil {
		return 0, err
	}
	again, err := s.started(ctx, id, 2)
	if err != nil {
		return 0, err
	}
	_, err = s.on(ctx, id, off) // the evicted node is not one of them
	return again.Sub(notice), err
}
