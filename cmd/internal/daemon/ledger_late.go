package daemon

import (
	"context"
	"errors"
	"time"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/cmd/internal/ledger"
	"github.com/burst-hpc/burst/cmd/internal/store"
	"github.com/burst-hpc/burst/slurm/power"
)

const (
	lateEvery = time.Minute         // between two looks at what was booked without a price
	lateFor   = 35 * 24 * time.Hour // it is looked for: longer than a cap's month is
	lateAnew  = time.Hour           // between two looks at the rows of what has no price now, which may have one by others of their instance
)

// priceLate prices what was booked while its price was not to be had. Its caller is the only one
// that writes the ledger.
func (d *Daemon) priceLate(ctx context.Context) error {
	since := time.Now().Add(-lateFor)
	all, err := d.store.Unpriced(ctx, since)
	if err != nil || len(all) == 0 {
		return err
	}
	var ask []power.Instance
	for _, u := range all {
		ask = append(ask, power.Instance{Provider: u.Provider, Instance: cloud.Instance{Offering: u.Offering}})
	}
	d.prices.learn(ctx, ask)
	var errs []error
	for _, u := range all {
		now := d.prices.price(u.Provider, u.Offering)
		if !now.Known() {
			if time.Since(d.late[u]) < lateAnew {
				continue
			}
			if d.late == nil {
				d.late = map[store.Unpriced]time.Time{}
			}
			d.late[u] = time.Now()
		}
		for after := ""; ; {
			rows, err := d.store.UnpricedRows(ctx, u, since, after)
			late := ledger.Late(rows, now)
			if err = errors.Join(err, d.store.PutUsage(ctx, late)); err != nil {
				errs = append(errs, err)
				break
			}
			d.meters.spend(rows, late)
			if len(rows) == 0 {
				break
			}
			after = rows[len(rows)-1].Instance
		}
	}
	return errors.Join(errs...)
}
