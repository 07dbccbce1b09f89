package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/ft"
	"github.com/burst-hpc/burst/ft/notice"
)

// AddNotice makes a notice durable; what several say under one key is merged. It
// is false for one that is known already and no more urgent.
func (s *Store) AddNotice(ctx context.Context, provider string, n cloud.Notice) (bool, error) {
	var effect notice.Effect
	err := s.small.do(ctx, s, func(w *writer) { effect = w.addNotice(provider, n) })
	if err != nil {
		return false, fmt.Errorf("writing the notice for %s: %w", n.Instance, err)
	}
	return effect != notice.Nothing, nil
}

// addNotice merges a notice into its row. What is opened again begins anew.
func (w *writer) addNotice(provider string, n cloud.Notice) notice.Effect {
	if w.err != nil {
		return notice.Nothing
	}
	rec, stage, err := readRecord(w, n)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		w.err = err
		return notice.Nothing
	}
	effect := rec.Add(n, stage == ft.Acked)
	next := rec.Next()
	w.put(`INSERT INTO notices (instance, kind, provider, deadline, received, source, node, stage, action, event, cancelled)
		VALUES (?, ?, ?, ?, ?, ?, '', ?, ?, ?, ?)
		ON CONFLICT DO UPDATE SET deadline = excluded.deadline, received = excluded.received, source = excluded.source,
		action = excluded.action, event = excluded.event, cancelled = excluded.cancelled`,
		n.Instance, n.Kind, provider, fromTime(next.Deadline), fromTime(rec.Received), rec.Source, ft.Heard, next.Action, w.json(rec.Events), next.Cancelled)
	if effect == notice.Opened && stage == ft.Acked {
		w.put(`UPDATE notices SET stage = ?, node = '', ahead = '' WHERE instance = ? AND kind = ?`, ft.Heard, n.Instance, n.Kind)
	}
	return effect
}

func readRecord(w *writer, n cloud.Notice) (r notice.Record, stage ft.Stage, err error) {
	var received int64
	var events string
	var only notice.Event // of a row written before there were several
	var deadline int64
	err = w.tx.QueryRowContext(w.ctx, `SELECT received, source, stage, event, deadline FROM notices WHERE instance = ? AND kind = ?`, n.Instance, n.Kind).
		Scan(&received, &r.Source, &stage, &events, &deadline)
	if err != nil {
		return r, stage, err
	}
	r.Received, only.Deadline = toTime(received), toTime(deadline)
	if events == "" {
		r.Events = []notice.Event{only}
		return r, stage, nil
	}
	return r, stage, json.Unmarshal([]byte(events), &r.Events)
}

// LoadFT reads the notices that are not closed, and the evictions under them.
func (s *Store) LoadFT(ctx context.Context) (ft.State, error) {
	var st ft.State
	err := s.tx(ctx, func(tx *sql.Tx) error {
		var err error
		if st.Notices, err = query(ctx, tx, `SELECT `+noticeColumns+` FROM notices WHERE stage <> ? ORDER BY deadline, instance`, scanNotice, ft.Acked); err != nil {
			return err
		}
		st.Evictions, err = query(ctx, tx, `WITH open AS (SELECT instance, kind, job, restarts, started FROM evictions JOIN notices n USING (instance, kind) WHERE n.stage <> ?)
			SELECT `+evictionColumns+` FROM evictions e WHERE (instance, kind) IN (SELECT instance, kind FROM open)
			OR (job, restarts, started) IN (SELECT job, restarts, started FROM open) AND kind <> ? ORDER BY e.began, e.job`, scanEviction, ft.Acked, ft.Died)
		return err
	})
	if err != nil {
		return ft.State{}, fmt.Errorf("reading the journal: %w", err)
	}
	return st, nil
}

// Moved implements ft's journal.
func (s *Store) Moved(ctx context.Context, since time.Time) ([]ft.Eviction, error) {
	all, err := query(ctx, s.db, `SELECT `+evictionColumns+` FROM evictions e WHERE ending = 'moved' AND ended >= ? ORDER BY ended, job`, scanEviction, fromTime(since))
	if err != nil {
		return nil, fmt.Errorf("reading which jobs were requeued: %w", err)
	}
	return all, nil
}

const noticeColumns = "instance, kind, provider, deadline, received, source, node, stage, action, event, cancelled, ahead"

// NoticeOf is what is known under a key, of all that was announced; zero: nothing is.
func (s *Store) NoticeOf(ctx context.Context, instance string, kind cloud.NoticeKind) (ft.Notice, error) {
	n, err := scanNotice(s.db.QueryRowContext(ctx, `SELECT `+noticeColumns+` FROM notices WHERE instance = ? AND kind = ?`, instance, kind).Scan)
	if errors.Is(err, sql.ErrNoRows) {
		return ft.Notice{}, nil
	}
	if err != nil {
		return ft.Notice{}, fmt.Errorf("reading the notice for %s: %w", instance, err)
	}
	return n, nil
}

func scanNotice(scan scanner) (n ft.Notice, err error) {
	var deadline, received int64
	var events string
	if err = scan(&n.Instance, &n.Kind, &n.Provider, &deadline, &received, &n.Source, &n.Node, &n.Stage, &n.Action, &events, &n.Cancelled, &n.Ahead); err != nil {
		return n, err
	}
	n.Deadline, n.Received = toTime(deadline), toTime(received)
	if events != "" {
		var r notice.Record
		if err = json.Unmarshal([]byte(events), &r.Events); err != nil {
			return n, fmt.Errorf("the events of the notice for %s: %w", n.Instance, err)
		}
		n.Event = r.Next().ID
	}
	return n, nil
}

