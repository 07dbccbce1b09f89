package sandbox

import (
	"os"
	"regexp"
	"strings"
	"testing"
	"time"
)

// TestActiveFeatures is what slurm/power relies on where a pool has several
// clouds: Slurm gives nodes to jobs by their active features, also powered-down
// ones, without any NodeFeatures plugin, forgets them when it starts or is reconfigured,
// and a job that it has given up for want of them runs once it is released.
func TestActiveFeatures(t *testing.T) {
	slow(t)
	dir := t.TempDir() + "/s"
	c := start(t, Options{Dir: dir, CloudNodes: 3, SuspendTime: 10 * time.Minute, SuspendTimeout: 2 * time.Second, ResumeTimeout: 2 * time.Minute,
		ResumeProgram: script(t, resumeScript), SuspendProgram: script(t, suspendScript), Gate: script(t, gateScript), BurstConfig: dir + "/slurm.conf"})
	text, err := os.ReadFile(c.Conf)
	if err != nil {
		t.Fatal(err)
	}
	write(t, c.Conf, regexp.MustCompile(`(?m)^(NodeName=c\S* .*)$`).ReplaceAllString(string(text), "$1 Feature=east,lon"))
	if err := c.RestartController(t.Context()); err != nil {
		t.Fatal(err)
	}
	active := func(node string) string {
		m := regexp.MustCompile(`ActiveFeatures=(\S*)`).FindStringSubmatch(run(t, c, "scontrol", "-o", "show", "node", node))
		if m == nil {
			t.Fatalf("node %s has no active features", node)
		}
		return m[1]
	}
	set := func(nodes, features string) {
		t.Helper()
		run(t, c, "scontrol", "update", "nodename="+nodes, "activefeatures="+features)
	}
	submit := func(args ...string) string {
		t.Helper()
		return run(t, c, "sbatch", append([]string{"--parsable", "-p", "cloud", "--wrap", "true"}, args...)...)
	}
	ends := func(job string) (node string) {
		t.Helper()
		eventually(t, 90*time.Second, "job "+job+" is done", func() bool { return jobState(t, c, job) == "COMPLETED" })
		return run(t, c, "squeue", "-h", "-t", "all", "-j", job, "-o", "%N")
	}
	if got := ends(submit("-C", "lon")); got != "c1" {
		t.Errorf("the first job ran on %s", got)
	}
	set("c1", "east")
	if got := ends(submit("-C", "lon")); got != "c2" {
		t.Errorf("with c1 up at east, a job for lon ran on %s", got)
	}
	for _, forget := range []func() error{
		func() error { run(t, c, "scontrol", "reconfigure"); return nil },
		func() error { return c.RestartController(t.Context()) },
	} {
		set("c1", "east")
		if err := forget(); err != nil {
			t.Fatal(err)
		}
		if got := active("c1"); got != "east,lon" {
			t.Errorf("after a start, or a reconfiguration, c1 has %s", got)
		}
	}
	// Too few: two nodes are wanted, one has the feature.
	job := submit("-C", "lon", "-N2", "--exclusive", "--begin=now+2")
	set("c1,c2", "east")
	eventually(t, 90*time.Second, "Slurm gives the job up", func() bool {
		return run(t, c, "squeue", "-h", "-j", job, "-o", "%r") == "BadConstraints"
	})
	run(t, c, "scontrol", "update", "nodename=c1", "state=power_down", "reason=x")
	eventually(t, 60*time.Second, "c1 is powered down", func() bool { return strings.HasSuffix(nodeState(t, c, "c1"), "POWERED_DOWN") })
	kept := "east"
	if since(c.version(), 23, 2) {
		kept = "east,lon" // from then on Slurm gives them back, as burstd does when the instance is gone
	}
	if got := active("c1"); got != kept {
		t.Errorf("powered down, c1 has %s, not %s", got, kept)
	}
	set("c1", "east,lon")
	run(t, c, "scontrol", "release", job)
	if got := ends(job); got != "c[1,3]" {
		t.Errorf("the job ran on %s", got)
	}
}
