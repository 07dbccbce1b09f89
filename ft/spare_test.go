package ft

import (
	"strings"
	"testing"

	"github.com/burst-hpc/burst/slurm"
)

// TestSpare is off, and is to stay off.
func TestSpare(t *testing.T) {
	for state, want := range map[string]bool{
		"IDLE+CLOUD+POWERED_DOWN":                true,
		"IDLE+CLOUD+POWER_DOWN+POWERED_DOWN":     false, // power_down of a node that was off, as newer Slurm shows it
		"IDLE+CLOUD+POWER_UP+POWERED_DOWN":       false,
		"IDLE+CLOUD+POWERING_DOWN":               false,
		"IDLE+CLOUD+PLANNED+POWERED_DOWN":        false,
		"MIXED+CLOUD+POWERED_DOWN":               false,
		"DOWN+CLOUD+NOT_RESPONDING+POWERED_DOWN": false,
	} {
		words := strings.Split(state, "+")
		snap := &slurm.Snapshot{Nodes: map[string]slurm.Node{"c1": {State: slurm.NodeState{Base: words[0], Flags: words[1:]}}}}
		if got := spare(snap, []string{"c1"}, nil) == "c1"; got != want {
			t.Errorf("%s: %t", state, got)
		}
	}
}
