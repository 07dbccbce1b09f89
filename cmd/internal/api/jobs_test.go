package api_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/burst-hpc/burst/cmd/internal/api"
)

func TestJobs(t *testing.T) {
	b, socket := serve(t)
	c := client(t, socket)
	usd, lost, since := 0.5, 3.25, time.Now().Add(-time.Hour).UTC()
	jobs := []api.Job{{Job: 7, Name: "heat", User: "u", Types: []string{"m5"}, State: "COMPLETED", Over: true, Attempts: 3, Evictions: 1, LostSeconds: &lost, USD: &usd,
		Started: since, Ended: since.Add(time.Minute)}}
	b.SetJobs(jobs)
	want := api.JobsQuery{Job: 7, User: "u", Label: "a & b", Since: since, Last: 5, UID: -1}
	got, err := c.Jobs(t.Context(), api.JobsQuery{Job: 7, User: "u", Label: "a & b", Since: since, Last: 5, UID: 5})
	if diff := cmp.Diff(jobs, got); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	// The server of apitest takes its own user for SlurmUser, who sees all.
	if diff := cmp.Diff(want, b.JobsQuery()); diff != "" {
		t.Errorf("asked for (-want +got):\n%s", diff)
	}
	for path, want := range map[string]int{
		"last=1": 200, "last=1&job=4294967295": 200, "": 400, "last=0": 400, "last=10001": 400, "last=x": 400, "last=1&job=-1": 400, "last=1&job=4294967296": 400,
		"last=1&since=yesterday": 400,
	} {
		resp, err := raw(t, socket).Get("http://b/v1/jobs?" + path)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("%q is answered with %d, want %d", path, resp.StatusCode, want)
		}
	}
}
