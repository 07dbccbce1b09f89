package store

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/burst-hpc/burst/cmd/internal/history"
)

// Unsettled reads runs that have ended after the given time, on nodes of ours, and of
// which SettleRuns has not been told yet: those that ended first, up to so many. One
// that was opened again, and has ended anew, is among them anew.
func (s *Store) Unsettled(ctx context.Context, after time.Time, most int) ([]history.Run, error) {
	all, err := query(ctx, s.db, `SELECT `+runColumns+` FROM runs WHERE NOT open AND ended > ? AND settled <> ended AND pool <> '' AND state <> ?
		ORDER BY ended LIMIT ?`, scanRun, fromTime(after), history.Unknown, most)
	if err != nil {
		return nil, fmt.Errorf("reading the runs that have ended: %w", err)
	}
	return all, nil
}

// SettleRuns notes that what the jobs of the runs ask for after their end is seen to,
// or is about to be: it is not done twice.
func (s *Store) SettleRuns(ctx context.Context, runs []history.Run) error {
	err := s.tx(ctx, func(tx *sql.Tx) error {
		w := writer{ctx: ctx, tx: tx}
		for _, r := range runs {
			w.put(`UPDATE runs SET settled = ?3 WHERE job = ?1 AND submitted = ?2`, r.Job, fromTime(r.Submitted), fromTime(r.Ended))
		}
		return w.err
	})
	if err != nil {
		return fmt.Errorf("writing the history of runs: %w", err)
	}
	return nil
}
