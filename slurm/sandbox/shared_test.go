package sandbox

import (
	"strings"
	"testing"
	"time"
)

// TestASharedNodeThatBoots is what slurm/power relies on where a budget refuses some of the jobs that share a node
// which is powered up: one that is requeued, or cancelled, leaves it to the others, and its power-up goes on.
func TestASharedNodeThatBoots(t *testing.T) {
	slow(t)
	c := start(t, Options{Dir: t.TempDir() + "/s", CloudNodes: 1, CPUs: 4, SuspendTime: 10 * time.Minute, SuspendTimeout: 2 * time.Second, ResumeTimeout: 5 * time.Minute,
		ResumeProgram: script(t, "true\n"), SuspendProgram: script(t, "true\n"), Gate: script(t, gateScript)})
	batch := run(t, c, "sbatch", "--parsable", "-p", "cloud", "-c1", "--mem=1", "--requeue", "--wrap", "true")
	salloc := func(name string) string {
		t.Helper()
		run(t, c, "sh", "-c", "salloc -J "+name+" -p cloud -n1 -c1 --mem=1 --no-shell >/dev/null 2>&1 &")
		id := ""
		eventually(t, 30*time.Second, name+" is known", func() bool {
			id = run(t, c, "squeue", "-h", "-n", name, "-o", "%i")
			return id != ""
		})
		return id
	}
	stays, goes := salloc("stays"), salloc("goes")
	for _, id := range []string{batch, stays, goes} {
		eventually(t, 60*time.Second, "job "+id+" waits for c1", func() bool {
			return jobState(t, c, id) == "CONFIGURING" && run(t, c, "squeue", "-h", "-j", id, "-o", "%N") == "c1"
		})
	}
	eventually(t, 30*time.Second, "c1 is powered up", func() bool { return strings.HasSuffix(nodeState(t, c, "c1"), "+POWERING_UP") })
	run(t, c, "scontrol", "requeue", batch)
	run(t, c, "scancel", goes)
	eventually(t, 10*time.Second, "they leave", func() bool {
		return jobState(t, c, batch) == "PENDING" && jobState(t, c, goes) == "CANCELLED"
	})
	for range 3 {
		run(t, c, "sleep", "1") // a round of power saving
		if job, node := jobState(t, c, stays), nodeState(t, c, "c1"); job != "CONFIGURING" || !strings.HasSuffix(node, "+POWERING_UP") {
			t.Errorf("the other is %s, and c1 %s", job, node)
		}
	}
	run(t, c, "scancel", stays)
}
