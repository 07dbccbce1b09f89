package store

import (
	"context"
	"fmt"
	"time"

	"github.com/burst-hpc/burst/ft/session"
)

// stepDone keeps how a step went, if the session is still that of the burst-srun
// that says so.
func (w *writer) stepDone(e session.End, now time.Time) {
	s := e.Summary
	w.put(`INSERT OR REPLACE INTO steps_done (job, step, attempt, at, label, method, exit, ranks, ran, checkpoints, writing, restarts, lost, lost_unknown, iteration)
		SELECT job, step, attempt, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16
		FROM sessions WHERE job = ?1 AND attempt = ?2 AND step = ?3 AND token = ?4`,
		e.Job, e.Attempt, e.Step, e.Token, fromTime(now), s.Label, s.Method, s.Exit, s.Ranks, s.Ran.Microseconds(), s.Checkpoints,
		s.Writing.Microseconds(), s.Restarts, s.Lost.Microseconds(), s.LostUnknown, s.Iteration)
	w.fewDone(e.Job)
}

// StepsDone are the steps of a job that have ended by themselves, by step. Of one that
// has too many, the first is the sum of those that ended first.
func (s *Store) StepsDone(ctx context.Context, job uint32) ([]session.Done, error) {
	all, err := query(ctx, s.db, `SELECT job, step, attempt, at, label, method, exit, ranks, ran, checkpoints, writing, restarts, lost, lost_unknown, iteration
		FROM steps_done WHERE job = ? ORDER BY step`, func(scan scanner) (d session.Done, err error) {
		var at, ran, writing, lost int64
		err = scan(&d.Job, &d.Step, &d.Attempt, &at, &d.Label, &d.Method, &d.Exit, &d.Ranks, &ran, &d.Checkpoints, &writing, &d.Restarts, &lost,
			&d.LostUnknown, &d.Iteration)
		d.At, d.Ran, d.Writing, d.Lost = toTime(at), us(ran), us(writing), us(lost)
		return d, err
	}, job)
	if err != nil {
		return nil, fmt.Errorf("reading the steps of job %d that have ended: %w", job, err)
	}
	return all, nil
}

// us is a time of so many microseconds; below 0: not known.
func us(n int64) time.Duration {
	if n < 0 {
		return -1
	}
	return time.Duration(n) * time.Microsecond
}
