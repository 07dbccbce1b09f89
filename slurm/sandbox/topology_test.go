package sandbox

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestTopology is what slurm/conf's rule of topology.conf stands on: with topology/tree a job gets no node that is in no switch.
// sbatch refuses it; one that is given such a partition while it waits is taken, and goes on waiting, for "Resources". A
// leaf switch and a reconfiguration mend it, and that leaf needs no switch above it.
func TestTopology(t *testing.T) {
	slow(t)
	dir := t.TempDir() + "/s"
	c := start(t, Options{Dir: dir, OnPrem: 1, CloudNodes: 3, SuspendTime: 10 * time.Minute, ResumeTimeout: 5 * time.Minute,
		ResumeProgram: script(t, "#!/bin/sh\n"), SuspendProgram: script(t, "#!/bin/sh\n"), BurstConfig: dir + "/slurm.conf"})
	topology := filepath.Join(filepath.Dir(c.Conf), "topology.conf")
	const site = "SwitchName=leaf Nodes=o1\nSwitchName=root Switches=leaf\n"
	write(t, topology, site)
	write(t, c.Conf, read(t, c.Conf)+"TopologyPlugin=topology/tree\n")
	if err := c.RestartController(t.Context()); err != nil {
		t.Fatal(err)
	}
	args := []string{"--parsable", "--exclusive", "-o", "/dev/null", "--wrap", "sleep 600"}
	refused := func() string {
		cmd := c.Command(t.Context(), "sbatch", append([]string{"-p", "cloud"}, args...)...)
		cmd.Dir = c.Dir
		out, err := cmd.CombinedOutput()
		if err == nil {
			return ""
		}
		return string(out)
	}
	if out := refused(); !strings.Contains(out, "Requested node configuration is not available") {
		t.Errorf("a job for nodes in no switch: %q", out)
	}
	runs := run(t, c, "sbatch", append([]string{"-p", "onprem"}, args...)...)
	eventually(t, 60*time.Second, "the first job has the site's node", func() bool { return jobState(t, c, runs) == "RUNNING" })
	waits := run(t, c, "sbatch", append([]string{"-p", "onprem"}, args...)...)
	run(t, c, "scontrol", "update", "job", waits, "partition=onprem,cloud")
	log := filepath.Join(c.Dir, "log", "slurmctld.log")
	eventually(t, 60*time.Second, "slurmctld has looked for nodes in cloud", func() bool {
		return strings.Contains(read(t, log), "JobId="+waits+" never runnable in partition cloud")
	})
	if got := run(t, c, "squeue", "-h", "-j", waits, "-o", "%T %r"); got != "PENDING Resources" {
		t.Errorf("a job that was given such a partition: %s", got)
	}
	write(t, topology, site+"SwitchName=burst-p Nodes=c[1-3]\n")
	run(t, c, "scontrol", "reconfigure")
	eventually(t, 60*time.Second, "the job gets a cloud node", func() bool { return jobState(t, c, waits) == "CONFIGURING" })
	two := run(t, c, "sbatch", append([]string{"-p", "cloud", "-N2"}, args...)...)
	eventually(t, 60*time.Second, "a job of two nodes gets them", func() bool { return jobState(t, c, two) == "CONFIGURING" })
	run(t, c, "scancel", runs, waits, two)
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
