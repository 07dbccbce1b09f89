package api_test

import (
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/burst-hpc/burst/cmd/internal/api"
)

func TestUsage(t *testing.T) {
	b, socket := serve(t)
	c := client(t, socket)
	usd, since := 1.25, time.Now().Add(-time.Hour).UTC()
	usage := []api.Usage{{Key: "7", User: "u", Account: "a", Seconds: 60, USD: &usd, UnpricedSeconds: 3, Instances: 2}, {Seconds: 5, Instances: 1}}
	b.SetUsage(usage)
	until := since.Add(time.Minute)
	got, err := c.Usage(t.Context(), api.UsageQuery{By: "job", Since: since, Until: until, UID: 5})
	if diff := cmp.Diff(usage, got); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	// The server of apitest takes its own user for SlurmUser, who sees all.
	if q := b.UsageQuery(); q.By != "job" || !q.Since.Equal(since) || !q.Until.Equal(until) || q.UID != -1 {
		t.Errorf("asked for %+v", q)
	}
	var e *api.Error
	if _, err := c.Usage(t.Context(), api.UsageQuery{By: "node"}); !errors.As(err, &e) || e.Status != 400 || !strings.Contains(e.Message, "job, user") {
		t.Errorf("by node: %v", err)
	}
	bills := []api.Bill{{Instance: "i-1", Launched: since, BilledSeconds: 60, USD: &usd}}
	b.SetBills(bills)
	if got, err := c.Bills(t.Context(), since); err != nil || cmp.Diff(bills, got) != "" {
		t.Errorf("%v %v", got, err)
	}
	resp, err := raw(t, socket).Get("http://b/v1/usage?by=job&since=yesterday")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if text, err := io.ReadAll(resp.Body); err != nil || resp.StatusCode != 400 || !strings.Contains(string(text), "since is not a time") {
		t.Errorf("since yesterday: %d %s %v", resp.StatusCode, text, err)
	}
}
