package daemon

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/burst-hpc/burst/cmd/internal/api"
	"github.com/burst-hpc/burst/cmd/internal/crash"
	"github.com/burst-hpc/burst/slurm/power"
)

// Pools tells of each pool, and of its breaker.
func (d *Daemon) Pools(context.Context) ([]api.PoolStatus, error) {
	h := d.engine.Health()
	all := []api.PoolStatus{}
	for _, p := range d.cfg.Sources() { // a pool with several has a row for each
		b := h.Breakers[p.Power.Name]
		of := power.Breaker{Pool: p.Power.Name, Provider: p.Power.Provider}
		if own, ok := h.Breakers[of.Key()]; ok && b.Stopped.IsZero() {
			b = own
		}
		all = append(all, api.PoolStatus{Pool: p.Power.Name, Provider: p.Power.Provider, Partition: p.Power.Partition, Image: p.Power.Image, Nodes: len(p.Power.Nodes),
			Failures: b.Failures, MaxFailures: p.Power.MaxBootFailures, Stopped: b.Stopped, Why: b.Why})
	}
	slices.SortStableFunc(all, func(a, b api.PoolStatus) int { return strings.Compare(a.Pool, b.Pool) })
	return all, nil
}

// poolNodes are the nodes of all pools.
func (d *Daemon) poolNodes() map[string]bool {
	all := map[string]bool{}
	for _, p := range d.cfg.Pools {
		for _, n := range p.Power.Nodes {
			all[n] = true
		}
	}
	return all
}

// ChangePool starts or stops a pool.
func (d *Daemon) ChangePool(ctx context.Context, c api.PoolChange) error {
	var err error
	if c.Stop {
		err = d.engine.StopPool(ctx, c.Pool, c.Reason, c.By)
	} else {
		err = d.engine.StartPool(ctx, c.Pool, c.By)
	}
	if errors.Is(err, power.ErrNoPool) {
		return &api.Error{Status: http.StatusNotFound, Message: err.Error()}
	}
	return err
}

// Boots tells of nodes' ways up.
func (d *Daemon) Boots(ctx context.Context, node string, job uint32, last int) ([]api.Boot, error) {
	stored, err := d.store.Boots(ctx, node, job, last)
	if err != nil {
		return nil, err
	}
	all := make([]api.Boot, len(stored))
	for i, b := range stored {
		all[i] = api.Boot{Node: b.Node, Pool: b.Pool, Order: b.Order, Job: b.Job, Instance: b.Instance, Tries: b.Tries, Ordered: b.Ordered,
			Stages: map[string]float64{}, Seconds: b.Total().Seconds(), Outcome: b.Outcome}
		for stage, took := range b.Took() {
			all[i].Stages[string(stage)] = took.Round(time.Millisecond).Seconds()
		}
	}
	return all, nil
}

// newBootStages makes the histogram: from a process on this host, which boots
// in a tenth of a second, to an instance that installs itself.
func newBootStages() *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: bootStages, Help: "Seconds of each stage of the boots that came up, by pool.",
		Buckets: bootBuckets}, []string{"pool", "stage"})
}

var bootBuckets = []float64{.1, .25, .5, 1, 2.5, 5, 10, 20, 30, 60, 120, 300, 600, 1200}

// bootStages is the histogram's name.
const bootStages = "burst_boot_stage_seconds"

// timed is a journal that observes the boots which it has taken as ended. Those
// of a pool that has left the configuration are not: labels must stay few.
type timed struct {
	crash.Journal
	stages *prometheus.HistogramVec
	pools  map[string]bool
}

func (t timed) CommitPower(ctx context.Context, c power.Change) error {
	if err := t.Journal.CommitPower(ctx, c); err != nil {
		return err
	}
	for _, b := range c.Boots {
		if b.Outcome != power.BootUp || !t.pools[b.Pool] {
			continue
		}
		for stage, took := range b.Took() {
			t.stages.WithLabelValues(b.Pool, string(stage)).Observe(took.Seconds())
		}
	}
	return nil
}
