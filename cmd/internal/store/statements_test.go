package store

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"testing"

	"modernc.org/sqlite"
)

// counting counts what is prepared and not yet finalized, and all that ever was.
type counting struct {
	driver.Connector
	prepared, open int
}

type countedConn struct {
	sqliteConn
	n *counting
}

type countedStmt struct {
	sqliteStmt
	n *counting
}

func (c *counting) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &countedConn{conn.(sqliteConn), c}, nil
}

func (c *countedConn) PrepareContext(ctx context.Context, text string) (driver.Stmt, error) {
	s, err := c.sqliteConn.PrepareContext(ctx, text)
	if err != nil {
		return nil, err
	}
	c.n.prepared++
	c.n.open++
	return &countedStmt{s.(sqliteStmt), c.n}, nil
}

func (s *countedStmt) Close() error {
	s.n.open--
	return s.sqliteStmt.Close()
}

func TestStatementsAreKept(t *testing.T) {
	ctx := t.Context()
	inner, err := sqlite.NewConnector("file:" + t.TempDir() + "/kept.db?_pragma=journal_mode(WAL)")
	if err != nil {
		t.Fatal(err)
	}
	n := &counting{Connector: inner}
	db := sql.OpenDB(keeper{n})
	db.SetMaxOpenConns(1)
	exec := func(text string, args ...any) {
		t.Helper()
		if _, err := db.ExecContext(ctx, text, args...); err != nil {
			t.Fatal(err)
		}
	}
	var q querier = db
	count := func(want string) { // as the rows are: a, b
		t.Helper()
		all, err := query(ctx, q, "SELECT * FROM t WHERE a > ? ORDER BY a", func(scan scanner) (s string, err error) {
			a, b := 0, ""
			err = scan(&a, &b)
			return fmt.Sprintf("%d %s", a, b), err
		}, 0)
		if err != nil || fmt.Sprint(all) != want {
			t.Fatalf("%v, %v; want %s", all, err, want)
		}
	}
	exec("CREATE TABLE t (a INTEGER PRIMARY KEY); INSERT INTO t VALUES (1)")
	exec("ALTER TABLE t ADD COLUMN b TEXT DEFAULT 'b'")
	for range 3 {
		count("[1 b]")
	}
	if n.prepared != 1 {
		t.Errorf("%d statements were prepared for three times the same query", n.prepared)
	}

	// Two transactions, of which the second fails and leaves the statement fit for use.
	tx := func(a ...int) error {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			t.Fatal(err)
		}
		w := writer{ctx: ctx, tx: tx}
		for _, a := range a {
			w.put("INSERT INTO t (a) VALUES (?)", a)
		}
		if q = tx; w.err == nil { // a transaction sees its own
			count("[1 b 2 b]")
		}
		q = db
		if w.err != nil {
			return errors.Join(w.err, tx.Rollback())
		}
		return tx.Commit()
	}
	if err := tx(2); err != nil {
		t.Fatal(err)
	}
	if err := tx(3, 3); err == nil {
		t.Fatal("the same key twice")
	}
	count("[1 b 2 b]")
	if n.prepared != 2 {
		t.Errorf("%d statements were prepared, want 2", n.prepared)
	}

	// Another's, or another version's, table: the statement is not the old one's.
	exec("UPDATE t SET b = 'c'")
	exec("CREATE TABLE u (a INTEGER PRIMARY KEY, b TEXT); INSERT INTO u VALUES (7, 'd'); DROP TABLE t; ALTER TABLE u RENAME TO t")
	count("[7 d]")

	// The same while its rows are open is a second statement.
	conn, err := db.Conn(ctx)
	if err != nil {
		t.Fatal(err)
	}
	q = conn
	rows, err := conn.QueryContext(ctx, "SELECT * FROM t WHERE a > ? ORDER BY a", 0)
	if err != nil || !rows.Next() {
		t.Fatal(err)
	}
	count("[7 d]")
	if err := rows.Close(); err != nil {
		t.Fatal(err)
	}
	count("[7 d]")
	if n.prepared != 3 || n.open != 2 {
		t.Errorf("%d were prepared, %d are kept; want 3, 2", n.prepared, n.open)
	}

	for i := range 2 * maxKept {
		if _, err := query(ctx, q, fmt.Sprintf("SELECT %d", i), func(scan scanner) (a int, err error) { return a, scan(&a) }); err != nil {
			t.Fatal(err)
		}
	}
	if n.open != maxKept {
		t.Errorf("%d statements are kept, want %d", n.open, maxKept)
	}
	if err := errors.Join(conn.Close(), db.Close()); err != nil || n.open != 0 {
		t.Errorf("after the end: %v, %d statements are open", err, n.open)
	}
}
