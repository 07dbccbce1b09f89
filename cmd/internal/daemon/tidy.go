package daemon

import (
	"context"
	"time"

	"github.com/burst-hpc/burst/cloud"
)

// tidyEvery is how often the providers look their facts up anew and remove
// what they made beside instances and nobody uses any more.
const tidyEvery = time.Hour

// tidyTimeout bounds one provider's turn.
const tidyTimeout = 5 * time.Minute

// tidy keeps what providers have beside instances: at the start, so that the
// first launch waits for nothing and a wrong pool is said before a job needs
// it, and then every hour. None of it is needed for a launch to go right.
func (d *Daemon) tidy(ctx context.Context) error {
	tick := time.NewTicker(tidyEvery)
	defer tick.Stop()
	for {
		for name, p := range d.providers {
			d.warm(ctx, name, p)
			if t, ok := p.(cloud.Tidier); ok {
				tctx, cancel := context.WithTimeout(ctx, tidyTimeout)
				err := t.Tidy(tctx, d.cluster, d.poolsOf(name))
				cancel()
				if err != nil && ctx.Err() == nil {
					d.log.Warn("what a provider has no more use for could not be removed; in an hour again", "provider", name, "error", err)
				}
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

func (d *Daemon) poolsOf(provider string) []string {
	var names []string
	for _, p := range d.cfg.Sources() {
		if p.Power.Provider == provider {
			names = append(names, p.Power.Name)
		}
	}
	return names
}

// warm lets the provider look up what its pools' launches need, and tells
// what is wrong with a pool.
func (d *Daemon) warm(ctx context.Context, name string, p cloud.Provider) {
	w, ok := p.(cloud.Warmer)
	if !ok {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, tidyTimeout)
	defer cancel()
	var requests []cloud.LaunchRequest
	for _, pool := range d.cfg.Sources() {
		if pool.Power.Provider == name {
			requests = append(requests, pool.Power.Example(d.cluster))
		}
	}
	for i, err := range w.Warm(ctx, requests) {
		if err != nil && ctx.Err() == nil {
			d.log.Warn("a pool's nodes could not be launched as things are", "provider", name, "pool", requests[i].Pool, "error", err)
		}
	}
}
