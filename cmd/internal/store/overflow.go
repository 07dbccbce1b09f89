package store

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/burst-hpc/burst/slurm/overflow"
)

// Overflowed is a job to which partitions of a cloud were added, and what became of it.
type Overflowed struct {
	overflow.Record
	User     string
	Why      string
	Ended    time.Time // zero: it may have them still
	EndedWhy string
}

const overflowColumns = `job, task, added, uid, user, submitted, restarts, rule, was, goes, state, why, ended, ended_why`

func scanOverflowed(scan scanner) (o Overflowed, err error) {
	var added, submitted, ended int64
	var was, to string
	err = scan(&o.Job, &o.Task, &added, &o.UID, &o.User, &submitted, &o.Restarts, &o.Rule, &was, &to, &o.State, &o.Why, &ended, &o.EndedWhy)
	o.At, o.Submitted, o.Ended = toTime(added), toTime(submitted), toTime(ended)
	o.Was, o.To = strings.Split(was, ","), strings.Split(to, ",")
	if ended == 0 {
		o.TakenFor, o.EndedWhy = o.EndedWhy, ""
	}
	return o, err
}

// OpenOverflows reads those that have not ended.
func (s *Store) OpenOverflows(ctx context.Context) ([]Overflowed, error) {
	all, err := query(ctx, s.db, `SELECT `+overflowColumns+` FROM overflows WHERE ended = 0 ORDER BY added, job, task`, scanOverflowed)
	if err != nil {
		return nil, fmt.Errorf("reading the jobs that overflow: %w", err)
	}
	return all, nil
}

// PutOverflows writes rows, in one transaction; a row of the same job, task and time is
// replaced.
func (s *Store) PutOverflows(ctx context.Context, rows []Overflowed) error {
	err := s.tx(ctx, func(tx *sql.Tx) error {
		w := writer{ctx: ctx, tx: tx}
		for _, o := range rows {
			w.put(`INSERT INTO overflows (`+overflowColumns+`) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
				ON CONFLICT (job, task, added) DO UPDATE SET state = excluded.state, ended = excluded.ended, ended_why = excluded.ended_why`,
				o.Job, o.Task, fromTime(o.At), o.UID, o.User, fromTime(o.Submitted), o.Restarts, o.Rule, strings.Join(o.Was, ","), strings.Join(o.To, ","),
				o.State, o.Why, fromTime(o.Ended), cmp.Or(o.EndedWhy, o.TakenFor))
		}
		return w.err
	})
	if err != nil {
		return fmt.Errorf("writing the jobs that overflow: %w", err)
	}
	return nil
}

// Overflows reads the newest rows, at most last of them, oldest first: of one user, or with uid
// below 0 of all.
func (s *Store) Overflows(ctx context.Context, uid, last int) ([]Overflowed, error) {
	all, err := queryLong(ctx, s, `SELECT `+overflowColumns+` FROM overflows WHERE ?1 < 0 OR uid = ?1 ORDER BY added DESC, job DESC, task DESC LIMIT ?2`, scanOverflowed, uid, last)
	if err != nil {
		return nil, fmt.Errorf("reading the jobs that overflowed: %w", err)
	}
	slices.Reverse(all)
	return all, nil
}
