// Package store is burstd's journal, one SQLite file on a local disk: orders,
// nodes, launches, instances, notices, evictions and the events that tell of
// them. It is written by one process and durable when a commit returns.
package store

import (
	"context"
	"crypto/rand"
	"database/sql"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"time"

	_ "modernc.org/sqlite" // the driver "sqlite"
)

//go:embed schema/*.sql
var schema embed.FS

// Store is an open journal. Its methods may be called concurrently.
type Store struct {
	db   *sql.DB
	path string

	mu      sync.Mutex
	changed chan struct{} // closed and replaced when an event is written
}

// ErrNewer is wrapped when the file was written by a newer burstd.
var ErrNewer = errors.New("the journal's schema is newer than this burstd")

// Open opens the journal at path, makes it if it is not there, and brings its
// schema up to date. The folder must exist.
func Open(ctx context.Context, path string) (*Store, error) {
	// The file's mode is SQLite's (0644 less umask); jobs' and sites' names are nobody else's affair.
	if f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o640); err != nil {
		return nil, fmt.Errorf("opening the journal: %w", err)
	} else if err := f.Close(); err != nil {
		return nil, fmt.Errorf("opening the journal %s: %w", path, err)
	}
	dsn := "file:" + (&url.URL{Path: path}).EscapedPath() + "?" + url.Values{"_pragma": {
		"journal_mode(WAL)", "synchronous(FULL)", "foreign_keys(ON)", "busy_timeout(10000)"},
		"_txlock": {"immediate"}}.Encode()
	db, err := sql.Open("sqlite", dsn)
	if err != nil {
		return nil, fmt.Errorf("opening the journal %s: %w", path, err)
	}
	db.SetMaxOpenConns(1) // one writer; reads are short
	s := &Store{db: db, path: path, changed: make(chan struct{})}
	if err := s.migrate(ctx); err != nil {
		db.Close()
		return nil, fmt.Errorf("opening the journal %s: %w", path, err)
	}
	return s, nil
}

// Close ends the use of the journal.
func (s *Store) Close() error { return s.db.Close() }

// migrate applies schema/NNN.sql in order; user_version counts them.
func (s *Store) migrate(ctx context.Context) error {
	files, err := fs.Glob(schema, "schema/*.sql")
	if err != nil {
		return err
	}
	var version int
	if err := s.db.QueryRowContext(ctx, "PRAGMA user_version").Scan(&version); err != nil {
		return err
	}
	if version > len(files) {
		return fmt.Errorf("%w: it is %d, known are %d", ErrNewer, version, len(files))
	}
	for i := version; i < len(files); i++ {
		text, err := schema.ReadFile(files[i])
		if err != nil {
			return err
		}
		err = s.tx(ctx, func(tx *sql.Tx) error {
			if _, err := tx.ExecContext(ctx, string(text)); err != nil {
				return err
			}
			_, err := tx.ExecContext(ctx, fmt.Sprintf("PRAGMA user_version = %d", i+1))
			return err
		})
		if err != nil {
			return fmt.Errorf("migration %s: %w", filepath.Base(files[i]), err)
		}
	}
	return nil
}

// ClusterID is the cluster's random id, made once: it marks our instances.
func (s *Store) ClusterID(ctx context.Context) (string, error) {
	var b [8]byte
	rand.Read(b[:])
	if _, err := s.db.ExecContext(ctx, "INSERT INTO meta (key, value) VALUES ('cluster', ?) ON CONFLICT DO NOTHING", hex.EncodeToString(b[:])); err != nil {
		return "", fmt.Errorf("writing the cluster's id: %w", err)
	}
	var id string
	err := s.db.QueryRowContext(ctx, "SELECT value FROM meta WHERE key = 'cluster'").Scan(&id)
	return id, err
}

// tx runs f in one transaction; an error of f undoes it.
func (s *Store) tx(ctx context.Context, f func(*sql.Tx) error) error {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	if err := f(tx); err != nil {
		return errors.Join(err, ignoreDone(tx.Rollback()))
	}
	return tx.Commit()
}

// ignoreDone drops the error of rolling back what SQLite has rolled back itself.
func ignoreDone(err error) error {
	if errors.Is(err, sql.ErrTxDone) {
		return nil
	}
	return err
}

// A time is stored as microseconds since 1970, 0 for none: it sorts, and an
// admin reads it with datetime(t/1000000, 'unixepoch').
func toTime(us int64) time.Time {
	if us == 0 {
		return time.Time{}
	}
	return time.UnixMicro(us)
}

func fromTime(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}
