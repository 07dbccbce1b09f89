package daemon

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"runtime/debug"
	"sync"
	"time"
)

// serve runs all parts until ctx ends or one of them fails.
func (d *Daemon) serve(ctx context.Context, srv *http.Server, ln net.Listener) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wg sync.WaitGroup
	part := func(name string, f func(context.Context) error) {
		wg.Go(func() {
			if err := f(ctx); err != nil && ctx.Err() == nil {
				cancel(fmt.Errorf("%s: %w", name, err))
			}
		})
	}
	part("power", func(ctx context.Context) error { d.engine.Run(ctx); return nil })
	part("evictions", func(ctx context.Context) error { return d.guard.Run(ctx, d.sources) })
	part("sessions", func(ctx context.Context) error { d.hub.Run(ctx); return nil })
	part("rates", d.rates.run)
	part("spool", d.watchSpool)
	part("pruning", d.prune)
	part("tidying", d.tidy)
	part("prices", d.market.run)
	part("ledger", d.keepLedger)
	part("history", d.keepHistory)
	part("cost comments", d.keepCostComments)
	part("after jobs", d.keepAfter)
	part("overflow", d.unbroken("overflow", d.keepOverflow))
	part("telling", d.unbroken("telling", d.keepTelling))
	part("paid hours", d.keepHours)
	part("budget", d.keepBudget)
	part("at cap", d.keepAtCap)
	part("drills", d.endDrills)
	part("timeouts", d.keepTimeouts)
	part("nodes", d.serveNodes)
	if d.setups != nil {
		part("setups", d.setups.serve)
	}
	part("health", func(ctx context.Context) error { d.health.Run(ctx); return nil })
	part("metrics", d.serveMetrics)
	part("socket", func(context.Context) error {
		if err := srv.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
			return err
		}
		return nil
	})
	part("systemd", d.notify)
	d.log.Info("ready", "cluster", d.cluster, "socket", d.cfg.Endpoint.Socket, "version", d.version)
	<-ctx.Done()
	stop, done := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer done()
	if srv.Shutdown(stop) != nil {
		srv.Close() // long polls that do not end in time are cut off: their clients ask again
	}
	wg.Wait()
	d.log.Info("stopped")
	if err := context.Cause(ctx); !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// partAgain is how long a part that has panicked rests.
const partAgain = time.Minute

// unbroken is a part that a panic does not end, nor burstd with it: it begins anew after a while. Only for parts that keep
// no promise, write down what they do before they do it, and begin with what is written and what Slurm shows, as after a
// kill -9. Where memory leads, as in the engine of orders and in the guard of evictions, one that was changed by half is worse
// than a burstd that systemd starts anew, which reads the journal.
func (d *Daemon) unbroken(name string, f func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		for {
			err, broken := d.unlessItPanics(ctx, name, f)
			if !broken {
				return err
			}
			select {
			case <-ctx.Done():
				return nil
			case <-time.After(jitter(partAgain)):
			}
		}
	}
}

func (d *Daemon) unlessItPanics(ctx context.Context, name string, f func(context.Context) error) (err error, broken bool) {
	defer func() {
		if p := recover(); p != nil {
			d.log.Error("a part of burstd has failed by a fault of the program, and begins anew in about a minute; all others go on", "part", name, "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
			broken = true
		}
	}()
	return f(ctx), false
}

// keep is how long closed records and events are kept.
const keep = 90 * 24 * time.Hour

func (d *Daemon) prune(ctx context.Context) error {
	tick := time.NewTicker(6 * time.Hour)
	defer tick.Stop()
	for {
		if err := d.store.Prune(ctx, time.Now().Add(-keep)); err != nil && ctx.Err() == nil {
			d.log.Warn("old records could not be removed", "error", err)
		}
		pruneKeys(d.hostKeys(), d.engine, d.log)
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}
