package power

import (
	"strings"
	"testing"

	"github.com/burst-hpc/burst/slurm"
)

func TestGateOpen(t *testing.T) {
	for _, test := range []struct {
		name, job string
		nodes     []string // states
		open      bool
		why       string
	}{
		{"before ResumeProgram", "CONFIGURING", []string{"ALLOCATED+CLOUD+POWERED_DOWN+POWER_UP"}, false, "n0 is ALLOCATED+CLOUD+POWERED_DOWN+POWER_UP"},
		{"booting", "CONFIGURING", []string{"ALLOCATED+CLOUD+NOT_RESPONDING+POWERING_UP"}, false, "waits for its cloud nodes: n0"},
		{"one of two is up", "CONFIGURING", []string{"ALLOCATED+CLOUD", "MIXED+CLOUD+POWERING_UP"}, false, "cloud nodes: n1 is"},
		{"registered", "CONFIGURING", []string{"ALLOCATED+CLOUD", "MIXED+CLOUD"}, true, "all 2 cloud nodes"},
		{"registered and draining", "CONFIGURING", []string{"ALLOCATED+CLOUD+DRAIN"}, true, "all 1 cloud nodes"},
		{"to be powered down afterwards", "CONFIGURING", []string{"ALLOCATED+CLOUD+POWER_DOWN"}, true, "all 1 cloud nodes"},
		{"silent", "CONFIGURING", []string{"ALLOCATED+CLOUD+NOT_RESPONDING"}, false, "n0 is"},
		{"failed to boot", "CONFIGURING", []string{"DOWN+CLOUD"}, false, "n0 is DOWN"},
		{"forced off", "CONFIGURING", []string{"ALLOCATED+CLOUD+POWERING_DOWN"}, false, "n0 is"},
		{"after slurmctld's start", "CONFIGURING", []string{"UNKNOWN+CLOUD"}, false, "n0 is UNKNOWN"},
		{"on-prem nodes", "CONFIGURING", []string{"ALLOCATED", "ALLOCATED"}, true, "no cloud nodes"},
		{"an on-prem node that does not answer", "CONFIGURING", []string{"ALLOCATED+NOT_RESPONDING"}, true, "no cloud nodes"},
		{"on-prem and cloud", "CONFIGURING", []string{"ALLOCATED+NOT_RESPONDING", "ALLOCATED+CLOUD"}, true, "all 1 cloud nodes"},
		{"no nodes known", "CONFIGURING", nil, true, "no cloud nodes"},
		{"requeued meanwhile", "PENDING", []string{"IDLE+CLOUD+POWERED_DOWN"}, true, "is PENDING"},
		{"cancelled meanwhile", "CANCELLED", []string{"IDLE+CLOUD+POWERING_UP"}, true, "is CANCELLED"},
		{"running", "RUNNING", []string{"ALLOCATED+CLOUD+POWERING_UP"}, true, "is RUNNING"},
		{"many wait", "CONFIGURING", strings.Fields(strings.Repeat("ALLOCATED+CLOUD+POWERING_UP ", 5)), false, "n2 is ALLOCATED+CLOUD+POWERING_UP, …"},
	} {
		t.Run(test.name, func(t *testing.T) {
			var nodes []slurm.Node
			for i, s := range test.nodes {
				parts := strings.Split(s, "+")
				nodes = append(nodes, slurm.Node{Name: "n" + string(rune('0'+i)), State: slurm.NodeState{Base: parts[0], Flags: parts[1:]}})
			}
			open, why := GateOpen(slurm.Job{ID: 7, State: test.job}, nodes)
			if open != test.open || !strings.Contains(why, test.why) || !strings.Contains(why, "job 7") {
				t.Errorf("GateOpen = %v, %q; want %v, %q", open, why, test.open, test.why)
			}
		})
	}
}

// TestAsksFences: every attempt but the first, wherever it is to run.
func TestAsksFences(t *testing.T) {
	for _, tt := range []struct {
		job  slurm.Job
		want bool
	}{
		{slurm.Job{State: "CONFIGURING"}, false},
		{slurm.Job{State: "CONFIGURING", Restarts: 1}, true},
		{slurm.Job{State: "RUNNING", Restarts: 1}, false},
		{slurm.Job{State: "PENDING", Restarts: 1}, false},
	} {
		if got := AsksFences(tt.job); got != tt.want {
			t.Errorf("%+v: %v", tt.job, got)
		}
	}
}
