package e2e

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/burst-hpc/burst/cmd/internal/rig"
)

// TestSrunBetweenNodesWhoseNamesResolveNowhere has every cloud node in a
// network namespace of its own, with an address that only Slurm tells. A step
// that srun starts on one of them reaches the others: with cloud_dns, or with
// addresses that Slurm does not pass on, it would not.
func TestSrunBetweenNodesWhoseNamesResolveNowhere(t *testing.T) {
	if os.Getuid() != 0 {
		t.Log("network namespaces need root: not tested as an ordinary user")
		return
	}
	s := start(t, rig.Options{Nodes: 3, Gate: true, NetNS: true, SuspendTime: 3 * time.Second, SlurmExtra: quick})
	id := s.submit(`#!/bin/sh
#SBATCH -N3 --requeue
for n in c1 c2 c3; do timeout 1 getent hosts $n && echo "$n resolves"; done
srun sh -c 'echo "task on $SLURMD_NODENAME"; ip -4 -o addr show scope global | while read -r _ _ _ addr _; do echo "address $addr"; done'
`)
	s.wait(60*time.Second, "the job is done", func() bool { return s.job(id).State == "COMPLETED" })
	out := s.output(id)
	if strings.Contains(out, "resolves") {
		t.Errorf("a node's name resolves here: this test shows nothing\n%s", out)
	}
	addrs := map[string]bool{}
	for _, line := range strings.Split(out, "\n") {
		if a, ok := strings.CutPrefix(line, "address "); ok {
			addrs[a] = true
		}
	}
	if strings.Count(out, "task on c") != 3 || len(addrs) != 3 {
		t.Errorf("want three tasks on three addresses:\n%s", out)
	}
	s.wait(60*time.Second, "no instance lives", func() bool { return s.live() == 0 })
}
