package sandbox

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/burst-hpc/burst/slurm"
)

// TestNodesSetAside is what slurm/power relies on where a pool is dry: Slurm gives reserved
// nodes that are off to no job, and takes nothing from one that has them already, be it with
// --no-requeue; a job that is too large for what is free beside them waits; a start of slurmctld keeps that, the end of it lets jobs have them.
func TestNodesSetAside(t *testing.T) {
	slow(t)
	dir := t.TempDir() + "/s"
	times := "SuspendTime=600 SuspendTimeout=2 ResumeTimeout=60\n"
	resume := strings.Replace(resumeScript, "\tmkdir", "\t[ $node = large ] && continue # it has no GPU to register\n\tmkdir", 1)
	c := start(t, Options{Dir: dir, CloudNodes: 3, SuspendTime: 10 * time.Minute, SuspendTimeout: 2 * time.Second, ResumeTimeout: time.Minute,
		Extra: "GresTypes=gpu\nNodeName=large NodeAddr=127.0.0.1 Port=6820 CPUs=8 RealMemory=4000 Gres=gpu:1 Weight=9 State=CLOUD\n" +
			"PartitionName=a Nodes=c[1-2],large " + times + "PartitionName=b Nodes=c3 " + times,
		ResumeProgram: script(t, resume), SuspendProgram: script(t, suspendScript), Gate: script(t, gateScript), BurstConfig: dir + "/slurm.conf"})
	client := slurm.New(slurm.Exec{Conf: c.Conf})
	submit := func(args ...string) string {
		t.Helper()
		return run(t, c, "sbatch", append([]string{"--parsable", "-o", "/dev/null", "--wrap", "sleep 1"}, args...)...)
	}
	nodes := func(job string) string { return run(t, c, "squeue", "-h", "-t", "all", "-j", job, "-o", "%N") }
	ends := func(job string) {
		t.Helper()
		eventually(t, 60*time.Second, "job "+job+" is done", func() bool { return jobState(t, c, job) == "COMPLETED" })
	}
	has := submit("-p", "a", "-w", "c1", "--no-requeue")
	eventually(t, 20*time.Second, "it has its node, which is off", func() bool { return strings.HasPrefix(nodeState(t, c, "c1"), "MIXED") })
	r := slurm.Reservation{Name: "burst-dry-p", Nodes: []string{"c1", "c2", "large"}, Start: time.Now(), End: time.Now().Add(10 * time.Minute)}
	for range 2 { // the second replaces the first
		if err := client.Reserve(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	ends(has)
	waits, either := submit("-p", "a", "-w", "c2"), submit("-p", "a,b")
	ends(either)
	var tooLarge []string // for c3, which is free
	for _, needs := range []string{"--mem=3000", "--gres=gpu:1", "--cpus-per-task=4"} {
		tooLarge = append(tooLarge, submit("-p", "a,b", needs))
	}
	if n := nodes(either); n != "c3" {
		t.Errorf("the job of two partitions ran on %s", n)
	}
	if err := c.RestartController(t.Context()); err != nil {
		t.Fatal(err)
	}
	ends(submit("-p", "b"))
	for _, job := range append(tooLarge, waits) {
		if s := jobState(t, c, job); s != "PENDING" {
			t.Errorf("job %s, which waits for a reserved node, is %s", job, s)
		}
	}
	if s := nodeState(t, c, "c2"); s != "IDLE+CLOUD+POWERED_DOWN" && s != "IDLE+CLOUD+POWERED_DOWN+RESERVED" {
		t.Errorf("the reserved node is %s", s)
	}
	if err := client.Unreserve(t.Context(), r.Name); err != nil {
		t.Fatal(err)
	}
	for _, job := range tooLarge { // at once, or when Slurm looks at all jobs
		eventually(t, 60*time.Second, "job "+job+" has its node", func() bool { return nodes(job) == "large" })
	}
	run(t, c, "scancel", tooLarge...)
	ends(waits)
	// One that is forgotten ends by itself.
	r.Start, r.End = time.Now(), time.Now().Add(3*time.Second)
	if err := client.Reserve(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	ends(submit("-p", "a", "--begin", fmt.Sprint("uts", r.End.Add(2*time.Second).Unix())))
}
