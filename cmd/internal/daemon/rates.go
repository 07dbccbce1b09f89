package daemon

import (
	"cmp"
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/burst-hpc/burst/cmd/internal/config"
	"github.com/burst-hpc/burst/cmd/internal/history"
	"github.com/burst-hpc/burst/cmd/internal/store"
	"github.com/burst-hpc/burst/ft/ckpt"
	"github.com/burst-hpc/burst/ft/session"
	"github.com/burst-hpc/burst/slurm"
	"github.com/burst-hpc/burst/slurm/directive"
)

const (
	ratesEvery = 10 * time.Minute    // between two readings of the history
	ratesOf    = 60 * 24 * time.Hour // that is looked at: prices and so evictions change with seasons
)

// rates advises steps on their interval=auto by how often the instances of their
// pool have been evicted.
type rates struct {
	store  *store.Store
	latest func() *slurm.Snapshot
	pools  map[string]string // by node
	log    *slog.Logger

	measured map[string]history.Measured // by pool

	mu     sync.Mutex
	byPool map[string]store.Evicted
}

func newRates(d *Daemon, pools []config.Pool) *rates {
	r := &rates{store: d.store, latest: d.watcher.Latest, pools: map[string]string{}, log: d.log, measured: map[string]history.Measured{}}
	for _, p := range pools {
		r.measured[p.Power.Name] = p.Measured
		for _, node := range p.Power.Nodes {
			r.pools[node] = p.Power.Name
		}
	}
	return r
}

// has says whether a node of the job's is a pool's.
func (r *rates) has(j slurm.Job) bool {
	return history.PoolOf(r.pools, history.NodesOf(j)) != ""
}

// run keeps the rates at hand until ctx ends.
func (r *rates) run(ctx context.Context) error {
	tick := time.NewTicker(ratesEvery)
	defer tick.Stop()
	for {
		if err := r.read(ctx); err != nil && ctx.Err() == nil {
			r.log.Warn("steps are advised by older rates of evictions, or none", "error", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

func (r *rates) read(ctx context.Context) error {
	all, err := r.store.Evicted(ctx, time.Now().Add(-ratesOf))
	if err != nil {
		return err
	}
	byPool := map[string]store.Evicted{}
	for _, e := range all {
		byPool[e.Pool] = e
	}
	r.mu.Lock()
	r.byPool = byPool
	r.mu.Unlock()
	return nil
}

// interval is what a step is advised; 0: nothing.
func (r *rates) interval(h session.Hello) time.Duration {
	nodes := 1
	pool := r.pools[h.Host]
	if snap := r.latest(); snap != nil {
		names := history.NodesOf(snap.Jobs[h.Job])
		nodes, pool = max(1, len(names)), cmp.Or(history.PoolOf(r.pools, names), pool)
	}
	r.mu.Lock()
	e := r.byPool[pool]
	r.mu.Unlock()
	return ckpt.Interval(costOf(h), ckpt.Rate{Evictions: e.Evictions, Watched: e.Watched}.Between(nodes), heeded(h, e))
}

func costOf(h session.Hello) time.Duration {
	if h.Cost > 0 {
		return h.Cost
	}
	return ckpt.GuessedCost
}

// heeded is the part of evictions for which the step has a checkpoint made in
// time. One is taken to be untold that has not happened yet.
func heeded(h session.Hello, e store.Evicted) float64 {
	cost := costOf(h)
	if h.Strategy != "both" || !ckpt.Fits(cost+cost/2, directive.Notice) { // when it counts many write
		return 0
	}
	return float64(e.Told) / float64(e.Evictions+1)
}
