package store

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/burst-hpc/burst/cloud/price"
	"github.com/burst-hpc/burst/slurm/power"
)

// Bill is an instance's time as its provider told it, beside what the ledger has booked of it.
type Bill struct {
	power.Instance // provider, offering, pool, node, and the times that were told
	// By is how it is billed; with a Unit below 0 that was not noted.
	By      price.Increment
	Booked  time.Duration // all of it
	Charged time.Duration // of Booked: what costs something
	USD     float64       // of Charged, where the price is known
	Unknown time.Duration // of Charged: the price is not known
}

// NoteBilling keeps how instances are billed that are at their end in the ledger.
func (s *Store) NoteBilling(ctx context.Context, by map[string]price.Increment) error {
	if len(by) == 0 {
		return nil
	}
	err := s.tx(ctx, func(tx *sql.Tx) error {
		w := writer{ctx: ctx, tx: tx}
		for id, inc := range by {
			w.put(`UPDATE bills SET unit = ?2, least = ?3, month = ?4 WHERE instance = ?1`, id, inc.Unit.Microseconds(), inc.Min.Microseconds(), inc.Month.Microseconds())
		}
		return w.err
	})
	if err != nil {
		return fmt.Errorf("writing the ledger: %w", err)
	}
	return nil
}

// bookedSoon is how long after its end an instance may have no row yet.
const bookedSoon = 5 * time.Minute

// Bills reads the instances that were gone since a time and are at their end in the ledger, or ought to be. What
// the journal still has of an instance counts before what was noted with its end: its provider may have told more.
// Of one that was launched before the last row that the ledger has forgotten, rows may be missing: it is left out.
func (s *Store) Bills(ctx context.Context, since, now time.Time) ([]Bill, error) {
	all, err := queryLong(ctx, s, `SELECT id, provider, pool, type, zone, market, node, launched, ended, gone, guessed, unit, least, month,
			coalesce(sum(s), 0), coalesce(sum(s) FILTER (WHERE price_source <> 'month-paid'), 0),
			coalesce(sum(s * usd_per_hour) / 3.6e9, 0), coalesce(sum(s) FILTER (WHERE usd_per_hour IS NULL AND price_source <> 'month-paid'), 0)
		FROM (SELECT i.id, coalesce(i.provider, u.provider) AS provider, coalesce(i.pool, u.pool) AS pool, coalesce(i.type, u.type) AS type, coalesce(i.zone, u.zone) AS zone,
				coalesce(i.market, u.market) AS market, coalesce(i.node, u.node) AS node, i.launched, i.ended, i.gone, i.guessed, i.unit, i.least, i.month,
				u.share * (u.until - u.began) AS s, u.price_source, u.usd_per_hour
			FROM (SELECT coalesce(b.instance, j.id) AS id, coalesce(j.launched, b.launched) AS launched, coalesce(j.ended, b.ended) AS ended, coalesce(j.gone, b.gone) AS gone,
					coalesce(j.guessed, b.guessed) AS guessed,
					coalesce(b.unit, -1) AS unit, coalesce(b.least, -1) AS least, coalesce(b.month, -1) AS month, j.provider, j.pool, j.type, j.zone, j.market, j.node
				FROM bills b FULL JOIN instances j ON j.id = b.instance
				WHERE coalesce(j.gone, b.gone) >= ?1 AND coalesce(j.gone, b.gone) > 0
					AND coalesce(j.launched, b.launched) > coalesce((SELECT CAST(value AS INTEGER) FROM meta WHERE key = 'ledger_since'), 0)) i
			LEFT JOIN usage u ON u.instance = i.id
			WHERE NOT EXISTS (SELECT 1 FROM usage o WHERE o.open AND o.instance = i.id) AND (u.instance IS NOT NULL OR i.gone < ?2))
		GROUP BY id ORDER BY launched, id`, func(scan scanner) (b Bill, err error) {
		var unit, least, month int64
		var booked, charged, unknown float64
		var launched, ended, gone int64
		err = scan(&b.ID, &b.Provider, &b.Pool, &b.Offering.Type, &b.Offering.Zone, &b.Offering.Market, &b.Assigned, &launched, &ended, &gone, &b.Guessed, &unit, &least, &month,
			&booked, &charged, &b.USD, &unknown)
		b.Launched, b.Ended, b.Gone = toTime(launched), toTime(ended), toTime(gone)
		b.By = price.Increment{Unit: us(unit), Min: us(least), Month: us(month)}
		b.Booked, b.Charged, b.Unknown = us(int64(booked+0.5)), us(int64(charged+0.5)), us(int64(unknown+0.5))
		return b, err
	}, fromTime(since), fromTime(now.Add(-bookedSoon)))
	if err != nil {
		return nil, fmt.Errorf("reading the ledger: %w", err)
	}
	return all, nil
}
