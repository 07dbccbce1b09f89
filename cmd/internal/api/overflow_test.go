package api_test

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/burst-hpc/burst/cmd/internal/api"
)

func TestOverflow(t *testing.T) {
	b, socket := serve(t)
	c := client(t, socket)
	at := time.Now().UTC().Truncate(time.Microsecond)
	plan := []api.OverflowJob{{Job: "7_[1,2]", User: "ada", Partition: "main", Nodes: 1, Waited: 720, Action: "add", Rule: "small", To: "cloud", Why: "waits"}}
	log := []api.Overflowed{{Job: "5", User: "ada", Added: at}, {Job: "6", User: "ada", Was: "main", To: "cloud", State: "added", Added: at, Ended: at.Add(time.Hour), EndedWhy: "ran in cloud"}}
	b.SetOverflows(plan, log)
	got, err := c.OverflowPlan(t.Context(), api.OverflowAsk{Rules: json.RawMessage(`{"Rules":[]}`), UID: 5})
	if d := cmp.Diff(plan, got); err != nil || d != "" {
		t.Error(err, d)
	}
	// The server of apitest takes its own user for SlurmUser, who sees all, and may ask about other rules.
	if ask := b.OverflowAsk(); ask.UID != -1 || string(ask.Rules) != `{"Rules":[]}` {
		t.Errorf("asked %+v", ask)
	}
	had, err := c.Overflows(t.Context(), api.OverflowQuery{Last: 1})
	if d := cmp.Diff(log[1:], had); err != nil || d != "" {
		t.Error(err, d)
	}
	var e *api.Error
	if _, err := c.Overflows(t.Context(), api.OverflowQuery{}); !errors.As(err, &e) || e.Status != 400 {
		t.Error(err)
	}
}
