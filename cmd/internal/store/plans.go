package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/burst-hpc/burst/cloud"
)

// Plan is a cloud's last word on an offering of which it charges at most so much in a month.
type Plan struct {
	Provider    string         `json:"provider"`
	Offering    cloud.Offering `json:"offering"`
	USDPerHour  float64        `json:"usd_per_hour"`
	USDPerMonth float64        `json:"usd_per_month"`
	Date        time.Time      `json:"date"`
	Source      string         `json:"source"`
}

// Plans reads what PutPlans has written.
func (s *Store) Plans(ctx context.Context) (all []Plan, err error) {
	var text string
	err = s.db.QueryRowContext(ctx, "SELECT value FROM meta WHERE key = 'plans'").Scan(&text)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err == nil {
		err = json.Unmarshal([]byte(text), &all)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the prices of plans: %w", err)
	}
	return all, nil
}

// PutPlans writes all plans that are known, in place of those of before.
func (s *Store) PutPlans(ctx context.Context, all []Plan) error {
	text, err := json.Marshal(all)
	if err == nil {
		err = s.tx(ctx, func(tx *sql.Tx) error {
			w := writer{ctx: ctx, tx: tx}
			w.put("INSERT INTO meta (key, value) VALUES ('plans', ?) ON CONFLICT DO UPDATE SET value = excluded.value", string(text))
			return w.err
		})
	}
	if err != nil {
		return fmt.Errorf("writing the prices of plans: %w", err)
	}
	return nil
}
