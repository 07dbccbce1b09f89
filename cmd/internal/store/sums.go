package store

import (
	"context"
	"time"

	"github.com/burst-hpc/burst/cmd/internal/history"
)

// Deeds is what became of a run, as its steps and its evictions tell. Of times
// below 0 is not known.
type Deeds struct {
	Ranks       int           // of its largest step; 0: not known
	Computing   time.Duration // its steps ran, those that have ended
	Checkpoints int           // good ones
	Writing     time.Duration // them
	Saved       time.Time     // when burstd heard of the last one; zero: of none, or the run has ended
	Evictions   int           // attempts that an eviction has ended
	// Lost is the work that was done again, LostUnknown the restarts for which that
	// is not known. A step's own word counts before what its evictions noted.
	Lost           time.Duration
	LostUnknown    int
	LostIterations int64 // of evictions; -1: the application does not count
	Iteration      int64 // of the last checkpoint; -1: not known
}

// sumUp reads a run's deeds.
func sumUp(ctx context.Context, q querier, r history.Run) (d Deeds, err error) {
	d = Deeds{Computing: -1, Writing: -1, Lost: -1, LostIterations: -1, Iteration: -1}
	since, err := before(ctx, q, r)
	if err != nil {
		return d, err
	}
	steps, unknown, heard := time.Duration(0), 0, -1 // the last attempt of which a step has told its end
	_, err = query(ctx, q, `SELECT attempt, ranks, ran, checkpoints, writing, lost, lost_unknown, iteration FROM steps_done WHERE job = ? AND at > ?`, func(scan scanner) (none struct{}, err error) {
		var ran, writing, lost, iteration int64
		var attempt, ranks, checkpoints, lostUnknown int
		if err = scan(&attempt, &ranks, &ran, &checkpoints, &writing, &lost, &lostUnknown, &iteration); err != nil {
			return none, err
		}
		heard = max(heard, attempt)
		d.Ranks, d.Iteration = max(d.Ranks, ranks), max(d.Iteration, iteration)
		d.Computing, d.Writing = max(0, d.Computing)+us(ran), max(0, d.Writing)+us(writing)
		d.Checkpoints, steps, unknown = d.Checkpoints+checkpoints, steps+us(lost), max(unknown, lostUnknown)
		return none, nil
	}, r.Job, since)
	if err != nil {
		return d, err
	}
	made := 0
	_, err = query(ctx, q, `SELECT made, at, iteration FROM blessed WHERE job = ? AND at > ?`, func(scan scanner) (none struct{}, err error) {
		var n int
		var at, iteration int64
		if err = scan(&n, &at, &iteration); err == nil {
			made += n
			if saved := toTime(at); r.Open && saved.After(d.Saved) {
				d.Saved = saved
			}
			d.Iteration = max(d.Iteration, iteration)
		}
		return none, err
	}, r.Job, since)
	if err != nil {
		return d, err
	}
	d.Checkpoints = max(d.Checkpoints, made) // steps that have not ended have made some too
	if err := evicted(ctx, q, r, since, &d); err != nil {
		return d, err
	}
	switch {
	case heard >= r.Restarts && !r.Open && unknown <= d.LostUnknown: // what its user was told in its output
		d.Lost, d.LostUnknown = steps, unknown
	case r.Restarts == 0:
		d.Lost = 0
	}
	return d, nil
}

// evicted reads what the run's evictions tell: of several that mean one attempt, as
// of several of its nodes, the one that knows most.
func evicted(ctx context.Context, q querier, r history.Run, since int64, d *Deeds) error {
	_, err := query(ctx, q, `SELECT max(lost), max(lost_iterations) FROM evictions WHERE job = ? AND began > ? AND restarts < ?
		AND (stage = 'requeued' OR ending = 'moved') GROUP BY restarts`, func(scan scanner) (none struct{}, err error) {
		var lost, iterations int64
		if err = scan(&lost, &iterations); err != nil {
			return none, err
		}
		d.Evictions++
		if lost >= 0 {
			d.Lost = max(0, d.Lost) + us(lost)
		}
		if lost < 0 {
			d.LostUnknown++
		}
		if iterations >= 0 {
			d.LostIterations = max(0, d.LostIterations) + iterations
		}
		return none, nil
	}, r.Job, since, r.Restarts)
	d.LostUnknown += max(0, r.Restarts-d.Evictions) // ended by something else
	return err
}

// before is when the last run before this one of the same job's id had ended, in
// microseconds; 0: there was none. What is told of the id since then is this run's.
// Its submission does not say that: a requeue makes it later, and a run may have been
// seen only after one.
func before(ctx context.Context, q querier, r history.Run) (ended int64, err error) {
	_, err = query(ctx, q, `SELECT coalesce(max(ended), 0) FROM runs WHERE job = ? AND submitted < ?`,
		func(scan scanner) (struct{}, error) { return struct{}{}, scan(&ended) }, r.Job, fromTime(r.Submitted))
	return ended, err
}
