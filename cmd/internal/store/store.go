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
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"modernc.org/sqlite"
)

//go:embed schema/*.sql
var schema embed.FS

// Store is an open journal. Its methods may be called concurrently.
type Store struct {
	db   *sql.DB
	long *sql.DB // for long reads, which must not keep others from the journal
	path string
	// maxLog is the size in bytes at which the write-ahead log is emptied before the
	// next transaction, which waits for a long read that goes on, and which the next
	// one waits for. SQLite begins the log anew only when a commit meets no reader:
	// reads without a pause would let it grow for ever.
	maxLog int64
	reads  sync.RWMutex // held by a long read, which no transaction makes: it would wait for itself
	grown  atomic.Int64 // bytes that the log had when another process kept it from being emptied
	small  together     // what ft writes
	days   calendar     // by which the ledger is summed up

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
	db, err := connect(path, "journal_mode(WAL)", "synchronous(FULL)", "foreign_keys(ON)")
	if err != nil {
		return nil, fmt.Errorf("opening the journal %s: %w", path, err)
	}
	long, err := connect(path, "query_only(ON)")
	if err != nil {
		return nil, errors.Join(fmt.Errorf("opening the journal %s: %w", path, err), db.Close())
	}
	s := &Store{db: db, long: long, path: path, maxLog: 64 << 20, days: calendar{time.Local}, changed: make(chan struct{})}
	if err := s.migrate(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("opening the journal %s: %w", path, err), s.Close())
	}
	for _, keep := range []func(context.Context) error{s.keepDays, s.keepLost} {
		if err := keep(ctx); err != nil {
			return nil, errors.Join(fmt.Errorf("opening the journal %s: %w", path, err), s.Close())
		}
	}
	return s, nil
}

// busyTimeout is how long a connection waits for another one's lock, in ms.
const busyTimeout = "busy_timeout(10000)"

// connect prepares one connection; it is made when it is first used.
func connect(path string, pragmas ...string) (*sql.DB, error) {
	dsn := "file:" + (&url.URL{Path: path}).EscapedPath() + "?" + url.Values{"_pragma": append(pragmas, busyTimeout),
		"_txlock": {"immediate"}}.Encode()
	connector, err := sqlite.NewConnector(dsn)
	if err != nil {
		return nil, err
	}
	db := sql.OpenDB(keeper{connector})
	db.SetMaxOpenConns(1) // one writer; its reads are short
	return db, nil
}

// Close ends the use of the journal.
func (s *Store) Close() error { return errors.Join(s.long.Close(), s.db.Close()) }

// Schema is the version of the schema that Open brings a journal to.
func Schema() int {
	files, err := fs.Glob(schema, "schema/*.sql")
	if err != nil { // of a bad pattern alone
		panic(err)
	}
	return len(files)
}

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

// shrinkLog empties the write-ahead log if it is large. It waits for a long read, but
// not for another process that reads the journal: it tries again when the log has
// grown by as much once more.
func (s *Store) shrinkLog(ctx context.Context) {
	if s.logSize() < s.grown.Load()+s.maxLog {
		return
	}
	s.reads.Lock()
	defer s.reads.Unlock()
	if s.logSize() < s.grown.Load()+s.maxLog {
		return // another transaction has emptied it meanwhile
	}
	conn, err := s.db.Conn(ctx)
	if err != nil {
		return // the transaction has the same error
	}
	defer conn.Close()
	for _, pragma := range []string{"busy_timeout = 0", "wal_checkpoint(TRUNCATE)", busyTimeout} {
		conn.ExecContext(context.WithoutCancel(ctx), "PRAGMA "+pragma) // an error, as of a full disk, the next commit has too
	}
	s.grown.Store(s.logSize())
}

// logSize is the size of the write-ahead log in bytes.
func (s *Store) logSize() int64 {
	info, err := os.Stat(s.path + "-wal")
	if err != nil {
		return 0 // nothing was written yet
	}
	return info.Size()
}

// ClusterID is the cluster's random id, made once: it marks our instances. It
// is also kept in the file cluster-id beside the journal, so that a journal that
// is lost does not leave instances behind which nobody knows for ours.
func (s *Store) ClusterID(ctx context.Context) (string, error) {
	file := filepath.Join(filepath.Dir(s.path), "cluster-id")
	var id string
	err := s.db.QueryRowContext(ctx, "SELECT value FROM meta WHERE key = 'cluster'").Scan(&id)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return "", fmt.Errorf("reading the cluster's id: %w", err)
	}
	kept, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("reading the cluster's id: %w", err)
	}
	if text := strings.TrimSpace(string(kept)); text != "" && id != "" && text != id {
		return "", fmt.Errorf("%s says %q and the journal %q: remove the one that is another cluster's", file, text, id)
	} else if id == "" {
		id = text
	}
	fresh := id == ""
	if fresh {
		var b [8]byte
		rand.Read(b[:])
		id = hex.EncodeToString(b[:])
	}
	if len(kept) == 0 {
		if err := writeFile(file, id+"\n"); err != nil {
			return "", fmt.Errorf("keeping the cluster's id: %w", err)
		}
	}
	err = s.tx(ctx, func(tx *sql.Tx) error {
		w := writer{ctx: ctx, tx: tx}
		w.put("INSERT INTO meta (key, value) VALUES ('cluster', ?) ON CONFLICT DO NOTHING", id)
		if fresh { // no cloud has anything of ours
			w.put("INSERT INTO heard (provider) VALUES ('') ON CONFLICT DO NOTHING")
		}
		return w.err
	})
	if err != nil {
		return "", fmt.Errorf("writing the cluster's id: %w", err)
	}
	return id, nil
}

// writeFile writes a small file so that it is whole or not there.
func writeFile(path, text string) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".new-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // gone already when the rename has succeeded
	_, err = f.WriteString(text)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return err
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// tx runs f in one transaction; an error of f undoes it.
func (s *Store) tx(ctx context.Context, f func(*sql.Tx) error) error {
	s.shrinkLog(ctx)
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // f may panic, and all others wait for the one connection
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
