package power

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/burst-hpc/burst/cloud"
)

// reload is a journal that holds this open.
type reload struct {
	*paper
	st State
}

func (r reload) LoadPower(context.Context) (State, error) { return r.st, nil }

// calledWith is a cloud that notes the tokens it is called with, and answers with an error.
type calledWith struct {
	still
	mu     sync.Mutex
	tokens []string
	before func()
	answer error
}

func (c *calledWith) Launch(_ context.Context, r cloud.LaunchRequest) ([]cloud.Instance, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tokens = append(c.tokens, r.Token)
	if c.before != nil {
		c.before()
	}
	return nil, c.answer
}

// TestALaunchThatNobodyHasCalledIsJudgedAnew: after a start with a lower cap what is in the journal, and surely had no effect, is
// not launched without another question. What may have had one is called again as it was: it may be there.
func TestALaunchThatNobodyHasCalledIsJudgedAnew(t *testing.T) {
	for _, tt := range []struct {
		name   string
		state  LaunchState
		budget string        // "", "room", "spent"
		held   time.Duration // in this life of burstd
		want   string
	}{
		{"never called, and no room any more", Uncalled, "spent", 0, "nothing called, c1 freeing, told budget: spent"},
		{"never called, and room still", Uncalled, "room", 0, "anew called, c1 launching"},
		{"never called, without a budget", Uncalled, "", 0, "t called, c1 launching"},
		{"maybe called", Written, "spent", 0, "t called, c1 launching"},
		{"just judged", Uncalled, "spent", time.Second, "t called, c1 launching"},
		{"judged by this burstd, long ago: its room is kept", Uncalled, "spent", 2 * time.Minute, "t called, c1 launching"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inSlurm(t, State{}, map[string]string{"c1": "ALLOCATED+CLOUD+NOT_RESPONDING+POWERING_UP"}, nil, func(t *testing.T, e *Engine, _ *scripted) {
				now := time.Now()
				e.journal = reload{e.journal.(*paper), State{Heard: []string{""}, Nodes: []Node{{Name: "c1", Pool: "p", Phase: Launching, Token: "t", Job: 7, Made: now, Since: now}},
					Launches: []Launch{{Token: "t", Provider: "east", Nodes: []string{"c1"}, State: tt.state, Created: now,
						Request: cloud.LaunchRequest{Token: "t", Pool: "p", Count: 1, Offering: cloud.Offering{Type: "small", Zone: "a", Market: cloud.OnDemand}}}}}}
				if tt.held == 0 {
					time.Sleep(5 * time.Second) // burstd is away
				}
				if tt.budget != "" {
					e.cfg.Budget = func(_ context.Context, s Standing) (Afford, error) {
						return func(...Launch) Refusal {
							if len(s.Launches) > 0 {
								return Refusal{Why: "counted twice"}
							}
							return Refusal{Why: map[string]string{"spent": "spent"}[tt.budget]}
						}, nil
					}
				}
				provider := &calledWith{answer: &cloud.Error{Kind: cloud.Transient, Err: errors.New("lost")}}
				e.providers["east"] = provider
				if err := e.Load(t.Context()); err != nil {
					t.Fatal(err)
				}
				time.Sleep(tt.held)
				ctx, end := context.WithCancel(t.Context())
				defer func() { end(); e.calls.Wait() }()
				for range 3 {
					if _, err := e.launchWanted(ctx); err != nil {
						t.Fatal(err)
					}
				}
				e.calls.Wait()
				e.drain(ctx)
				called := "nothing"
				if len(provider.tokens) > 0 {
					if called = "anew"; provider.tokens[0] == "t" {
						called = "t"
					}
				}
				got := fmt.Sprintf("%s called, c1 %s", called, e.mem.nodes["c1"].Phase)
				if h, held := e.mem.holds[7]; held {
					got += ", told " + h.Why
				}
				if got != tt.want {
					t.Errorf("%s\nwant %s", got, tt.want)
				}
			})
		})
	}
}

// TestTheJournalSaysWhatMayHaveBeenCalled before the call, and takes it back after one that had no effect.
func TestTheJournalSaysWhatMayHaveBeenCalled(t *testing.T) {
	for _, tt := range []struct {
		answer error
		want   string
	}{
		{&cloud.Error{Kind: cloud.Throttled, Err: errors.New("too many")}, "uncalled, written in the call, then uncalled"},
		{&cloud.Error{Kind: cloud.Transient, Err: errors.New("lost")}, "uncalled, written in the call, then written"},
		{context.DeadlineExceeded, "uncalled, written in the call, then written"},
	} {
		inSlurm(t, State{Heard: []string{""}, Nodes: []Node{{Name: "c1", Pool: "p", Phase: Wanted, Job: 7}}}, nil, nil, func(t *testing.T, e *Engine, _ *scripted) {
			n := e.mem.nodes["c1"]
			n.Made, e.reviewed = time.Now(), true
			e.mem.nodes["c1"] = n
			journal := e.journal.(*paper)
			states := func() (all []string) {
				for _, c := range journal.committed {
					for _, l := range c.Launches {
						all = append(all, string(l.State))
					}
				}
				return all
			}
			var in []string
			e.providers["east"] = &calledWith{answer: tt.answer, before: func() { in = states() }}
			if _, err := e.launchWanted(t.Context()); err != nil {
				t.Fatal(err)
			}
			e.calls.Wait()
			e.drain(t.Context())
			all := states()
			if got := strings.Join(in, ", ") + " in the call, then " + all[len(all)-1]; got != tt.want {
				t.Errorf("%v: %s\nwant %s", tt.answer, got, tt.want)
			}
		})
	}
}
