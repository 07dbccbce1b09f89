package api_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/burst-hpc/burst/cmd/internal/api"
)

func TestExplain(t *testing.T) {
	b, socket := serve(t)
	c := client(t, socket)
	usd := 0.5
	want := api.Explained{Job: "7_3", State: "PENDING", Line: "waits", Where: []api.Place{{Pool: "p", Nodes: 2, USDPerHour: &usd, Priced: time.Now().UTC().Truncate(time.Second)}}, Details: []string{"a"}}
	b.SetExplained(want, api.Explained{State: "SCRIPT", Where: []api.Place{}, Details: []string{}})
	got, err := c.Explain(t.Context(), api.ExplainAsk{Job: "7_3", UID: 5})
	if d := cmp.Diff([]api.Explained{want}, got); err != nil || d != "" {
		t.Error(err, d)
	}
	if ask := b.ExplainAsk(); ask.UID != -1 { // the server of apitest takes its own user for SlurmUser, who sees all
		t.Errorf("asked %+v", ask)
	}
	would := api.Would{Script: "x", Nodes: 2, Limit: time.Hour}
	if got, err = c.Explain(t.Context(), api.ExplainAsk{Would: &would}); err != nil || len(got) != 1 || got[0].State != "SCRIPT" {
		t.Error(got, err)
	}
	if d := cmp.Diff(&would, b.ExplainAsk().Would); d != "" {
		t.Error(d)
	}
	long := api.Would{Script: strings.Repeat("x", api.MaxScript+1)}
	for _, ask := range []api.ExplainAsk{{}, {Job: "7", Would: &would}, {Would: &long}} {
		var e *api.Error
		if _, err := c.Explain(t.Context(), ask); !errors.As(err, &e) || e.Status != 400 {
			t.Error(err)
		}
	}
}
