package main

import (
	"bytes"
	"context"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/burst-hpc/burst/cmd/internal/api"
	"github.com/burst-hpc/burst/cmd/internal/api/apitest"
)

// drill has the script's events happen one by one, whenever whoever follows it
// asks for the next. The instance is gone before the last of them is told.
type drill struct {
	*apitest.Backend
	mu     sync.Mutex
	script []api.Event
}

func (d *drill) Events(ctx context.Context, after int64, wait time.Duration) ([]api.Event, error) {
	d.mu.Lock()
	if after >= 0 && len(d.script) > 0 {
		d.AddEvent(d.script[0])
		if d.script = d.script[1:]; len(d.script) == 1 {
			d.SetNodes([]api.NodeStatus{{Node: "c1", Pool: "p"}})
		}
	}
	d.mu.Unlock()
	return d.Backend.Events(ctx, after, wait)
}

// TestADrillIsFollowed until its instance is gone: what is said of it, its node
// and the jobs that it had, and nothing else.
func TestADrillIsFollowed(t *testing.T) {
	t.Parallel()
	socket := filepath.Join(t.TempDir(), "b.sock")
	b := &drill{Backend: new(apitest.Backend), script: []api.Event{
		{Seq: 10, Kind: "evict", Node: "c1", Instance: "i-1", Job: 7, Text: "signal USR1"},
		{Seq: 11, Kind: "launch", Node: "c5", Job: 8, Text: "another's"},
		{Seq: 12, Kind: "evicted", Job: 7, Text: "requeued"},
		{Seq: 13, Kind: "gone", Instance: "i-1", Text: "is gone"},
	}}
	populate(b.Backend)
	stop := serveAt(t, b, socket)
	defer stop()
	client := api.NewClient(socket)
	defer client.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
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
