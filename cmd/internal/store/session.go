package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/burst-hpc/burst/ft/session"
)

// CommitSession writes a change in one transaction, which other changes may share.
func (s *Store) CommitSession(ctx context.Context, c session.Change) error {
	if err := s.small.do(ctx, s, func(w *writer) { w.putSession(c, time.Now()) }); err != nil {
		return fmt.Errorf("writing the journal: %w", err)
	}
	return nil
}

func (w *writer) putSession(c session.Change, now time.Time) {
	for _, o := range c.Opened {
		w.begun(o.Job, o.Attempt)
		w.put(`INSERT INTO sessions (job, attempt, step, uid, token, began, hello) VALUES (?, ?, ?, ?, ?, ?, ?)
			ON CONFLICT DO UPDATE SET uid = excluded.uid, token = excluded.token, began = excluded.began, hello = excluded.hello
			WHERE (excluded.began, excluded.token) >= (sessions.began, sessions.token)`,
			o.Job, o.Attempt, o.Step, o.UID, o.Token, fromTime(o.Began), w.json(o.Hello))
	}
	for _, g := range c.Answers {
		a := g.Answer
		w.answered(g)
		if a.Generation == "" {
			continue
		}
		// Of an attempt that was cut off, and goes on, nothing counts any more.
		w.put(`INSERT INTO blessed (job, step, attempt, n, dir, bytes, took, iteration, at)
			SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9 WHERE NOT EXISTS (SELECT 1 FROM sessions WHERE job = ?1 AND attempt > ?3)
			ON CONFLICT DO UPDATE SET attempt = excluded.attempt, n = excluded.n, dir = excluded.dir, bytes = excluded.bytes,
			took = excluded.took, iteration = excluded.iteration, at = excluded.at, made = iif(blessed.at <= `+earlierJob+`, 1, blessed.made + 1)
			WHERE (excluded.attempt, excluded.n) > (blessed.attempt, blessed.n) OR blessed.at <= `+earlierJob,
			g.Job, g.Step, g.Attempt, a.N, a.Generation, a.Bytes, a.Took.Microseconds(), a.Iteration, fromTime(now))
		w.fewBlessed(g.Job)
	}
	for _, o := range c.Orders {
		r := o.Request
		w.put(`INSERT OR REPLACE INTO requests (job, attempt, id, kind, by, why) VALUES (?, ?, ?, ?, ?, ?)`,
			o.Job, o.Attempt, r.ID, r.Kind, fromTime(r.By), r.Why)
		w.put(`DELETE FROM answers WHERE job = ? AND attempt = ? AND id <> ?`, o.Job, o.Attempt, r.ID)
	}
	for _, e := range c.Closed {
		if e.Summary != nil {
			w.stepDone(e, now)
		}
		w.put(`DELETE FROM sessions WHERE job = ? AND attempt = ? AND step = ? AND token = ?`, e.Job, e.Attempt, e.Step, e.Token)
	}
}

// OrderOf is what the attempt was asked last; zero if nothing.
func (s *Store) OrderOf(ctx context.Context, job uint32, attempt int) (session.Order, error) {
	o := session.Order{Job: job, Attempt: attempt}
	var by int64
	err := s.db.QueryRowContext(ctx, `SELECT id, kind, by, why FROM requests WHERE job = ? AND attempt = ?`, job, attempt).
		Scan(&o.Request.ID, &o.Request.Kind, &by, &o.Request.Why)
	if errors.Is(err, sql.ErrNoRows) {
		return session.Order{}, nil
	}
	if err != nil {
		return session.Order{}, fmt.Errorf("reading what job %d was asked: %w", job, err)
	}
	o.Request.By = toTime(by).UTC()
	return o, nil
}

// AnswersOf are what the steps of the attempt have answered to its last request, by step.
func (s *Store) AnswersOf(ctx context.Context, job uint32, attempt int) (map[string]session.Answer, error) {
	all := map[string]session.Answer{}
	_, err := query(ctx, s.db, `SELECT step, answer FROM answers JOIN requests USING (job, attempt, id) WHERE job = ? AND attempt = ?`, func(scan scanner) (none struct{}, err error) {
		var step, text string
		var a session.Answer
		if err = scan(&step, &text); err == nil {
			err = json.Unmarshal([]byte(text), &a)
		}
		all[step] = a
		return none, err
	}, job, attempt)
	if err != nil {
		return nil, fmt.Errorf("reading what job %d has answered: %w", job, err)
	}
	return all, nil
}

// OpenSessions are those of burst-sruns that are not closed.
func (s *Store) OpenSessions(ctx context.Context) ([]session.Session, error) {
	all, err := query(ctx, s.db, `SELECT uid, hello FROM sessions ORDER BY job, attempt, step`, func(scan scanner) (o session.Session, err error) {
		var hello string
		if err = scan(&o.UID, &hello); err != nil {
			return o, err
		}
		return o, json.Unmarshal([]byte(hello), &o.Hello)
	})
	if err != nil {
		return nil, fmt.Errorf("reading the sessions of burst-sruns: %w", err)
	}
	return all, nil
}

// earlierJob is when the last job of the id ?1 had ended before the one that runs; 0:
// there was none. Slurm gives ids again, and what is told until then is not this job's.
const earlierJob = `(SELECT coalesce(max(e.ended), 0) FROM runs e WHERE e.job = ?1 AND e.submitted < (SELECT max(o.submitted) FROM runs o WHERE o.job = ?1 AND o.open))`

const blessedColumns = `job, step, attempt, n, dir, bytes, took, iteration, at`

func scanBlessed(scan scanner) (b session.Blessed, err error) {
	var took, at int64
	err = scan(&b.Job, &b.Step, &b.Attempt, &b.Answer.N, &b.Answer.Generation, &b.Answer.Bytes, &took, &b.Answer.Iteration, &at)
	b.Answer.Took, b.At = time.Duration(took)*time.Microsecond, toTime(at)
	return b, err
}

// Blessed is the generation of a step that counts; zero if none was made.
func (s *Store) Blessed(ctx context.Context, job uint32, step string) (session.Blessed, error) {
	b, err := scanBlessed(s.db.QueryRowContext(ctx, `SELECT `+blessedColumns+` FROM blessed WHERE job = ?1 AND step = ?2 AND at > `+earlierJob, job, step).Scan)
	if errors.Is(err, sql.ErrNoRows) {
		return session.Blessed{}, nil
	}
	if err != nil {
		return session.Blessed{}, fmt.Errorf("reading the generation of job %d that counts: %w", job, err)
	}
	return b, nil
}

// BlessedOf are the generations of a job's steps that count, by step.
func (s *Store) BlessedOf(ctx context.Context, job uint32) ([]session.Blessed, error) {
	all, err := query(ctx, s.db, `SELECT `+blessedColumns+` FROM blessed WHERE job = ?1 AND at > `+earlierJob+` ORDER BY step`, scanBlessed, job)
	if err != nil {
		return nil, fmt.Errorf("reading the generations of job %d that count: %w", job, err)
	}
	return all, nil
}
