package power

import (
	"context"
	"testing"
	"time"

	"github.com/burst-hpc/burst/slurm"
)

// TestABudgetThatNeverAnswersIsNamed: nodes for which it will answer in a moment, until it is too late, are given back with what it said.
func TestABudgetThatNeverAnswersIsNamed(t *testing.T) {
	const script = "the script of job 7 is being read, which may name a budget of its own"
	for name, tt := range map[string]struct {
		refusal Refusal
		of      string // the order for which it was refused
		want    string
	}{
		"it has":           {Refusal{Why: script, Brief: true}, "o", "pool p: launches waited, as " + script + ", and too little of ResumeTimeout (10m0s) is left to boot one"},
		"an earlier order": {Refusal{Why: script, Brief: true}, "former", "pool p: no instance came, and too little of ResumeTimeout (10m0s) is left to boot one"},
	} {
		t.Run(name, func(t *testing.T) {
			st := State{Nodes: []Node{{Name: "c1", Pool: "p", Phase: Wanted, Job: 7, Order: tt.of}}}
			jobs := []slurm.Job{{ID: 7, State: "CONFIGURING", Nodes: "c1", NumNodes: 1, Batch: true, Requeue: true}}
			inSlurm(t, st, map[string]string{"c1": "ALLOCATED+CLOUD+NOT_RESPONDING+POWERING_UP"}, jobs, func(t *testing.T, e *Engine, _ *scripted) {
				e.mem.heard[""], e.cfg.BootTimeout = true, 10*time.Minute
				n := e.mem.nodes["c1"]
				n.Made = time.Now()
				e.mem.nodes["c1"] = n
				e.cfg.Budget = func(context.Context, Standing) (Afford, error) {
					return func(...Launch) Refusal { return tt.refusal }, nil
				}
				look := func() {
					t.Helper()
					if _, err := e.launchWanted(t.Context()); err != nil {
						t.Fatal(err)
					}
				}
				look()
				if h := e.mem.holds[7]; h.Why != "" {
					t.Fatalf("told at once: %s", h.Why)
				}
				n.Order = "o"
				e.mem.nodes["c1"] = n
				time.Sleep(9 * time.Minute)
				look()
				if h := e.mem.holds[7]; h.Why != tt.want || e.mem.nodes["c1"].Phase != Freeing {
					t.Errorf("told %q, want %q; the node is %s", h.Why, tt.want, e.mem.nodes["c1"].Phase)
				}
				e.noteBrief(planned{})
				if len(e.market.brief) > 0 {
					t.Errorf("kept for nobody: %v", e.market.brief)
				}
			})
		})
	}
}
