package daemon

import (
	"encoding/json"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/cmd/internal/config"
	"github.com/burst-hpc/burst/cmd/internal/history"
	"github.com/burst-hpc/burst/cmd/internal/store"
	"github.com/burst-hpc/burst/ft/ckpt"
	"github.com/burst-hpc/burst/ft/session"
	"github.com/burst-hpc/burst/slurm"
	"github.com/burst-hpc/burst/slurm/power"
)

// TestAdvisedIntervals follow the measured rate of the pool's evictions, the
// number of the job's nodes, and what notices save anyway.
func TestAdvisedIntervals(t *testing.T) {
	st, err := store.Open(t.Context(), newJournal(t))
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	now := time.Now()
	var c power.Change
	for _, id := range []string{"i-1", "i-2", "i-3", "i-4"} { // four of ten hours each, all taken back
		c.Instances = append(c.Instances, power.Instance{Doomed: power.CloudEnded, Gone: now, Provider: "east",
			Instance: cloud.Instance{ID: id, Pool: "bad", Launched: now.Add(-10 * time.Hour), Offering: cloud.Offering{Market: cloud.Spot}}})
	}
	if err := st.CommitPower(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	snap := &slurm.Snapshot{Jobs: map[uint32]slurm.Job{1: {Nodes: "b1"}, 2: {Nodes: "b[1-4]"}, 3: {Nodes: "o1,b1"}, 4: {Nodes: "g1"}, 5: {Nodes: "o1"}}}
	r := &rates{store: st, latest: func() *slurm.Snapshot { return snap }, pools: map[string]string{"b1": "bad", "b2": "bad", "b3": "bad", "b4": "bad", "g1": "good"},
		log: slog.New(slog.DiscardHandler)}
	if err := r.read(t.Context()); err != nil {
		t.Fatal(err)
	}
	bad := ckpt.Rate{Evictions: 4, Watched: 40 * time.Hour}
	const cost = 30 * time.Second
	hello := func(job uint32, strategy string) session.Hello {
		return session.Hello{Key: session.Key{Job: job}, Host: "b1", Strategy: strategy, Cost: cost}
	}
	first := hello(1, "periodic")
	first.Cost = 0
	for name, tt := range map[string]struct {
		hello session.Hello
		want  time.Duration
	}{
		"one node":                 {hello(1, "periodic"), ckpt.Interval(cost, bad.Between(1), 0)},
		"four nodes":               {hello(2, "periodic"), ckpt.Interval(cost, bad.Between(4), 0)},
		"some on-prem":             {hello(3, "both"), ckpt.Interval(cost, bad.Between(2), 0)},
		"a pool without any":       {hello(4, "periodic"), ckpt.Interval(cost, ckpt.Rate{}.Between(1), 0)},
		"no pool":                  {hello(5, "periodic"), ckpt.Interval(cost, bad.Between(1), 0)},
		"unknown to Slurm's image": {hello(9, "periodic"), ckpt.Interval(cost, bad.Between(1), 0)},
		"no checkpoint yet":        {first, ckpt.Interval(ckpt.GuessedCost, bad.Between(1), 0)},
	} {
		if got := r.interval(tt.hello); got.Round(time.Second) != tt.want.Round(time.Second) || got <= 0 {
			t.Errorf("%s: %s, want %s", name, got, tt.want)
		}
	}
	r.byPool["bad"] = store.Evicted{Pool: "bad", Watched: 40 * time.Hour, Evictions: 4, Told: 4}
	if told, all := r.interval(hello(1, "both")), r.interval(hello(1, "periodic")); told < 2*all {
		t.Errorf("%s with notices that are heeded, %s without", told, all)
	}
	slow, periodic := hello(1, "both"), hello(1, "periodic")
	slow.Cost, periodic.Cost = 10*time.Minute, 10*time.Minute
	if told, all := r.interval(slow), r.interval(periodic); told != all {
		t.Errorf("%s with notices that come too late for its checkpoints, %s without", told, all)
	}
}

// TestMeasured: a run tells what its site has measured of its pool, and null of others.
func TestMeasured(t *testing.T) {
	r := newRates(&Daemon{watcher: slurm.NewWatcher(nil, minGap)}, []config.Pool{
		{Power: power.Pool{Name: "p"}, Measured: history.Measured{NetworkGbit: 12.5, StorageIOPS: 3000}}, {Power: power.Pool{Name: "q"}}})
	for pool, want := range map[string]string{"p": `"network_gbit":12.5,"storage_iops":3000`, "q": `"network_gbit":null,"storage_iops":null`} {
		text, err := json.Marshal(jobOf(store.Told{Run: history.Run{Pool: pool, Measured: r.measured[pool]}}, time.Now()))
		if err != nil || !strings.Contains(string(text), want) {
			t.Errorf("of %s it is told %s, %v", pool, text, err)
		}
	}
}
