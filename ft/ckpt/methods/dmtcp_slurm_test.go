package methods

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/burst-hpc/burst/slurm/sandbox"
)

// A step of real Slurm: checkpointed and stopped on one node, restarted on another,
// with the exit code of the application through srun.
func TestRealDMTCPSlurm(t *testing.T) {
	realDMTCP(t)
	c, err := sandbox.Start(t.Context(), sandbox.Options{OnPrem: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	threads := compiled(t, "threads")
	j := newJob(t, "dmtcp")
	undisturbed := newJob(t, "dmtcp", threads, "50", "25", "1", "7").undisturbedLine()
	j.env = append(c.Env(), "SLURM_JOB_NUM_NODES=1")
	on := func(node string) {
		t.Helper()
		out, err := c.Command(t.Context(), "salloc", "--no-shell", "-p", "onprem", "-N1", "-w", node).CombinedOutput()
		if err != nil {
			t.Fatalf("salloc: %v\n%s", err, out)
		}
		m := regexp.MustCompile(`Granted job allocation ([0-9]+)`).FindStringSubmatch(string(out))
		if m == nil {
			t.Fatalf("salloc: %s", out)
		}
		// As of a shell that is on none of the job's nodes: the coordinator is asked
		// for at this host's address.
		j.env = append(j.env, "SLURM_JOB_ID="+m[1])
		j.args = []string{"srun", "--jobid=" + m[1], "-n1", threads, "50", "25", "1", "7"}
		j.at = 3
	}
	nodes := c.OnPremNodes()
	on(nodes[0])
	s := j.start(nil)
	j.await("at 10")
	g := j.checkpoint(s, true)
	if names, err := filepath.Glob(filepath.Join(g.Dir, "ckpt_threads_*.dmtcp")); err != nil || len(names) != 1 {
		t.Errorf("images %v, %v", names, err)
	}
	on(nodes[1])
	s = j.start(g)
	j.await("at 25")
	g = j.checkpoint(s, true)
	on(nodes[0])
	j.ends(j.start(g), 7, fmt.Sprintf("srun: error: %s: task 0: Exited with exit code 7", nodes[0]))
	if !strings.Contains(j.said(), undisturbed+"\n") {
		t.Errorf("%q is not there:\n%s", undisturbed, j.said())
	}
}
