package daemon

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/burst-hpc/burst/cmd/internal/api"
	"github.com/burst-hpc/burst/slurm/power"
)

// TestExplainsShareALook: who asks while another's look at Slurm is fresh is answered by that; a round looks anew.
func TestExplainsShareALook(t *testing.T) {
	s := explaining(t, power.State{}, waiting("5", "N/A", "main"), waiting("6", "N/A", "main"))
	for range 3 {
		s.explain(api.ExplainAsk{Job: "5", UID: -1})
		s.explain(api.ExplainAsk{Job: "6", UID: -1})
		s.explain(api.ExplainAsk{Would: &api.Would{Partition: "main", Limit: time.Hour}, UID: -1})
	}
	if s.looks != 1 {
		t.Errorf("squeue is asked %d times", s.looks)
	}
	if err := s.over.round(t.Context()); err != nil || s.looks != 2 {
		t.Errorf("%v, after a round %d", err, s.looks)
	}
}

// TestExplainsTakeTurns: no more than some explain at once, and who gives up is gone.
func TestExplainsTakeTurns(t *testing.T) {
	s := explaining(t, power.State{}, waiting("5", "N/A", "main"))
	var last func()
	for range explainsAtOnce {
		done, err := s.over.explains.take(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		last = done
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := s.over.Explain(ctx, api.ExplainAsk{Job: "5", UID: -1}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("one more: %v", err)
	}
	last()
	s.explain(api.ExplainAsk{Job: "5", UID: -1})
}
