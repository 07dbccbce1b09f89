package daemon

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/burst-hpc/burst/cmd/internal/config"
	"github.com/burst-hpc/burst/slurm"
	"github.com/burst-hpc/burst/slurm/power"
)

// timeouts are slurmctld's ResumeTimeouts, which may be others than resume_timeout of
// burst.toml: it then gives up nodes that burstd has booting.
type timeouts struct {
	mu sync.Mutex
	of map[string]time.Duration // by pool; one that is not known is not among them
	// over is how long jobs go on after their time limits; nil: it is not known.
	over *slurm.OverLimits
}

// after is spending.Keeper.Over.
func (t *timeouts) after(partitions string) (d time.Duration, endless, known bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.over == nil {
		return 0, false, false
	}
	d, endless = t.over.Of(partitions)
	return d, endless, true
}

// get is the pool's; 0: it is not known.
func (t *timeouts) get(pool string) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.of[pool]
}

// timeoutsEvery is the time between two readings, timeoutsAgain that after one that failed.
// What is read changes when slurmctld is restarted.
const (
	timeoutsEvery = 5 * time.Minute
	timeoutsAgain = 30 * time.Second
	timeoutsSoon  = 2 * time.Second // where launches may wait for it
)

// keepTimeouts reads them until ctx ends. That Slurm does not answer is said elsewhere.
func (d *Daemon) keepTimeouts(ctx context.Context) error {
	for {
		wait := timeoutsEvery
		if err := d.readTimeouts(ctx); err != nil {
			d.log.Debug("how long Slurm lets nodes boot is not known", "error", err)
			if wait = timeoutsAgain; d.cfg.Budget != nil {
				wait = timeoutsSoon
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(wait):
		}
	}
}

// readTimeouts reads them once, and tells those that are new and too short.
func (d *Daemon) readTimeouts(ctx context.Context) error {
	settings, err := d.client.ShowConfig(ctx)
	if err != nil {
		return err
	}
	partitions, err := d.client.ShowPartitions(ctx)
	if err != nil {
		return err
	}
	of := leastOf(d.cfg.Pools, slurm.ResumeTimeouts(settings, partitions))
	over := slurm.OverLimitsOf(settings, partitions)
	var c power.Change
	for _, p := range d.cfg.Pools {
		name, want := p.Power.Name, p.Slurm.ResumeTimeout
		if t := of[name]; t > 0 && t < want && t != d.timeouts.get(name) {
			c.Events = append(c.Events, power.Event{Time: time.Now(), Kind: "timeout-short", Pool: name,
				Text: fmt.Sprintf("slurmctld gives its nodes up after %s (ResumeTimeout), before the %s of resume_timeout in burst.toml: burstd goes by that; `burst check` says what slurm.conf needs", t, want)})
		}
	}
	if len(c.Events) > 0 {
		if err := d.journal.CommitPower(ctx, c); err != nil {
			return err
		}
	}
	d.timeouts.mu.Lock()
	d.timeouts.of, d.timeouts.over = of, &over
	d.timeouts.mu.Unlock()
	return nil
}

// leastOf is the shortest time of each pool's nodes.
func leastOf(pools []config.Pool, nodes map[string]time.Duration) map[string]time.Duration {
	of := map[string]time.Duration{}
	for _, p := range pools {
		for _, n := range p.Power.Nodes {
			if t, ok := nodes[n]; ok && (of[p.Power.Name] == 0 || t < of[p.Power.Name]) {
				of[p.Power.Name] = t
			}
		}
	}
	return of
}
