package store

import (
	"context"
	"math"
	"slices"
	"time"

	"github.com/burst-hpc/burst/cmd/internal/history"
)

// Deeds is what became of a run, as its steps and its evictions tell. Of times
// below 0 is not known.
type Deeds struct {
	Ranks       int           // of its largest step; 0: not known
	Computing   time.Duration // its steps ran, those that have ended; of several beside each other the sum
	Checkpoints int           // good ones
	Writing     time.Duration // them: of the job's time, also where several steps wrote at once
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
	unknown, heard := 0, -1 // the last attempt of which a step has told its end
	ended, err := query(ctx, q, `SELECT at, attempt, ranks, ran, checkpoints, writing, lost, lost_unknown, iteration, step = '', began FROM steps_done WHERE job = ? AND at > ?`, func(scan scanner) (e endedStep, err error) {
		var ran, writing, lost, iteration, began int64
		var attempt, ranks, checkpoints, lostUnknown int
		var many bool
		if err = scan(&e.at, &attempt, &ranks, &ran, &checkpoints, &writing, &lost, &lostUnknown, &iteration, &many, &began); err != nil {
			return e, err
		}
		heard = max(heard, attempt)
		d.Ranks, d.Iteration = max(d.Ranks, ranks), max(d.Iteration, iteration)
		d.Computing = max(0, d.Computing) + us(ran)
		d.Checkpoints, unknown = d.Checkpoints+checkpoints, max(unknown, lostUnknown)
		e.ran, e.ranks, e.writing, e.lost = max(1, ran), float64(max(1, ranks)), float64(writing), float64(lost)
		if many {
			e = e.ofMany(max(began, e.at-ran, fromTime(r.Started)))
		}
		return e, nil
	}, r.Job, since)
	if err != nil {
		return d, err
	}
	writing, steps := ofTheJob(ended)
	if len(ended) > 0 {
		d.Writing = writing
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

// endedStep is a step that has told its end, at which and for how long it ran, in microseconds.
type endedStep struct {
	at, ran       int64
	ranks         float64
	writing, lost float64
}

// ofMany is the sum of steps of which the first began then: so many ran beside each other, on the average, as their
// times are more than the time from then on.
func (s endedStep) ofMany(began int64) endedStep {
	if wall := max(1, s.at-began); wall < s.ran {
		part := float64(wall) / float64(s.ran)
		s.ran, s.ranks, s.writing, s.lost = wall, s.ranks/part, s.writing*part, s.lost*part
	}
	return s
}

// ofTheJob is how much of their job's time steps have written checkpoints, and how much work they lost. Steps that ran
// beside each other share the job's nodes: of each counts its part of the ranks that ran then, and of both the same
// part of each moment that it ran.
func ofTheJob(steps []endedStep) (writing, lost time.Duration) {
	var bounds []int64
	for _, s := range steps {
		bounds = append(bounds, s.at-s.ran, s.at)
	}
	slices.Sort(bounds)
	bounds = slices.Compact(bounds)
	var w, l float64
	for i, to := range bounds {
		if i == 0 {
			continue
		}
		from, ranks := bounds[i-1], 0.0
		var wrote, gone float64
		for _, s := range steps {
			if s.at-s.ran <= from && to <= s.at {
				part := s.ranks * float64(to-from) / float64(s.ran)
				ranks, wrote, gone = ranks+s.ranks, wrote+part*s.writing, gone+part*s.lost
			}
		}
		if ranks > 0 {
			w, l = w+wrote/ranks, l+gone/ranks
		}
	}
	return us(int64(math.Round(w))), us(int64(math.Round(l)))
}

// evicted reads what the run's evictions tell: of several that mean one attempt, as
// of several of its nodes, the one that knows most.
func evicted(ctx context.Context, q querier, r history.Run, since int64, d *Deeds) error {
	_, err := query(ctx, q, `SELECT max(lost), max(lost_iterations) FROM evictions WHERE job = +? AND began > ? AND restarts < ?
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
	_, err = query(ctx, q, `SELECT coalesce(max(ended), 0) FROM runs WHERE job = +? AND submitted < ?`,
		func(scan scanner) (struct{}, error) { return struct{}{}, scan(&ended) }, r.Job, fromTime(r.Submitted))
	return ended, err
}
