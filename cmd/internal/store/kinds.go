package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
)

// Kinds notes of which kind ("aws", "vultr", …) the providers are, by their names, and returns that of all that
// there ever were: what the journal has of one that is not configured any more is billed as ever.
func (s *Store) Kinds(ctx context.Context, now map[string]string) (map[string]string, error) {
	all := map[string]string{}
	err := s.tx(ctx, func(tx *sql.Tx) error {
		var text string
		err := tx.QueryRowContext(ctx, "SELECT value FROM meta WHERE key = 'kinds'").Scan(&text)
		if err == nil {
			err = json.Unmarshal([]byte(text), &all)
		}
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return err
		}
		before := maps.Clone(all)
		maps.Copy(all, now)
		if maps.Equal(before, all) {
			return nil
		}
		raw, err := json.Marshal(all)
		if err != nil {
			return err
		}
		w := writer{ctx: ctx, tx: tx}
		w.put("INSERT INTO meta (key, value) VALUES ('kinds', ?) ON CONFLICT DO UPDATE SET value = excluded.value", string(raw))
		return w.err
	})
	if err != nil {
		return nil, fmt.Errorf("noting the kinds of providers: %w", err)
	}
	return all, nil
}
