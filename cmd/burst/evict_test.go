package main

import (
	"bytes"
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/burst-hpc/burst/cmd/internal/api"
	"github.com/burst-hpc/burst/cmd/internal/api/apitest"
)

// TestADrillIsFollowed until its instance is gone: what is said of it, its node
// and the jobs that it had, and nothing else.
func TestADrillIsFollowed(t *testing.T) {
	t.Parallel()
	socket := filepath.Join(t.TempDir(), "b.sock")
	b := new(apitest.Backend)
	populate(b)
	stop := serveAt(t, b, socket)
	defer stop()
	client := api.NewClient(socket)
	defer client.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for i, e := range []api.Event{
		{Kind: "evict", Node: "c1", Instance: "i-1", Job: 7, Text: "signal USR1"},
		{Kind: "launch", Node: "c5", Job: 8, Text: "another's"},
		{Kind: "evicted", Job: 7, Text: "requeued"},
		{Kind: "gone", Instance: "i-1", Text: "is gone"},
	} {
		time.AfterFunc(time.Duration(i+1)*100*time.Millisecond, func() {
			e.Seq = int64(i + 10)
			if e.Kind == "gone" {
				b.SetNodes([]api.NodeStatus{{Node: "c1", Pool: "p"}})
			}
			b.AddEvent(e)
		})
	}
	var out, errs bytes.Buffer
	o := evictOptions{lead: time.Second, yes: true, wait: true}
	if err := runEvict(ctx, streams{&out, &errs}, client, o, "c1"); err != nil {
		t.Fatal(err)
	}
	var got []string
	for line := range strings.Lines(out.String()) {
		for _, text := range []string{"signal USR1", "another's", "requeued", "is gone", "launched"} {
			if strings.Contains(line, text) {
				got = append(got, text)
			}
		}
	}
	if strings.Join(got, ", ") != "signal USR1, requeued, is gone" {
		t.Errorf("printed:\n%s%s", out.String(), errs.String())
	}
	w := &watching{client: client, open: []api.Evicted{{Node: "c2", Instance: "i-2"}}, jobs: map[uint32]bool{}}
	b.SetNodes([]api.NodeStatus{{Node: "c2", Instance: "i-2"}})
	if err := w.run(ctx, &out, 100*time.Millisecond); err == nil || !strings.Contains(err.Error(), "not gone within 100ms") {
		t.Errorf("one that does not go: %v", err)
	}
}
