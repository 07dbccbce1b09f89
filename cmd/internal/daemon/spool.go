package daemon

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/burst-hpc/burst/cmd/internal/spool"
)

// drainSpool takes the orders that were spooled while burstd was away. An
// order leaves the spool when the journal has it. Broken files are set aside.
func (d *Daemon) drainSpool(ctx context.Context) error {
	d.tell("the spool has files that are no orders", spool.Sweep(d.cfg.Endpoint.Spool))
	orders, err := spool.List(d.cfg.Endpoint.Spool)
	if err != nil {
		return fmt.Errorf("reading the spool: %w", err)
	}
	var left error
	for _, o := range orders {
		if err := d.AddOrder(ctx, o.Order); err != nil {
			return err
		}
		left = errors.Join(left, o.Remove()) // it will be added again, which does nothing
	}
	d.tell("orders that are taken stay in the spool", left)
	return nil
}

// tell warns of an error, once while it stays the same.
func (d *Daemon) tell(what string, err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	if text != "" && text != d.told[what] {
		d.log.Warn(what, "error", err)
	}
	d.told[what] = text
}

// watchSpool takes orders that come to the spool while burstd runs: those
// whose client did not get an answer in time.
func (d *Daemon) watchSpool(ctx context.Context) error {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			if err := d.heedPause(ctx); ctx.Err() == nil {
				d.tell("the word that burst stop-all has left cannot be heeded", err)
			}
			err := d.drainSpool(ctx)
			if ctx.Err() == nil {
				d.tell("the spool's orders wait", err)
			}
		}
	}
}
