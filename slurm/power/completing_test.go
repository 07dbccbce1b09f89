package power

import (
	"testing"
	"time"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/slurm"
)

// TestAnAttemptThatStillCompletesIsFenced: Slurm counts a requeue at once, while
// the attempt that it ends may still run on a node that does not answer.
func TestAnAttemptThatStillCompletesIsFenced(t *testing.T) {
	for _, tt := range []struct {
		name     string
		seen     slurm.Job // on the node that is given up
		restarts int       // of the attempt that wants to begin
		fenced   bool
	}{
		{"requeued, and its first attempt completes", slurm.Job{State: "COMPLETING", Restarts: 1}, 1, true},
		{"requeued again", slurm.Job{State: "COMPLETING", Restarts: 3}, 3, true},
		{"it runs, and is requeued by the node's end", slurm.Job{State: "RUNNING"}, 1, true},
		{"it runs, and that attempt asks", slurm.Job{State: "RUNNING", Restarts: 1}, 1, false},
		{"its first attempt", slurm.Job{State: "COMPLETING"}, 0, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.seen.Nodes = "c[1-2]"
			snap := &slurm.Snapshot{Jobs: map[uint32]slurm.Job{7: tt.seen}}
			on := runningOn(snap, func(node string) bool { return node == "c1" })
			m := memory{
				instances: map[string]Instance{"i-1": {Instance: cloud.Instance{ID: "i-1", State: cloud.Running}}},
				fences:    map[string]map[uint32]Fence{"i-1": {7: {Instance: "i-1", Job: 7, Restarts: on["c1"][7], Node: "c1", Since: time.Now()}}},
			}
			if why := m.fenced(slurm.Job{ID: 7, Restarts: tt.restarts}); (why != "") != tt.fenced {
				t.Errorf("fenced: %q", why)
			}
		})
	}
}