const evictionColumns = `e.instance, e.kind, e.job, e.restarts, e.node, e.stage, e.signal, e.grace, e.signalled, e.began, e.ended, e.outcome,
	e.ask, e.ask_by, e.started, e.lost, e.lost_iterations, e.hold, e.held, e.retries, e.ending`

func scanEviction(scan scanner) (e ft.Eviction, err error) {
	var grace, signalled, began, ended, by, started, lost int64
	err = scan(&e.Instance, &e.Kind, &e.Job, &e.Restarts, &e.Node, &e.Stage, &e.Signal, &grace, &signalled, &began, &ended, &e.Outcome,
		&e.Ask, &by, &started, &lost, &e.LostIterations, &e.Hold, &e.Held, &e.Retries, &e.Ending)
	e.Grace, e.By, e.Started = time.Duration(grace)*time.Microsecond, toTime(by), toTime(started)
	if e.Lost = time.Duration(lost) * time.Microsecond; lost < 0 {
		e.Lost = -1
	}
	e.SignalledAt, e.Began, e.Ended = toTime(signalled), toTime(began), toTime(ended)
	return e, err
}

// Attempts counts the attempts of a job after the given one that were evicted, and
// after the last one for which it was held: whoever let it go has seen those. An
// attempt that is being evicted counts; one that was left where it is does not, nor one that
// the site's budget ended.
func (s *Store) Attempts(ctx context.Context, job uint32, after int) (n int, err error) {
	err = s.db.QueryRowContext(ctx, `SELECT count(DISTINCT restarts) FROM evictions WHERE job = ?1 AND restarts > ?2 AND began > `+earlierJob+`
		AND restarts > (SELECT coalesce(max(restarts), -1) FROM evictions WHERE job = ?1 AND hold AND began > `+earlierJob+`)
		AND kind <> ?3 AND (stage IN ('signalled', 'requeued') OR ending = 'moved')`, job, after, ft.Spent).Scan(&n)
	if err != nil {
		return 0, fmt.Errorf("counting the evictions of job %d: %w", job, err)
	}
	return n, nil
}

// AttemptsOf are the evictions of a job that have ended its attempts, those of the first
// attempt first.
func (s *Store) AttemptsOf(ctx context.Context, job uint32) ([]ft.Eviction, error) {
	all, err := query(ctx, s.db, `SELECT `+evictionColumns+` FROM evictions e WHERE job = ?1 AND ending = 'moved' AND began > `+earlierJob+` ORDER BY restarts, began`,
		scanEviction, job)
	if err != nil {
		return nil, fmt.Errorf("reading the evictions of job %d: %w", job, err)
	}
	return all, nil
}

// CommitFT writes a change in one transaction, which other changes may share.
func (s *Store) CommitFT(ctx context.Context, c ft.Change) error {
	if err := s.small.do(ctx, s, func(w *writer) { w.putFT(c) }); err != nil {
		return fmt.Errorf("writing the journal: %w", err)
	}
	if len(c.Events) > 0 {
		s.notify()
	}
	return nil
}

func (w *writer) putFT(c ft.Change) {
	for _, n := range c.Notices {
		switch {
		case n.Stage == ft.Acked && n.Node == "": // for nobody of ours: of such there may be any number
			w.put(`DELETE FROM notices WHERE instance = ? AND kind = ? AND node = ''`, n.Instance, n.Kind)
			w.put(`UPDATE notices SET stage = ? WHERE instance = ? AND kind = ?`, n.Stage, n.Instance, n.Kind) // it had a node once
		case n.Stage == ft.Acked: // not if meanwhile it was cancelled, or is to be after all
			w.put(`UPDATE notices SET node = ?, stage = ? WHERE instance = ? AND kind = ? AND cancelled = ?`, n.Node, n.Stage, n.Instance, n.Kind, n.Cancelled)
		default: // the rest is AddNotice's: a more urgent one may have come meanwhile
			w.put(`UPDATE notices SET node = coalesce(nullif(?, ''), node), stage = ?, ahead = ? WHERE instance = ? AND kind = ?`, n.Node, n.Stage, n.Ahead, n.Instance, n.Kind)
		}
	}
	for _, e := range c.Evictions {
		lost := int64(-1)
		if e.Lost >= 0 {
			lost = e.Lost.Microseconds()
		}
		w.put(`INSERT OR REPLACE INTO evictions (instance, kind, job, restarts, node, stage, signal, grace, signalled, began, ended, outcome,
			ask, ask_by, started, lost, lost_iterations, hold, held, retries, ending) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`, e.Instance, e.Kind, e.Job, e.Restarts, e.Node, e.Stage, e.Signal,
			e.Grace.Microseconds(), fromTime(e.SignalledAt), fromTime(e.Began), fromTime(e.Ended), e.Outcome,
			e.Ask, fromTime(e.By), fromTime(e.Started), lost, e.LostIterations, e.Hold, e.Held, e.Retries, e.Ending)
	}
	for _, e := range c.Events {
		w.event(Event{Time: e.Time, Kind: e.Kind, Node: e.Node, Instance: e.Instance, Job: e.Job, Text: e.Text})
	}
}
