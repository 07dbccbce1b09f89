package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/burst-hpc/burst/slurm/sandbox"
)

// resumeScript starts what it is asked to, except c2, which never boots.
const resumeScript = `#!/bin/sh
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
spool=$(sed -n 's/^SlurmdSpoolDir=//p' "$SLURM_CONF")
sleep 1 # slurmctld may ignore a node that boots within the second of its resume
for node in $(scontrol show hostnames "$1" | grep -v c2); do
	mkdir -p "${spool%%\%n}$node"
	# Of the script's process group nothing outlives it: slurmctld kills a slurmd that has not left it yet.
	setsid env --default-signal slurmd -b -N "$node" -f "$SLURM_CONF" </dev/null >/dev/null 2>&1
done
`

// gateScript leaves the gate's process id and debug log per job.
const gateScript = `#!/bin/sh
export BURST_TEST_GATE=1 BURST_DEBUG=1
exec 2>>%[1]s/gate-$SLURM_JOB_ID.log
echo $$ >%[1]s/gate-$SLURM_JOB_ID.pid
exec %[2]s --then %[1]s/site
`

// A real slurmctld runs the gate while there is no burstd: what it sees of
// jobs and nodes is what GateOpen must know.
func TestWithSlurmctld(t *testing.T) {
	if testing.Short() {
		t.Skip("starts real daemons: slow end-to-end, run by make test")
	}
	files := t.TempDir()
	file := func(name string) string { return filepath.Join(files, name) }
	read := func(name string) string {
		text, err := os.ReadFile(file(name))
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		return string(text)
	}
	dir := t.TempDir()
	write(t, file("burst.toml"), 0o644, fmt.Sprintf("[daemon]\nsocket = %q\n[slurm]\nconf = %q\n", file("none.sock"), filepath.Join(dir, "slurm.conf")))
	write(t, file("resume"), 0o755, resumeScript)
	write(t, file("suspend"), 0o755, "#!/bin/sh\n")
	write(t, file("gate"), 0o755, fmt.Sprintf(gateScript, files, os.Args[0]))
	write(t, file("site"), 0o755, "#!/bin/sh\necho $SLURM_JOB_ID >>"+file("site.log")+"\n")
	c, err := sandbox.Start(t.Context(), sandbox.Options{
		Dir: dir, OnPrem: 1, CloudNodes: 2, SuspendTime: time.Minute,
		ResumeProgram: file("resume"), SuspendProgram: file("suspend"), Gate: file("gate"), BurstConfig: file("burst.toml"),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}()
	run := func(name string, args ...string) string {
		t.Helper()
		cmd := c.Command(t.Context(), name, args...)
		cmd.Dir = files
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s %q: %v: %s", name, args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	submit := func(args ...string) string {
		t.Helper()
		return run("sbatch", append([]string{"--parsable", "--output=/dev/null", "--wrap=sleep 60"}, args...)...)
	}
	state := func(job string) string { return run("squeue", "-h", "-t", "all", "-j", job, "-o", "%T") }
	gateSays := func(job, want string) {
		t.Helper()
		eventually(t, fmt.Sprintf("the gate of job %s says %q", job, want), func() bool {
			return strings.Contains(read("gate-"+job+".log"), want)
		})
	}
	gone := func(job string) {
		t.Helper()
		pid, err := strconv.Atoi(strings.TrimSpace(read("gate-" + job + ".pid")))
		if err != nil {
			t.Fatal(err)
		}
		eventually(t, "the gate of job "+job+" leaves", func() bool { return syscall.Kill(pid, 0) != nil })
	}

	t.Run("on-prem node", func(t *testing.T) {
		job := submit("-p", "onprem")
		gateSays(job, "has no cloud nodes")
		eventually(t, "the job runs", func() bool { return state(job) == "RUNNING" })
		run("scancel", job)
	})
	t.Run("cloud node", func(t *testing.T) {
		job := submit("-p", "cloud", "-w", "c1")
		gateSays(job, "all 1 cloud nodes of job "+job+" have registered")
		opened := time.Now()
		eventually(t, "the job runs", func() bool { return state(job) == "RUNNING" })
		t.Logf("open to running: %s", time.Since(opened).Round(time.Millisecond))
		if sites := strings.Fields(read("site.log")); len(sites) != 2 || sites[1] != job {
			t.Errorf("the site's program ran for jobs %q", sites)
		}
		run("scancel", job)
	})
	for name, end := range map[string]string{"requeue": "PENDING", "scancel": "CANCELLED"} {
		t.Run(name+" while the node boots", func(t *testing.T) {
			job := submit("-p", "cloud", "-w", "c2")
			eventually(t, "the job is configured", func() bool { return state(job) == "CONFIGURING" })
			gateSays(job, "has no answer") // asked at least once
			if name == "requeue" {
				run("scontrol", "requeue", job)
			} else {
				run("scancel", job)
			}
			gone(job)
			if got := state(job); !strings.HasPrefix(got, end) {
				t.Errorf("job is %s, want %s", got, end)
			}
			if name == "requeue" {
				run("scancel", job)
			}
			// c2 is to be allocated again: by the next job, without the wait for its boot.
			run("scontrol", "update", "nodename=c2", "state=power_down_force")
			eventually(t, "c2 is off", func() bool { // if it was off before, newer Slurm shows both at first
				node := run("scontrol", "-o", "show", "node", "c2")
				return strings.Contains(node, "+POWERED_DOWN") && !strings.Contains(node, "+POWER_DOWN")
			})
		})
	}
	t.Run("slurmctld dies while the node boots", func(t *testing.T) {
		job := submit("-p", "cloud", "-w", "c2")
		eventually(t, "the job is configured", func() bool { return state(job) == "CONFIGURING" })
		gateSays(job, "has no answer")
		before := read("site.log")
		if err := c.KillController(); err != nil {
			t.Fatal(err)
		}
		gone(job)
		if after := read("site.log"); after != before {
			t.Errorf("the site's program was run for nobody: %q", strings.TrimPrefix(after, before))
		}
	})
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(30 * time.Second); !ok(); <-tick.C {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within 30 s", what)
		}
	}
}
