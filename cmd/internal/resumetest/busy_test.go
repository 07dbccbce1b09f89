package resumetest

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/burst-hpc/burst/cmd/internal/api"
	"github.com/burst-hpc/burst/cmd/internal/api/apitest"
)

// asked is a test of node c1, and what burstd answers it.
func asked(t *testing.T) (*test, *apitest.Backend) {
	t.Helper()
	b, socket := new(apitest.Backend), filepath.Join(t.TempDir(), "b.sock")
	stop, err := apitest.Serve(b, socket)
	if err != nil {
		t.Fatal(err)
	}
	c := api.NewClient(socket)
	t.Cleanup(func() {
		c.Close()
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
	return &test{o: Options{API: c}, Result: Result{Node: "c1"}, began: time.Now()}, b
}

// TestABusySite: the node's order is found, whatever else has been ordered since.
func TestABusySite(t *testing.T) {
	s, b := asked(t)
	boots := []api.Boot{{Node: "c1", Order: "of before", Ordered: s.began.Add(-time.Hour)}, {Node: "c1", Order: "ours", Ordered: s.began.Add(time.Second)}}
	for i := range 1000 {
		boots = append(boots, api.Boot{Node: fmt.Sprint("d", i), Order: "theirs", Ordered: s.began.Add(2 * time.Second)})
	}
	b.SetBoots(boots)
	if got, err := s.record(t.Context()); err != nil || got.Order != "ours" {
		t.Errorf("%+v, %v", got, err)
	}
}

// TestFree: a launch of which nothing is known yet is no end.
func TestFree(t *testing.T) {
	s, b := asked(t)
	for _, tt := range []struct {
		node api.NodeStatus
		want bool
		seen string
	}{
		{api.NodeStatus{Journal: "launching"}, false, "burstd still has it launching, and an instance of it may come"},
		{api.NodeStatus{Journal: "booting", Instance: "i-1"}, false, "its instance i-1 has not ended (booting)"},
		{api.NodeStatus{Instance: "i-1", Journal: "ending"}, false, "its instance i-1 has not ended (ending)"},
		{api.NodeStatus{Slurm: "IDLE+CLOUD+POWERED_DOWN"}, true, ""},
	} {
		tt.node.Node = "c1"
		b.SetNodes([]api.NodeStatus{{Node: "c0", Journal: "up", Instance: "i-0"}, tt.node})
		if got, err := s.free(t.Context()); err != nil || got != tt.want || !got && s.seen != tt.seen {
			t.Errorf("%+v: %v, %q, %v", tt.node, got, s.seen, err)
		}
	}
}
