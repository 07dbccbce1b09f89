package power

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/burst-hpc/burst/cloud"
)

// full is a journal on a disk that is full.
type full struct{ *paper }

func (full) CommitPower(context.Context, Change) error { return errors.New("no space left on device") }

// TestAFullDiskIsNotSpunOn: launches of several pools that are prepared and
// cannot be written are prepared again, at growing intervals.
func TestAFullDiskIsNotSpunOn(t *testing.T) {
	wanted := func(name, pool string) Node {
		return Node{Name: name, Pool: pool, Phase: Wanted, Made: at.Add(1000 * time.Hour)}
	}
	const boots = "ALLOCATED+CLOUD+POWERING_UP"
	st := State{Nodes: []Node{wanted("c1", "p"), wanted("d1", "q")}, Heard: []string{""}}
	inSlurm(t, st, map[string]string{"c1": boots, "d1": boots}, nil, func(t *testing.T, e *Engine, _ *scripted) {
		r := &round{}
		pool := e.pools["q"]
		pool.Provider = "east"
		e.pools["q"], e.providers["east"] = pool, r
		e.journal = full{&paper{orders: map[string]bool{}}}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { e.Run(ctx); close(done) }()
		time.Sleep(5 * time.Minute)
		cancel()
		<-done
		if r.rounds < 5 || r.rounds > 40 {
			t.Errorf("prepared %d times in five minutes", r.rounds)
		}
	})
}

// TestAStoppedPoolCallsNothing: a launch that was refused as one too many has
// brought nothing, and is not asked for again; nor is one whose answer got lost, as that may launch
// what had not begun.
func TestAStoppedPoolCallsNothing(t *testing.T) {
	for _, tt := range []struct {
		name  string
		doubt bool
		want  map[string]Phase
	}{
		{"never begun", false, map[string]Phase{"c1": Freeing}},
		{"its answer got lost", true, map[string]Phase{"c1": Freeing}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			st := State{Nodes: []Node{{Name: "c1", Pool: "p", Phase: Launching, Token: "t", Job: 7}},
				Launches: []Launch{{Token: "t", Provider: "east", Nodes: []string{"c1"}, State: Written, Request: cloud.LaunchRequest{Token: "t", Pool: "p", Count: 1}}},
				Breakers: []Breaker{{Pool: "p", Stopped: at, Why: "no munge key (by uid 0)"}}}
			inSlurm(t, st, map[string]string{"c1": "ALLOCATED+CLOUD+POWERING_UP"}, nil, func(t *testing.T, e *Engine, _ *scripted) {
				n := e.mem.nodes["c1"]
				n.Made = time.Now()
				e.mem.nodes["c1"] = n
				if tt.doubt {
					e.doubt["t"] = true
				}
				e.providers["east"] = &round{}
				if _, err := e.launchWanted(t.Context()); err != nil {
					t.Fatal(err)
				}
				e.calls.Wait()
				e.drain(t.Context())
				if diff := cmp.Diff(tt.want, nodePhases(e)); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
				if h := e.mem.holds[7]; h.Why != "pool p is stopped: no munge key (by uid 0)" {
					t.Errorf("the job is held for %q", h.Why)
				}
			})
		})
	}
}
