package daemon

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/cmd/internal/api"
	"github.com/burst-hpc/burst/cmd/internal/config"
	"github.com/burst-hpc/burst/slurm/power"
	"github.com/burst-hpc/burst/slurm/slurmtest"
)

// TestWhatHadNoPriceHasOneLater: while the cloud does not say what spot costs instances come and go;
// when it does, nothing of the ledger is without a price.
func TestWhatHadNoPriceHasOneLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPast(t, slurmtest.Options{})
		defer p.stop()
		d := p.Daemon
		c := &pricer{usd: 0.5, err: errors.New("throttled")}
		d.cfg, d.ended = &config.Config{Providers: []config.Provider{{Name: "here"}}}, make(chan struct{}, 1)
		d.prices, d.meters = newPrices(d.cfg.Providers, map[string]cloud.Provider{"here": c}, d.log), newMeters(nil, d.watcher.Latest)
		gone, live := machine("i-1", cloud.Offering{Type: "small", Zone: "a", Market: cloud.Spot}), machine("i-2", cloud.Offering{Type: "small", Zone: "b", Market: cloud.Spot})
		gone.Assigned, gone.State, gone.Launched, gone.Ended, gone.Gone = "c2", cloud.Terminated, time.Now().Add(-time.Hour), time.Now(), time.Now()
		live.Assigned, live.State, live.Launched = "c1", cloud.Running, time.Now()
		if err := d.store.CommitPower(t.Context(), power.Change{Instances: []power.Instance{gone, live}}); err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() {
			for ctx.Err() == nil {
				if _, err := d.watcher.Fresh(ctx, time.Now()); err != nil && ctx.Err() == nil {
					t.Error(err)
				}
				time.Sleep(time.Second)
			}
		})
		wg.Go(func() {
			if err := d.keepLedger(ctx); err != nil {
				t.Error(err)
			}
		})
		unpriced := func() (hours, usd float64) {
			sums, err := d.Usage(t.Context(), api.UsageQuery{By: "offering", UID: -1})
			if err != nil || len(sums) != 2 {
				t.Fatal(sums, err)
			}
			for _, s := range sums {
				hours += s.UnpricedSeconds / 3600
				if s.USD != nil {
					usd += *s.USD
				}
			}
			return hours, usd
		}
		time.Sleep(10 * time.Second)
		p.Submit(slurmtest.Job{}) // the boot's row is closed
		time.Sleep(2 * time.Minute)
		if hours, _ := unpriced(); hours < 1 {
			t.Errorf("%g hours have no price, and one was to have none", hours)
		}
		c.fails(nil)
		time.Sleep(priceAgain + 2*lateEvery)
		if hours, usd := unpriced(); hours > 0 || usd < 0.5 {
			t.Errorf("%g hours have no price still, the others come to %g", hours, usd)
		}
		stop()
		wg.Wait()
	})
}
