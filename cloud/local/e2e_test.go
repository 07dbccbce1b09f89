package local

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/slurm/sandbox"
	"github.com/burst-hpc/burst/slurm/slurmd"
)

// TestRealSlurmd runs a job on an instance in a real cluster, and evicts it:
// slurmd, its steps and what the job has daemonized must be gone.
func TestRealSlurmd(t *testing.T) {
	if testing.Short() {
		t.Skip("a real cluster: slow end-to-end, run by make test")
	}
	cluster, err := sandbox.Start(t.Context(), sandbox.Options{
		CloudNodes: 1, ResumeProgram: "/bin/true", SuspendProgram: "/bin/true", SuspendTime: time.Hour,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cluster.Close(); err != nil {
			t.Error(err)
		}
	})
	cfg := configure(t)
	cfg.Conf, cfg.Slurmd = cluster.Conf, ""
	p := open(t, cfg)

	pidFile := filepath.Join(t.TempDir(), "pid")
	job := cluster.Command(t.Context(), "srun", "-p", "cloud", "-w", "c1", "sh", "-c",
		"setsid sh -c 'echo $$ >"+pidFile+"; sleep 1000; :' & sleep 1000")
	if err := job.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = job.Process.Kill() // srun may have ended with its node
		_ = job.Wait()
	})
	nodeIs := func(state string) func() bool {
		return func() bool {
			out, err := cluster.Command(t.Context(), "scontrol", "-o", "show", "node", "c1").Output()
			return err == nil && strings.Contains(string(out), state)
		}
	}
	await(t, "power-up of c1", nodeIs("POWERING_UP"))

	launched := time.Now()
	got, err := p.Launch(t.Context(), request("t", 1))
	if err != nil {
		t.Fatal(err)
	}
	id := got[0].ID
	if err := p.Assign(t.Context(), map[string]string{id: "c1"}); err != nil {
		t.Fatal(err)
	}
	daemonized := numberIn(t, pidFile)
	t.Logf("launch to the job: %s", time.Since(launched))
	pids, err := slurmd.Marked(instanceEnv + "=" + id)
	if err != nil || len(pids) < 3 { // machine, slurmd, slurmstepd
		t.Errorf("the instance's id marks %v, %v", pids, err)
	}

	if err := (Control{cfg.Dir}).Evict("c1", 200*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	awaitState(t, p, id, cloud.Terminated)
	for _, pid := range append(pids, daemonized) {
		await(t, "the end of a process", func() bool { return gone(pid) })
	}
}
