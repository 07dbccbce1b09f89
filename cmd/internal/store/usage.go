package store

import (
	"context"
	"database/sql"
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

const bookedColumns = `id, provider, token, pool, type, zone, market, node, launched, ended, gone, guessed`

// scanBooked reads what the ledger and budgets need of an instance.
func scanBooked(scan scanner) (i power.Instance, err error) {
	var launched, ended, gone int64
	err = scan(&i.ID, &i.Provider, &i.Token, &i.Pool, &i.Offering.Type, &i.Offering.Zone, &i.Offering.Market, &i.Assigned, &launched, &ended, &gone, &i.Guessed)
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

func loadUsage(ctx context.Context, q querier) (instances []power.Instance, rows []ledger.Row, err error) {
	if instances, err = query(ctx, q, unbooked, scanBooked); err != nil {
		return nil, nil, err
	}
	rows, err = query(ctx, q, `SELECT `+rowColumns+`
		FROM usage WHERE instance IN (SELECT instance FROM usage WHERE open) AND (open OR EXISTS (SELECT 1 FROM instances WHERE id = instance AND gone > 0))
		ORDER BY instance, began, job`, scanUsage)
	return instances, rows, err
}

func scanUsage(scan scanner) (r ledger.Row, err error) {
	var began, until, date int64
	var usd, onDemand sql.NullFloat64
	err = scan(&r.Instance, &r.Provider, &r.Pool, &r.Offering.Type, &r.Offering.Zone, &r.Offering.Market, &r.Node, &r.Job, &r.UID, &r.User, &r.Account,
		&began, &until, &r.Share, &usd, &date, &r.Price.Source, &onDemand, &r.Open)
	r.From, r.To, r.Price.USDPerHour, r.Price.Date = toTime(began), toTime(until), usd.Float64, toTime(date)
	r.USDPerHourOnDemand = onDemand.Float64
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
		if err := s.tx(ctx, func(tx *sql.Tx) error { return s.putUsage(ctx, tx, rows[:n]) }); err != nil {
			return fmt.Errorf("writing the ledger: %w", err)
		}
		rows = rows[n:]
	}
	return nil
}

func (s *Store) putUsage(ctx context.Context, tx *sql.Tx, rows []ledger.Row) error {
	w := writer{ctx: ctx, tx: tx}
	ids := instancesOf(rows)
	if err := s.unsumUsage(&w, ids); err != nil {
		return err
	}
	var jobs []uint32
	for _, r := range rows {
		if r.Job > 0 {
			jobs = append(jobs, r.Job)
		}
		w.put(`INSERT INTO usage (`+rowColumns+`)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
			ON CONFLICT DO UPDATE SET until = excluded.until, share = excluded.share, usd_per_hour = excluded.usd_per_hour,
			price_date = excluded.price_date, price_source = excluded.price_source,
			on_demand = excluded.on_demand, open = excluded.open`,
			r.Instance, r.Provider, r.Pool, r.Offering.Type, r.Offering.Zone, r.Offering.Market, r.Node, r.Job, r.UID, r.User, r.Account,
			fromTime(r.From), fromTime(r.To), r.Share, sql.NullFloat64{Float64: r.Price.USDPerHour, Valid: r.Price.Known()},
			fromTime(r.Price.Date), r.Price.Source, sql.NullFloat64{Float64: r.USDPerHourOnDemand, Valid: r.USDPerHourOnDemand > 0}, r.Open)
	}
	if w.err != nil {
		return w.err
	}
	if err := s.sumUsage(&w, ids); err != nil {
		return err
	}
	return s.countLost(&w, jobs)
}

// usageKeep is how much longer the ledger is kept than other closed records:
// with burstd's 90 days it is 400, more than a year.
const usageKeep = 310 * 24 * time.Hour

// pruneUsage forgets what was used so long before the given time. An instance
// leaves the journal before it leaves the ledger: it is never booked again.
func (s *Store) pruneUsage(ctx context.Context, before time.Time) error {
	old := fromTime(before.Add(-usageKeep))
	for _, d := range []struct {
		text string
		arg  any
	}{
		// What is really forgotten: a clock that was once far ahead has no say in what is booked when it is right again.
		{`INSERT INTO meta (key, value) SELECT 'ledger_since', CAST(max(until) AS TEXT) FROM usage WHERE NOT open AND until < ? HAVING max(until) IS NOT NULL
			ON CONFLICT DO UPDATE SET value = excluded.value WHERE CAST(excluded.value AS INTEGER) > CAST(value AS INTEGER)`, old},
		{`DELETE FROM usage WHERE NOT open AND until < ?`, old},
		{`DELETE FROM bills WHERE gone < ? AND NOT EXISTS (SELECT 1 FROM usage WHERE usage.instance = bills.instance)`, old},
		{`DELETE FROM usage_days WHERE day < ?`, s.days.day(old)},
		{`DELETE FROM usage_jobs WHERE day < ?`, s.days.day(old)},
		{`DELETE FROM usage_for WHERE day < ?`, s.days.day(old)},
		{`DELETE FROM usage_nights WHERE day < ?`, s.days.day(old)},
		{`DELETE FROM usage_dims WHERE ?1 AND id NOT IN (SELECT dim FROM usage_days)`, true},
	} {
		if _, err := s.db.ExecContext(ctx, d.text, d.arg); err != nil {
			return err
		}
	}
	return s.pruneLost(ctx, old)
}
