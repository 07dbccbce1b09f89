package store

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/ft"
)

// AddNotice makes a notice durable; of two with one key the earliest deadline
// wins. It is false for one that is known already and no more urgent.
func (s *Store) AddNotice(ctx context.Context, provider string, n cloud.Notice) (bool, error) {
	r, err := s.db.ExecContext(ctx, `INSERT INTO notices (instance, kind, provider, deadline, received, source, node, stage)
		VALUES (?, ?, ?, ?, ?, ?, '', ?)
		ON CONFLICT DO UPDATE SET deadline = excluded.deadline
		WHERE excluded.deadline > 0 AND (deadline = 0 OR excluded.deadline < deadline)`,
		n.Instance, n.Kind, provider, fromTime(n.Deadline), fromTime(n.Received), n.Source, ft.Heard)
	if err != nil {
		return false, fmt.Errorf("writing the notice for %s: %w", n.Instance, err)
	}
	rows, err := r.RowsAffected()
	return rows > 0, err
}

// LoadFT reads the notices that are not closed, and the evictions under them.
func (s *Store) LoadFT(ctx context.Context) (ft.State, error) {
	var st ft.State
	err := s.tx(ctx, func(tx *sql.Tx) error {
		var err error
		if st.Notices, err = query(ctx, tx, `SELECT instance, kind, provider, deadline, received, source, node, stage
			FROM notices WHERE stage <> ? ORDER BY deadline, instance`, func(scan scanner) (n ft.Notice, err error) {
			var deadline, received int64
			err = scan(&n.Instance, &n.Kind, &n.Provider, &deadline, &received, &n.Source, &n.Node, &n.Stage)
			n.Deadline, n.Received = toTime(deadline), toTime(received)
			return n, err
		}, ft.Acked); err != nil {
			return err
		}
		st.Evictions, err = query(ctx, tx, `SELECT e.instance, e.kind, e.job, e.restarts, e.node, e.stage, e.signal, e.grace, e.signalled, e.began, e.ended, e.outcome
			FROM evictions e JOIN notices n USING (instance, kind) WHERE n.stage <> ? ORDER BY e.began, e.job`, scanEviction, ft.Acked)
		return err
	})
	if err != nil {
		return ft.State{}, fmt.Errorf("reading the journal: %w", err)
	}
	return st, nil
}

func scanEviction(scan scanner) (e ft.Eviction, err error) {
	var grace, signalled, began, ended int64
	err = scan(&e.Instance, &e.Kind, &e.Job, &e.Restarts, &e.Node, &e.Stage, &e.Signal, &grace, &signalled, &began, &ended, &e.Outcome)
	e.Grace = time.Duration(grace) * time.Microsecond
	e.SignalledAt, e.Began, e.Ended = toTime(signalled), toTime(began), toTime(ended)
	return e, err
}

// Evictions reads the evictions that began since the given time, oldest first.
func (s *Store) Evictions(ctx context.Context, since time.Time) ([]ft.Eviction, error) {
	return query(ctx, s.db, `SELECT instance, kind, job, restarts, node, stage, signal, grace, signalled, began, ended, outcome
		FROM evictions WHERE began >= ? ORDER BY began, job`, scanEviction, fromTime(since))
}

// CommitFT writes a change in one transaction.
func (s *Store) CommitFT(ctx context.Context, c ft.Change) error {
	err := s.tx(ctx, func(tx *sql.Tx) error {
		w := writer{ctx: ctx, tx: tx}
		for _, n := range c.Notices {
			// The deadline is AddNotice's: a more urgent one may have come meanwhile.
			w.put(`UPDATE notices SET node = ?, stage = ? WHERE instance = ? AND kind = ?`, n.Node, n.Stage, n.Instance, n.Kind)
		}
		for _, e := range c.Evictions {
			w.put(`INSERT OR REPLACE INTO evictions (instance, kind, job, restarts, node, stage, signal, grace, signalled, began, ended, outcome)
				VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`, e.Instance, e.Kind, e.Job, e.Restarts, e.Node, e.Stage, e.Signal,
				e.Grace.Microseconds(), fromTime(e.SignalledAt), fromTime(e.Began), fromTime(e.Ended), e.Outcome)
		}
		for _, e := range c.Events {
			w.event(Event{Time: e.Time, Kind: e.Kind, Node: e.Node, Instance: e.Instance, Job: e.Job, Text: e.Text})
		}
		return w.err
	})
	if err != nil {
		return fmt.Errorf("writing the journal: %w", err)
	}
	if len(c.Events) > 0 {
		s.notify()
	}
	return nil
}
