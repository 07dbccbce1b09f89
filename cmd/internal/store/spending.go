package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"

	"github.com/burst-hpc/burst/cloud/price"
	"github.com/burst-hpc/burst/cmd/internal/ledger"
	"github.com/burst-hpc/burst/slurm/power"
)

// SpendingQuery says what of the ledger budgets ask for.
type SpendingQuery struct {
	Periods []price.Span
	Jobs    []uint32
}

// Spending is what budgets count of the ledger, and what it has still to book, of one moment.
type Spending struct {
	// Instances and Rows are as LoadUsage has them.
	Instances []power.Instance
	Rows      []ledger.Row
	Spent     []Spent         // of each period
	Jobs      map[uint32]Sums // of each job, since the last one of its id has ended for good
}

// Spent is what a user has used in a period under an account.
type Spent struct {
	Period        int // of the query's
	User, Account string
	Sums
}

// Sums are of instances' shares.
type Sums struct {
	USD      float64 // of those of which the price is known
	Unpriced float64 // hours of the others
}

// sums are in SQL those of rows u that are cut by two times in microseconds.
func sums(from, to string) string {
	hours := "share * (min(u.until, " + to + ") - max(u.began, " + from + ")) / 3.6e9"
	return "coalesce(sum(" + hours + " * usd_per_hour), 0), coalesce(sum(" + hours + ") FILTER (WHERE usd_per_hour IS NULL), 0)"
}

// Spending reads all of it in one transaction: nothing is booked in between.
func (s *Store) Spending(ctx context.Context, q SpendingQuery) (sp Spending, err error) {
	spans := make([][2]int64, len(q.Periods))
	for i, p := range q.Periods {
		spans[i] = [2]int64{fromTime(p.From), fromTime(p.To)}
	}
	periods, err := json.Marshal(spans)
	if err != nil {
		return sp, err
	}
	jobs, err := json.Marshal(append([]uint32{}, q.Jobs...))
	if err != nil {
		return sp, err
	}
	sp.Jobs = map[uint32]Sums{}
	err = s.tx(ctx, func(tx *sql.Tx) (err error) {
		if sp.Instances, sp.Rows, err = loadUsage(ctx, tx); err != nil {
			return err
		}
		// CROSS JOIN: SQLite goes through the periods, and of each finds the rows by their end.
		if sp.Spent, err = query(ctx, tx, `WITH p AS MATERIALIZED (SELECT key, value->>0 AS since, value->>1 AS till FROM json_each(?))
			SELECT p.key, user, account, `+sums("p.since", "p.till")+`
			FROM p CROSS JOIN usage u WHERE u.until > p.since AND u.began < p.till AND u.until > u.began
			GROUP BY p.key, user, account`, func(scan scanner) (s Spent, err error) {
			err = scan(&s.Period, &s.User, &s.Account, &s.USD, &s.Unpriced)
			return s, err
		}, string(periods)); err != nil {
			return err
		}
		_, err = query(ctx, tx, `SELECT job, `+sums("since", "u.until")+` FROM (SELECT j.value AS id,
				(SELECT coalesce(max(ended), 0) FROM runs r WHERE r.job = j.value AND NOT r.open) AS since FROM json_each(?) j)
			CROSS JOIN usage u WHERE u.job = id AND u.job > 0 AND u.until > since GROUP BY job`, func(scan scanner) (none struct{}, err error) {
			var job uint32
			var s Sums
			err = scan(&job, &s.USD, &s.Unpriced)
			sp.Jobs[job] = s
			return none, err
		}, string(jobs))
		return err
	})
	if err != nil {
		return Spending{}, fmt.Errorf("reading what is spent: %w", err)
	}
	return sp, nil
}

// HasEvent says whether an event of the kind is kept whose text begins so.
func (s *Store) HasEvent(ctx context.Context, kind, begin string) (have bool, err error) {
	err = s.db.QueryRowContext(ctx, "SELECT EXISTS (SELECT 1 FROM events WHERE kind = ?1 AND substr(text, 1, length(?2)) = ?2)", kind, begin).Scan(&have)
	if err != nil {
		return false, fmt.Errorf("reading the events: %w", err)
	}
	return have, nil
}
