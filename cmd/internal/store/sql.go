package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"time"
)

// scanner reads one row's columns.
type scanner func(dest ...any) error

type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// query reads all rows of a select, each by scan.
func query[T any](ctx context.Context, q querier, text string, scan func(scanner) (T, error), args ...any) ([]T, error) {
	rows, err := q.QueryContext(ctx, text, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var all []T
	for rows.Next() {
		v, err := scan(rows.Scan)
		if err != nil {
			return nil, err
		}
		all = append(all, v)
	}
	return all, rows.Err()
}

// queryLong is query for what reads many rows and any user may ask for.
func queryLong[T any](ctx context.Context, s *Store, text string, scan func(scanner) (T, error), args ...any) (all []T, err error) {
	err = s.beside(ctx, func(q querier) error {
		all, err = query(ctx, q, text, scan, args...)
		return err
	})
	return all, err
}

// beside reads beside the journal's connection, one at a time.
func (s *Store) beside(ctx context.Context, read func(querier) error) error {
	conn, err := s.long.Conn(ctx) // the only one: nobody else reads until it is given back
	if err != nil {
		return err
	}
	defer conn.Close()
	s.reads.RLock() // after the connection: who waits for that one holds up nothing
	defer s.reads.RUnlock()
	return read(conn)
}

// writer runs statements of one transaction until the first error. A
// statement is prepared once, however often it is put.
type writer struct {
	ctx   context.Context
	tx    *sql.Tx
	stmts map[string]*sql.Stmt
	err   error
}

func (w *writer) put(text string, args ...any) {
	if w.err != nil {
		return
	}
	st := w.stmts[text]
	if st == nil {
		if st, w.err = w.tx.PrepareContext(w.ctx, text); w.err != nil {
			return
		}
		if w.stmts == nil {
			w.stmts = map[string]*sql.Stmt{}
		}
		w.stmts[text] = st
	}
	_, w.err = st.ExecContext(w.ctx, args...)
}

func (w *writer) json(v any) string {
	b, err := json.Marshal(v)
	if err != nil && w.err == nil {
		w.err = err
	}
	return string(b)
}

// Event is one line of the history. Seq grows by at least one with each.
type Event struct {
	Seq                              int64
	Time                             time.Time
	Kind, Node, Instance, Pool, Text string
	Job                              uint32
}

func (w *writer) event(e Event) {
	w.put(`INSERT INTO events (time, kind, node, instance, pool, job, text) VALUES (?, ?, ?, ?, ?, ?, ?)`,
		fromTime(e.Time), e.Kind, e.Node, e.Instance, e.Pool, e.Job, e.Text)
}
