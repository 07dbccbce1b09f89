package sandbox

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/burst-hpc/burst/slurm"
)

// A node in a partition of its own that takes no jobs and has SuspendTime=INFINITE, as
// slurm/conf writes it for a server of files: powered up by hand it registers, stays when
// it is idle, gets no job, and goes when it is told to.
func TestServerStays(t *testing.T) {
	slow(t)
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	p, err := takePorts(1)
	if err != nil {
		t.Fatal(err)
	}
	defer p.release()
	dir := filepath.Join(t.TempDir(), "s")
	c := start(t, Options{
		Dir: dir, CloudNodes: 1, SuspendTime: 2 * time.Second, SuspendTimeout: 2 * time.Second,
		ResumeProgram: script(t, resumeScript), SuspendProgram: script(t, suspendScript), BurstConfig: filepath.Join(dir, "slurm.conf"),
		Extra: "NodeName=nfs NodeHostname=" + host + " NodeAddr=127.0.0.1 Port=" + span("", p.first, 1) + " CPUs=2 RealMemory=1000 State=CLOUD\n" +
			"PartitionName=nfs Nodes=nfs State=INACTIVE SuspendTime=INFINITE ResumeTimeout=90 SuspendTimeout=3\n",
	})
	run(t, c, "scontrol", "update", "nodename=nfs", "state=power_up")
	eventually(t, 30*time.Second, "the server registers", func() bool { return nodeState(t, c, "nfs") == "IDLE+CLOUD" })
	cmd := c.Command(t.Context(), "sbatch", "-p", "nfs", "--wrap", "true")
	if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), "inactive") {
		t.Errorf("a job for its partition: %v: %s", err, out)
	}
	// A node that jobs use is powered down after its SuspendTime: so long, and longer, the server stays.
	job := run(t, c, "sbatch", "--parsable", "-p", "cloud", "--wrap", "true")
	eventually(t, 60*time.Second, "the job ends", func() bool { return jobState(t, c, job) == "COMPLETED" })
	eventually(t, 30*time.Second, "c1 is suspended", func() bool { return nodeState(t, c, "c1") == "IDLE+CLOUD+POWERED_DOWN" })
	if s := nodeState(t, c, "nfs"); s != "IDLE+CLOUD" {
		t.Errorf("after it was idle for long: %s", s)
	}
	run(t, c, "scontrol", "update", "nodename=nfs", "state=power_down")
	eventually(t, 30*time.Second, "it is powered down", func() bool { return nodeState(t, c, "nfs") == "IDLE+CLOUD+POWERED_DOWN" })
}

// TestServerOfALostState: slurmctld that has lost its state has the server powered down, and calls nothing to
// power it down. Neither that nor scontrol brings it back, as nobody asks its slurmd; a restart of that does.
func TestServerOfALostState(t *testing.T) {
	slow(t)
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	p, err := takePorts(1)
	if err != nil {
		t.Fatal(err)
	}
	defer p.release()
	dir := filepath.Join(t.TempDir(), "s")
	c := start(t, Options{
		Dir: dir, CloudNodes: 1, SuspendTime: 2 * time.Second, SuspendTimeout: 2 * time.Second,
		ResumeProgram: script(t, resumeScript), SuspendProgram: script(t, suspendScript), BurstConfig: filepath.Join(dir, "slurm.conf"),
		Extra: "NodeName=nfs NodeHostname=" + host + " NodeAddr=127.0.0.1 Port=" + span("", p.first, 1) + " CPUs=2 RealMemory=1000 State=CLOUD\n" +
			"PartitionName=nfs Nodes=nfs State=INACTIVE SuspendTime=INFINITE ResumeTimeout=90 SuspendTimeout=3\n",
	})
	run(t, c, "scontrol", "update", "nodename=nfs", "state=power_up")
	eventually(t, 30*time.Second, "the server registers", func() bool { return nodeState(t, c, "nfs") == "IDLE+CLOUD" })
	if err := c.StopController(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.RemoveAll(dir+"/state"), os.Mkdir(dir+"/state", 0o755)); err != nil {
		t.Fatal(err)
	}
	if err := c.StartController(t.Context()); err != nil {
		t.Fatal(err)
	}
	run(t, c, "scontrol", "reconfigure")
	run(t, c, "scontrol", "update", "nodename=nfs", "nodeaddr=127.0.0.1", "state=idle")
	for end := time.Now().Add(5 * time.Second); time.Now().Before(end); time.Sleep(200 * time.Millisecond) { // between two looks
		if s := nodeState(t, c, "nfs"); s != "IDLE+CLOUD+POWERED_DOWN" {
			t.Fatalf("its state was lost, and it is %s", s)
		}
	}
	calls, err := os.ReadFile(filepath.Join(dir, "calls"))
	if err != nil || string(calls) != "resume nfs\n" {
		t.Errorf("Slurm has called %q: %v", calls, err)
	}
	run(t, c, "slurmd", "-N", "nfs", "-f", c.Conf) // which ends the one that runs
	eventually(t, 30*time.Second, "the server registers again", func() bool { return nodeState(t, c, "nfs") == "IDLE+CLOUD" })
}

// TestACommentIsTakenBack: an empty one, as burstd writes it when a job's server serves again.
func TestACommentIsTakenBack(t *testing.T) {
	slow(t)
	c := start(t, Options{OnPrem: 1})
	job := run(t, c, "sbatch", "--parsable", "--hold", "--wrap", "true")
	client := slurm.New(slurm.Exec{Conf: c.Conf})
	for _, text := range []string{"burst: server nfs", ""} {
		id, err := strconv.ParseUint(job, 10, 32)
		if err != nil {
			t.Fatal(err)
		}
		if err := client.UpdateJob(t.Context(), uint32(id), slurm.JobUpdate{AdminComment: &text}); err != nil {
			t.Fatal(err)
		}
		jobs, err := client.Snapshot(t.Context())
		if err != nil || jobs.Jobs[uint32(id)].AdminComment != text {
			t.Errorf("told is %q, want %q: %v", jobs.Jobs[uint32(id)].AdminComment, text, err)
		}
	}
}
