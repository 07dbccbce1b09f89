package daemon

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/burst-hpc/burst/cmd/internal/store"
	"github.com/burst-hpc/burst/ft"
	"github.com/burst-hpc/burst/ft/session"
	"github.com/burst-hpc/burst/slurm"
	"github.com/burst-hpc/burst/slurm/power"
)

// TestADeathIsNoted with what its job has lost; of a job without burst-srun nothing is.
func TestADeathIsNoted(t *testing.T) {
	st, err := store.Open(t.Context(), newJournal(t))
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	log := slog.New(slog.DiscardHandler)
	hub := session.NewHub(session.HubConfig{}, st, log)
	if err := hub.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	job := slurm.Job{ID: 7, State: "RUNNING", Nodes: "c[1-2]", Start: now.Add(-time.Hour), Batch: true, Requeue: true}
	plain := job
	plain.ID = 8
	d := &Daemon{log: log, watcher: slurm.NewWatcher(func(context.Context) (*slurm.Snapshot, error) {
		return &slurm.Snapshot{Taken: time.Now(), Jobs: map[uint32]slurm.Job{7: job, 8: plain}}, nil
	}, minGap), guard: ft.New(ft.Config{Sessions: ft.SessionsOf(hub, st)}, st, nil, nil, log)}
	if _, err := d.watcher.Fresh(t.Context(), now); err != nil {
		t.Fatal(err)
	}
	key := session.Key{Job: 7, Step: "0"}
	hello := session.Hello{Key: key, Token: "t", Began: now, Host: "c1", Method: "signal", Strategy: "periodic", Dir: "/d", Retries: 1}
	if _, err := hub.Open(t.Context(), 0, hello); err != nil {
		t.Fatal(err)
	}
	made := session.Given{Key: key, Token: "t", Answer: session.Answer{Generation: "/d/gen-1", N: 1, Took: 5 * time.Minute, Iteration: -1}}
	if err := hub.Answer(t.Context(), 0, made); err != nil {
		t.Fatal(err)
	}
	died := power.Change{Events: []power.Event{{Time: now, Kind: "died", Node: "c2", Instance: "i-2"}, {Time: now, Kind: "gone", Node: "c1"}}}
	for range 2 { // the engine tries again what it could not write
		if err := (fallen{st, d}).CommitPower(t.Context(), died); err != nil {
			t.Fatal(err)
		}
	}
	all, err := st.Moved(t.Context(), now.Add(-time.Minute))
	if err != nil || len(all) != 1 {
		t.Fatalf("%+v, %v", all, err)
	}
	if e := all[0]; e.Job != 7 || e.Instance != "i-2" || e.Kind != ft.Died || e.Lost.Round(time.Minute) != 5*time.Minute || e.LostIterations != -1 || e.Hold {
		t.Errorf("%+v", e)
	}
	if state, err := st.LoadFT(t.Context()); err != nil || len(state.Evictions) > 0 {
		t.Errorf("the guard would go on with %+v, %v", state.Evictions, err)
	}
}
