package local

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/slurm/sandbox"
	"github.com/burst-hpc/burst/slurm/slurmd"
)

// gateScript ends when c1 has registered, as burst-gate does: without a PrologSlurmctld srun of newer Slurm
// waits for slurmctld's next look at its jobs, of each 30 s. The sandbox gives BURST_CONFIG to it: here it
// names slurm.conf.
const gateScript = `#!/bin/sh
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin SLURM_CONF="$BURST_CONFIG"
while scontrol -o show node c1 | grep -q POWER; do sleep 0.05; done
`

// TestRealSlurmd runs a job on an instance in a real cluster, and ends it:
// slurmd, its steps and what the job has daemonized must be gone.
func TestRealSlurmd(t *testing.T) {
	if testing.Short() {
		t.Skip("a real cluster: slow end-to-end, run by make test")
	}
	t.Run("evicted", func(t *testing.T) {
		endOnARealSlurmd(t, func(p *Provider, _ string) error { return Control{p.cfg.Dir}.Evict("c1", 200*time.Millisecond) })
	})
	t.Run("its machine is killed", func(t *testing.T) {
		endOnARealSlurmd(t, func(p *Provider, id string) error { return unix.Kill(machineOf(t, p, id).PID, unix.SIGKILL) })
	})
}

func endOnARealSlurmd(t *testing.T, ends func(p *Provider, id string) error) {
	gate, dir := filepath.Join(t.TempDir(), "gate"), filepath.Join(t.TempDir(), "c")
	if err := os.WriteFile(gate, []byte(gateScript), 0o755); err != nil {
		t.Fatal(err)
	}
	cluster, err := sandbox.Start(t.Context(), sandbox.Options{
		Dir: dir, CloudNodes: 1, ResumeProgram: "/bin/true", SuspendProgram: "/bin/true", SuspendTime: time.Hour,
		Gate: gate, BurstConfig: filepath.Join(dir, "slurm.conf"),
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
	if err != nil || len(pids) < 2 { // machine, slurmd
		t.Errorf("the instance's id marks %v, %v", pids, err)
	}
	step := stepOf(t, machineOf(t, p, id).PID) // newer Slurm's has no mark

	if err := ends(p, id); err != nil {
		t.Fatal(err)
	}
	awaitState(t, p, id, cloud.Terminated)
	for _, pid := range append(pids, step, daemonized) {
		await(t, "the end of a process", func() bool { return gone(pid) })
	}
}

// stepOf is the slurmstepd whose parent is machine.
func stepOf(t *testing.T, machine int) int {
	t.Helper()
	out, err := exec.Command("pgrep", "-P", strconv.Itoa(machine), "-x", "slurmstepd").Output()
	if err != nil {
		t.Fatalf("pgrep: %v", err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(out)))
	if err != nil {
		t.Fatal(err) // none, or several
	}
	return pid
}
