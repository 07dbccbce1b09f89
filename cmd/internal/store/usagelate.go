package store

import (
	"context"
	"fmt"
	"time"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/cmd/internal/ledger"
)

// Unpriced is an offering of a provider.
type Unpriced struct {
	Provider string
	cloud.Offering
}

// Unpriced lists the offerings of which closed rows that end after since have no price.
func (s *Store) Unpriced(ctx context.Context, since time.Time) ([]Unpriced, error) {
	all, err := query(ctx, s.db, `SELECT provider, type, zone, market FROM usage WHERE usd_per_hour IS NULL AND NOT open AND until > ?
		GROUP BY provider, type, zone, market`, func(scan scanner) (u Unpriced, err error) {
		return u, scan(&u.Provider, &u.Type, &u.Zone, &u.Market)
	}, fromTime(since))
	if err != nil {
		return nil, fmt.Errorf("reading what of the ledger has no price: %w", err)
	}
	return all, nil
}

// lateAtOnce is of how many instances UnpricedRows reads the rows.
var lateAtOnce = 1000

// UnpricedRows reads all rows of instances, of so many at most and those whose ids come after one, of which closed
// rows that end after since have no price, as PutUsage writes them.
func (s *Store) UnpricedRows(ctx context.Context, u Unpriced, since time.Time, after string) ([]ledger.Row, error) {
	all, err := query(ctx, s.db, `SELECT `+rowColumns+` FROM usage WHERE instance IN (
			SELECT DISTINCT instance FROM usage WHERE usd_per_hour IS NULL AND NOT open AND provider = ? AND type = ? AND zone = ? AND market = ? AND until > ? AND instance > ? ORDER BY instance LIMIT ?)
		ORDER BY instance, began, job`, scanUsage, u.Provider, u.Type, u.Zone, u.Market, fromTime(since), after, lateAtOnce)
	if err != nil {
		return nil, fmt.Errorf("reading what of the ledger has no price: %w", err)
	}
	return all, nil
}
