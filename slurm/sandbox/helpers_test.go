package sandbox

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/burst-hpc/burst/slurm/slurmd"
)

// A test binary that is started with this variable holds a sandbox in the
// folder that it names, until it is killed; with outliveEnv it leaves it at once.
const (
	holdEnv    = "BURST_TEST_HOLD"
	outliveEnv = "BURST_TEST_OUTLIVE"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(holdEnv); dir != "" {
		hold(dir)
	}
	os.Exit(m.Run())
}

func hold(dir string) {
	outlive := os.Getenv(outliveEnv) != ""
	c, err := Start(context.Background(), Options{Dir: dir, OnPrem: 1, CloudNodes: 1, Outlive: outlive})
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println(c.Mark)
	if outlive {
		os.Exit(0)
	}
	select {} // the daemons' goroutines go on: no deadlock
}

// start runs a cluster that the test closes, with nothing left.
func start(t *testing.T, o Options) *Cluster {
	t.Helper()
	begun := time.Now()
	c, err := Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	took := time.Since(begun)
	t.Logf("started in %s", took.Round(time.Millisecond))
	if took > 10*time.Second {
		t.Errorf("the start took %s", took)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		nothingLeft(t, c)
	})
	return c
}

func nothingLeft(t *testing.T, c *Cluster) {
	t.Helper()
	for _, entry := range []string{c.Mark, "SLURM_CONF=" + c.Conf} {
		pids, err := slurmd.Marked(entry)
		if err != nil {
			t.Fatal(err)
		}
		for _, pid := range pids {
			line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
			t.Errorf("process %d is left: %q", pid, line)
		}
	}
	for _, dir := range []string{c.Dir, c.run} {
		if dir != "" && exists(dir) {
			t.Errorf("folder %s is left", dir)
		}
	}
}

// run runs a command in the cluster and returns its output.
func run(t *testing.T, c *Cluster, name string, args ...string) string {
	t.Helper()
	cmd := c.Command(t.Context(), name, args...)
	cmd.Dir = c.Dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %q: %v: %s", name, args, err, out)
	}
	return strings.TrimSpace(string(out))
}

func eventually(t *testing.T, within time.Duration, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(within); !ok(); {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within %s", what, within)
		}
		time.Sleep(20 * time.Millisecond) // between two looks
	}
}

func jobState(t *testing.T, c *Cluster, job string) string {
	t.Helper()
	return run(t, c, "squeue", "-h", "-t", "all", "-j", job, "-o", "%T")
}

func nodeState(t *testing.T, c *Cluster, node string) string {
	t.Helper()
	_, rest, _ := strings.Cut(run(t, c, "scontrol", "-o", "show", "node", node), " State=")
	state, _, _ := strings.Cut(rest, " ")
	return state
}

// Trivial power saving: what burstd does, without a cloud, an order or a retry.
const (
	resumeScript = `#!/bin/sh
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
echo "resume $1" >>"${SLURM_CONF%/*}/calls"
spool=$(sed -n 's/^SlurmdSpoolDir=//p' "$SLURM_CONF")
sleep 1 # slurmctld may ignore a node that boots within the second of its resume (docs/slurm-states.md)
for node in $(scontrol show hostnames "$1"); do
	mkdir -p "${spool%%\%n}$node"
	# Of the script's process group nothing outlives it: slurmctld kills a slurmd that has not left it yet.
	setsid env --default-signal slurmd -b -N "$node" -f "$SLURM_CONF" </dev/null >/dev/null 2>&1
done
`
	suspendScript = `#!/bin/sh
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
echo "suspend $1" >>"${SLURM_CONF%/*}/calls"
pids=$(sed -n 's/^SlurmdPidFile=//p' "$SLURM_CONF")
for node in $(scontrol show hostnames "$1"); do
	kill "$(cat "${pids%%\%n.pid}$node.pid")"
done
`
	// The controller names no slurm.conf to it: the tests do, as BURST_CONFIG.
	gateScript = `#!/bin/sh
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin SLURM_CONF="$BURST_CONFIG"
while squeue -h -j "$SLURM_JOB_ID" -o %T | grep -q CONFIGURING; do
	scontrol -o show node "$SLURM_JOB_NODELIST" | grep -q POWER || exit 0
	sleep 0.05
done
exit 0
`
)

// script writes an executable.
func script(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

// asUser runs the test named by run again, as the given ordinary user.
func asUser(t *testing.T, uid uint32, test string) {
	t.Helper()
	// go test's own folder is closed to others.
	dir, err := os.MkdirTemp("", "burst-user-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	self, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	bin := filepath.Join(dir, "sandbox.test")
	if err := os.WriteFile(bin, self, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(dir, int(uid), int(uid)); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), bin, "-test.run="+test, "-test.v")
	cmd.Dir = dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "TMPDIR=" + dir}
	cmd.SysProcAttr = credential(uid)
	out, err := cmd.CombinedOutput()
	t.Logf("as user %d:\n%s", uid, out)
	if err != nil {
		t.Errorf("as user %d: %v", uid, err)
	}
}
