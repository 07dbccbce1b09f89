package sandbox

import (
	"strings"
	"testing"
	"time"

	"github.com/burst-hpc/burst/slurm"
)

// TestFreedNodesWithoutNames is what slurm/power relies on where nodes are given back that never got an address,
// and whose names resolve nowhere: with an address that leads nowhere Slurm looks no name up, and goes on answering
// everybody. Off they have their names again, or keep that address (22.05), and the next job gets them either way.
func TestFreedNodesWithoutNames(t *testing.T) {
	slow(t)
	nothing := script(t, "#!/bin/sh\nexit 0\n")
	times := "SuspendTime=600 SuspendTimeout=2 ResumeTimeout=60\n"
	c := start(t, Options{Dir: t.TempDir() + "/s", OnPrem: 1, SlurmdTimeout: 3 * time.Second, // nodes are spoken to each second
		Extra:         "NodeName=n[1-2] CPUs=2 RealMemory=1000 State=CLOUD\nPartitionName=x Nodes=n[1-2] " + times,
		ResumeProgram: nothing, SuspendProgram: nothing})
	client := slurm.New(slurm.Exec{Conf: c.Conf})
	for range 3 {
		job := run(t, c, "sbatch", "--parsable", "-o", "/dev/null", "-p", "x", "-N2", "--requeue", "--wrap", "sleep 1")
		eventually(t, 20*time.Second, "its nodes are asked for", func() bool { return strings.HasSuffix(nodeState(t, c, "n2"), "POWERING_UP") })
		if err := client.UpdateNodes(t.Context(), slurm.NodeUpdate{Nodes: []string{"n1", "n2"}, Addrs: []string{"255.255.255.255", "255.255.255.255"},
			State: "power_down_force", Reason: "test"}); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		eventually(t, 20*time.Second, "they are off", func() bool {
			asked := time.Now()
			off := strings.HasSuffix(nodeState(t, c, "n2"), "+POWERED_DOWN")
			if took := time.Since(asked); took > 5*time.Second {
				t.Errorf("%s after they were freed Slurm answers after %s", asked.Sub(began), took)
			}
			return off
		})
		if s := jobState(t, c, job); s != "PENDING" {
			t.Errorf("its job is %s", s)
		}
		run(t, c, "scancel", job)
	}
}
