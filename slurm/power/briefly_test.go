package power

import (
	"context"
	"testing"
	"testing/synctest"
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

// TestABudgetWithoutAnAnswerIsTold: a job that a budget keeps waiting for half a minute, as no price could be asked for, is told so
// once, in place of what else its comment said of its nodes. When there is an answer it is taken back.
func TestABudgetWithoutAnAnswerIsTold(t *testing.T) {
	const price = "the price of small/a/spot is asked for"
	for name, tt := range map[string]struct{ had, told, then string }{
		"none":                {"", budgetText + price, ""},
		"its nodes' order":    {BootText + "1 of pool p at 11:00; it starts when they have booted", budgetText + price, ""},
		"somebody else's":     {"see me", "see me", "see me"},
		"of a silent cloud's": {quietText + "the cloud does not answer at east", budgetText + price, ""},
	} {
		t.Run(name, func(t *testing.T) {
			st := State{Nodes: []Node{{Name: "c1", Pool: "p", Phase: Wanted, Job: 7, Order: "o"}}}
			jobs := []slurm.Job{{ID: 7, State: "CONFIGURING", Nodes: "c1", NumNodes: 1, Batch: true, Requeue: true, AdminComment: tt.had}}
			inSlurm(t, st, map[string]string{"c1": "ALLOCATED+CLOUD+NOT_RESPONDING+POWERING_UP"}, jobs, func(t *testing.T, e *Engine, s *scripted) {
				c := &commented{scripted: s}
				e.slurm, e.mem.heard[""], e.cfg.BootTimeout = c, true, 10*time.Minute
				n := e.mem.nodes["c1"]
				n.Made = time.Now()
				e.mem.nodes["c1"] = n
				refusal := Refusal{Why: price, Brief: true}
				e.cfg.Budget = func(context.Context, Standing) (Afford, error) {
					return func(...Launch) Refusal { return refusal }, nil
				}
				ctx, end := context.WithCancel(t.Context())
				defer end()
				look := func(seconds int, want string) {
					t.Helper()
					for range seconds {
						snap, err := c.Fresh(ctx, time.Now())
						if err != nil {
							t.Fatal(err)
						}
						e.sawJobs(snap)
						if _, err := e.launchWanted(ctx); err != nil {
							t.Fatal(err)
						}
						e.tookQuiet(ctx, snap)
						synctest.Wait()
						e.drain(ctx)
						if got := s.snap.Jobs[7].AdminComment; got != want {
							t.Fatalf("it is told %q, want %q", got, want)
						}
						time.Sleep(time.Second)
					}
				}
				look(25, tt.had)
				refusal.Why = "the script of job 7 is being read, which may name a budget of its own"
				look(5, tt.had)
				refusal.Why = price
				look(10, tt.told)
				refusal.Why = "the price of small/b/spot is asked for"
				look(10, tt.told)
				refusal = Refusal{}
				look(1, tt.then)
			})
		})
	}
}
