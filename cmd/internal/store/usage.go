package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"time"

	"github.com/burst-hpc/burst/cmd/internal/ledger"
	"github.com/burst-hpc/burst/slurm/power"
)

// unbooked selects the instances that live, those with an open row, and those
// that came and went between two rounds of the ledger; of the latter it looks a
// day back, not through the whole history.
const unbooked = `SELECT ` + bookedColumns + ` FROM instances WHERE gone = 0
	UNION SELECT ` + bookedColumns + ` FROM instances WHERE id IN (SELECT instance FROM usage WHERE open)
	UNION SELECT ` + bookedColumns + ` FROM instances WHERE gone > 0
		AND gone > coalesce((SELECT max(until) FROM usage), 0) - 86400000000
		AND NOT EXISTS (SELECT 1 FROM usage WHERE instance = id)
	ORDER BY id`

const bookedColumns = `id, provider, pool, type, zone, market, node, launched, ended, gone`

// scanBooked reads what the ledger needs of an instance.
func scanBooked(scan scanner) (i power.Instance, err error) {
	var launched, ended, gone int64
	err = scan(&i.ID, &i.Provider, &i.Pool, &i.Offering.Type, &i.Offering.Zone, &i.Offering.Market, &i.Assigned, &launched, &ended, &gone)
	i.Launched, i.Ended, i.Gone = toTime(launched), toTime(ended), toTime(gone)
	return i, err
}

// LoadUsage reads what the ledger has to go on with: the instances that live,
// or have ended and are not at their end in it, and ledger.Book's known rows.
func (s *Store) LoadUsage(ctx context.Context) ([]power.Instance, []ledger.Row, error) {
	var instances []power.Instance
	var rows []ledger.Row
	err := s.tx(ctx, func(tx *sql.Tx) (err error) {
		instances, rows, err = loadUsage(ctx, tx)
		return err
	})
	if err != nil {
		return nil, nil, fmt.Errorf("reading the ledger: %w", err)
	}
	return instances, rows, nil
}

func loadUsage(ctx context.Context, tx *sql.Tx) (instances []power.Instance, rows []ledger.Row, err error) {
	if instances, err = query(ctx, tx, unbooked, scanBooked); err != nil {
		return nil, nil, err
	}
	rows, err = query(ctx, tx, `SELECT instance, provider, pool, type, zone, market, node, job, uid, user, account, began, until, share, usd_per_hour, price_date, price_source, open
		FROM usage u WHERE open OR instance IN (SELECT id FROM instances WHERE gone > 0 AND EXISTS (SELECT 1 FROM usage WHERE open AND instance = id))
		ORDER BY instance, began, job`, scanUsage)
	return instances, rows, err
}

func scanUsage(scan scanner) (r ledger.Row, err error) {
	var began, until, date int64
	var usd sql.NullFloat64
	err = scan(&r.Instance, &r.Provider, &r.Pool, &r.Offering.Type, &r.Offering.Zone, &r.Offering.Market, &r.Node, &r.Job, &r.UID, &r.User, &r.Account,
		&began, &until, &r.Share, &usd, &date, &r.Price.Source, &r.Open)
	r.From, r.To, r.Price.USDPerHour, r.Price.Date = toTime(began), toTime(until), usd.Float64, toTime(date)
	return r, err
}

// usageBatch is how many rows one transaction writes, at least: others write
// in between.
const usageBatch = 500

// PutUsage writes rows of the ledger by their keys, all of an instance, which
// stand together, in one transaction.
func (s *Store) PutUsage(ctx context.Context, rows []ledger.Row) error {
	for len(rows) > 0 {
		n := min(usageBatch, len(rows))
		for n < len(rows) && rows[n].Instance == rows[n-1].Instance {
			n++
		}
		if err := s.tx(ctx, func(tx *sql.Tx) error { return putUsage(ctx, tx, rows[:n]) }); err != nil {
			return fmt.Errorf("writing the ledger: %w", err)
		}
		rows = rows[n:]
	}
	return nil
}

func putUsage(ctx context.Context, tx *sql.Tx, rows []ledger.Row) error {
	w := writer{ctx: ctx, tx: tx}
	for _, r := range rows {
		w.put(`INSERT INTO usage (instance, provider, pool, type, zone, market, node, job, uid, user, account, began, until, share, usd_per_hour, price_date, price_source, open)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
			ON CONFLICT DO UPDATE SET until = excluded.until, share = excluded.share, usd_per_hour = excluded.usd_per_hour,
			price_date = excluded.price_date, price_source = excluded.price_source, open = excluded.open`,
			r.Instance, r.Provider, r.Pool, r.Offering.Type, r.Offering.Zone, r.Offering.Market, r.Node, r.Job, r.UID, r.User, r.Account,
			fromTime(r.From), fromTime(r.To), r.Share, sql.NullFloat64{Float64: r.Price.USDPerHour, Valid: r.Price.Known()},
			fromTime(r.Price.Date), r.Price.Source, r.Open)
	}
	return w.err
}

