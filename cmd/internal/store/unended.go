package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Unended is what may cost money and nobody watches if no burstd runs: an instance that is
// not known to be gone, or a launch that may have made some.
type Unended struct {
	ID       string // the instance's; empty: a launch
	Provider string
	Type     string // of an instance
	Nodes    []string
	Since    time.Time
}

// ErrLost is wrapped where a cluster's id lies without its journal: its instances may live, and
// nothing here has a list of them.
var ErrLost = errors.New("the journal is lost")

// ReadUnended reads them from the journal at path, of this or any earlier schema, which it
// leaves as it is. burstd may run. Where no burstd has been, with neither a journal nor a
// cluster's id, there are none.
func ReadUnended(ctx context.Context, path string) ([]Unended, error) {
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return nil, lost(path, "is not there")
	}
	db, err := connect(path, "query_only(ON)")
	if err != nil {
		return nil, fmt.Errorf("opening the journal %s: %w", path, err)
	}
	defer db.Close()
	var tables int
	if err := db.QueryRowContext(ctx, `SELECT count(*) FROM sqlite_schema WHERE name IN ('instances', 'launches')`).Scan(&tables); err != nil {
		return nil, fmt.Errorf("reading the journal %s: %w", path, err)
	}
	if tables < 2 {
		return nil, lost(path, "is empty")
	}
	all, err := query(ctx, db, `SELECT id, provider, type, CASE node WHEN '' THEN '[]' ELSE json_array(node) END, launched FROM instances WHERE gone = 0
		UNION ALL SELECT '', provider, '', nodes, created FROM launches WHERE resolved = 0 ORDER BY 5, 1`,
		func(scan scanner) (u Unended, err error) {
			var nodes string
			var since int64
			if err := scan(&u.ID, &u.Provider, &u.Type, &nodes, &since); err != nil {
				return u, err
			}
			u.Since = toTime(since)
			return u, json.Unmarshal([]byte(nodes), &u.Nodes)
		})
	if err != nil {
		return nil, fmt.Errorf("reading the journal %s: %w", path, err)
	}
	return all, nil
}

// lost is nil for a journal that was never begun: the cluster's id is made after it.
func lost(path, how string) error {
	id, err := os.ReadFile(filepath.Join(filepath.Dir(path), "cluster-id"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return fmt.Errorf("%w: %s %s, and the cluster's id cannot be read: %w", ErrLost, path, how, err)
	}
	return fmt.Errorf("%w: %s %s; instances of cluster %q may live", ErrLost, path, how, strings.TrimSpace(string(id)))
}
