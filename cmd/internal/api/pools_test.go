package api_test

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/burst-hpc/burst/cmd/internal/api"
)

func TestPools(t *testing.T) {
	b, socket := serve(t)
	c := client(t, socket)
	pools := []api.PoolStatus{{Pool: "p", Provider: "east", Partition: "cloud", Nodes: 3, Failures: 2, MaxFailures: 5, Stopped: time.Now().UTC(), Why: "w"}, {Pool: "q"}}
	b.SetPools(pools)
	got, err := c.Pools(t.Context())
	if diff := cmp.Diff(pools, got); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	for _, tt := range []struct {
		name   string
		change api.PoolChange
		status int    // 0: it is made
		want   string // part of the error
	}{
		{"start", api.PoolChange{Pool: "p", By: "me"}, 0, ""},
		{"stop", api.PoolChange{Pool: "p", Stop: true, Reason: " new image "}, 0, ""},
		{"a pool that there is not", api.PoolChange{Pool: "z"}, 404, `no such pool: "z"`},
		{"no pool", api.PoolChange{}, 400, "names no pool"},
		{"no reason", api.PoolChange{Pool: "p", Stop: true, Reason: " "}, 400, "without a reason"},
		{"a long reason", api.PoolChange{Pool: "p", Stop: true, Reason: strings.Repeat("x", 501)}, 400, "more than 500 bytes"},
	} {
		err := c.ChangePool(t.Context(), tt.change)
		var e *api.Error
		if errors.As(err, &e); (tt.status == 0) != (err == nil) || e != nil && (e.Status != tt.status || !strings.Contains(e.Message, tt.want)) {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
	by := fmt.Sprint("uid ", os.Getuid())
	want := []api.PoolChange{{Pool: "p", By: by}, {Pool: "p", Stop: true, Reason: "new image", By: by}}
	if diff := cmp.Diff(want, b.PoolChanges()); diff != "" {
		t.Errorf("changes (-want +got):\n%s", diff)
	}
}

func TestBoots(t *testing.T) {
	b, socket := serve(t)
	c := client(t, socket)
	boots := []api.Boot{{Node: "c1", Pool: "p", Order: "o", Job: 7, Instance: "i-1", Tries: 1, Ordered: time.Now().UTC(),
		Stages: map[string]float64{"queued": .25}, Seconds: .25, Outcome: "up"}, {Node: "c2", Job: 8}}
	b.SetBoots(boots)
	for _, tt := range []struct {
		node string
		job  uint32
		last int
		want []api.Boot
	}{{"", 0, 10, boots}, {"", 7, 10, boots[:1]}, {"", 0, 1, boots[1:]}, {"c1", 0, 1, boots[:1]}} {
		got, err := c.Boots(t.Context(), tt.node, tt.job, tt.last)
		if diff := cmp.Diff(tt.want, got); err != nil || diff != "" {
			t.Errorf("node %q, job %d, the last %d: %v (-want +got):\n%s", tt.node, tt.job, tt.last, err, diff)
		}
	}
	for query, want := range map[string]string{"": "c2", "job=x": "not a job's number", "last=0": "not a number from 1 to 10000", "last=10001": "not a number"} {
		resp, err := raw(t, socket).Get("http://b/v1/boots?" + query)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || !strings.Contains(string(text), want) || (query == "") != (resp.StatusCode == 200) {
			t.Errorf("%q: %d %s %v", query, resp.StatusCode, text, err)
		}
	}
}