// UsageQuery says which sums of the ledger are asked for.
type UsageQuery struct {
	Since time.Time // what was before is left out, also of rows that go over it
	By    string    // "job", "user", "account", "pool", "provider" or "offering"
	UID   int       // of one user's jobs only; below 0: everything
	// Owed are rows that count beside those written: an instance's begun hour.
	Owed []ledger.Row
}

// Usage is what one job, user, account, pool, provider or offering has used.
type Usage struct {
	Key           string // "" for time that no job had, where it is by job, user or account
	Job           uint32 // by job: of the job, and its user and account
	User, Account string
	Seconds       float64 // of instances
	USD           float64 // of those of which the price is known
	Unpriced      float64 // of Seconds: the price is not known
	Instances     int
}

// usageKeys are what a UsageQuery may group by, in SQL.
var usageKeys = map[string]string{
	"job":      "CASE job WHEN 0 THEN '' ELSE CAST(job AS TEXT) END",
	"user":     "user",
	"account":  "CASE WHEN job > 0 AND account = '' THEN '(none)' ELSE account END",
	"pool":     "pool",
	"provider": "provider",
	"offering": "type || CASE zone WHEN '' THEN '' ELSE '/' || zone END || '/' || market",
}

// Usage sums the ledger up, the most expensive first.
func (s *Store) Usage(ctx context.Context, q UsageQuery) ([]Usage, error) {
	key, ok := usageKeys[q.By]
	if !ok {
		return nil, fmt.Errorf("the ledger cannot be summed up by %q", q.By)
	}
	whose := "uid >= 0 AND uid = ?2"
	if q.UID < 0 {
		whose = "?2 < 0"
	}
	owed, err := owedRows(q.Owed)
	if err != nil {
		return nil, fmt.Errorf("reading the ledger: %w", err)
	}
	all, err := queryLong(ctx, s, `SELECT key, min(job), min(user), min(account), sum(s), coalesce(sum(s * usd_per_hour / 3600), 0),
		coalesce(sum(s) FILTER (WHERE usd_per_hour IS NULL), 0), count(DISTINCT instance)
		FROM (SELECT `+key+` AS key, job, user, account, instance, usd_per_hour, share * (until - max(began, ?1)) / 1e6 AS s
			FROM (SELECT `+summedColumns+` FROM usage UNION ALL SELECT `+owedColumns+` FROM json_each(?3)) WHERE until > ?1 AND until > began AND `+whose+`)
		GROUP BY key ORDER BY 6 DESC, 5 DESC, 1`, func(scan scanner) (u Usage, err error) {
		err = scan(&u.Key, &u.Job, &u.User, &u.Account, &u.Seconds, &u.USD, &u.Unpriced, &u.Instances)
		return u, err
	}, fromTime(q.Since), q.UID, owed)
	if err != nil {
		return nil, fmt.Errorf("reading the ledger: %w", err)
	}
	if q.By != "job" {
		for i := range all {
			all[i].Job, all[i].User, all[i].Account = 0, "", ""
		}
	}
	return all, nil
}

// summedColumns are what the sums need of a row, and owedColumns the same of an
// element of owedRows.
const (
	summedColumns = `instance, provider, pool, type, zone, market, job, uid, user, account, began, until, share, usd_per_hour`
	owedColumns   = `value->>0, value->>1, value->>2, value->>3, value->>4, value->>5, 0, -1, '', '', value->>6, value->>7, 1.0, value->>8`
)

// owedRows are rows that no job has, as SQLite's JSON.
func owedRows(rows []ledger.Row) (string, error) {
	all := make([][9]any, 0, len(rows))
	for _, r := range rows {
		var usd any // null: not known
		if r.Price.Known() {
			usd = r.Price.USDPerHour
		}
		all = append(all, [9]any{r.Instance, r.Provider, r.Pool, r.Offering.Type, r.Offering.Zone, r.Offering.Market, fromTime(r.From), fromTime(r.To), usd})
	}
	text, err := json.Marshal(all)
	return string(text), err
}

// usageKeep is how much longer the ledger is kept than other closed records:
// with burstd's 90 days it is 400, more than a year.
const usageKeep = 310 * 24 * time.Hour

// pruneUsage forgets what was used so long before the given time. An instance
// leaves the journal before it leaves the ledger: it is never booked again.
func (s *Store) pruneUsage(ctx context.Context, before time.Time) error {
	_, err := s.db.ExecContext(ctx, `DELETE FROM usage WHERE NOT open AND until < ?`, fromTime(before.Add(-usageKeep)))
	return err
}
