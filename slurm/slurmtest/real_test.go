package slurmtest_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/burst-hpc/burst/slurm"
	"github.com/burst-hpc/burst/slurm/sandbox"
	"github.com/burst-hpc/burst/slurm/slurmtest"
)

// cluster is what the scenario needs of a controller, simulated or real.
type cluster interface {
	slurm.Runner
	submit(nodes int) (id string)
	sleep(time.Duration)
}

// reservations makes and removes some, also twice.
func reservations(t *testing.T, client *slurm.Client, c cluster) {
	t.Helper()
	r := slurm.Reservation{Name: "burst-i-1", Nodes: []string{"c1"}, Start: time.Now().Add(time.Hour)}
	for range 2 {
		if err := client.Reserve(t.Context(), r); err != nil {
			t.Error(err)
		}
	}
	if _, _, err := c.Run(t.Context(), "scontrol", "delete", "reservationname=burst-i-1"); err != nil {
		t.Errorf("it is not there: %v", err)
	}
	for range 2 {
		if err := client.Unreserve(t.Context(), r.Name); err != nil {
			t.Error(err)
		}
	}
	r.Nodes = []string{"nosuch"}
	if err := client.Reserve(t.Context(), r); !errors.Is(err, slurm.ErrNoNode) {
		t.Errorf("of a node that is not there: %v", err)
	}
}

// watched is a job's and two nodes' states in a scenario, without repetitions.
type watched struct{ job, c1, c2 []string }

// scenario runs a job on two powered-down nodes, takes one from it, cancels
// it, and waits until both nodes are powered down again.
func scenario(t *testing.T, c cluster) watched {
	t.Helper()
	client := slurm.New(c)
	var seen watched
	add := func(list *[]string, s string) {
		if n := len(*list); n == 0 || (*list)[n-1] != s {
			*list = append(*list, s)
		}
	}
	await := func(what string, ok func(j slurm.Job) bool) {
		t.Helper()
		for left := time.Minute; ; left -= 20 * time.Millisecond {
			s, err := client.Snapshot(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			add(&seen.c1, s.Nodes["c1"].State.String())
			add(&seen.c2, s.Nodes["c2"].State.String())
			if j := s.Jobs[1]; ok(j) {
				return
			}
			if left < 0 {
				t.Fatalf("%s: not within a minute; nodes were %v and %v", what, seen.c1, seen.c2)
			}
			c.sleep(20 * time.Millisecond)
		}
	}
	in := func(state string) func(slurm.Job) bool {
		return func(j slurm.Job) bool { add(&seen.job, j.State+" "+j.Reason); return j.State == state }
	}
	await("the first look", func(slurm.Job) bool { return true })
	reservations(t, client, c)
	id := c.submit(2)
	await("the job runs", in("RUNNING"))
	await("a look at its nodes", func(slurm.Job) bool { return true }) // they were read before the job
	if err := client.UpdateNodes(t.Context(), slurm.NodeUpdate{Nodes: []string{"c2"}, State: "power_down_force", Reason: "test"}); err != nil {
		t.Fatal(err)
	}
	await("the job is requeued", in("PENDING"))
	await("it has its reason", func(j slurm.Job) bool { return in("PENDING")(j) && j.Reason == "BeginTime" }) // a moment later
	if _, stderr, err := c.Run(t.Context(), "scancel", id); err != nil {
		t.Fatalf("scancel: %v: %s", err, stderr)
	}
	await("the job is cancelled", in("CANCELLED"))
	await("the nodes are powered down", func(slurm.Job) bool {
		return seen.c1[len(seen.c1)-1] == off && seen.c2[len(seen.c2)-1] == off
	})
	return seen
}

// passing are states so short that one who looks on may miss them.
var passing = []string{offAlloc, leaving, "IDLE+CLOUD+COMPLETING+POWER_DOWN", "IDLE+CLOUD+POWER_DOWN", "PENDING", "COMPLETING"}

func lasting(states []string) []string {
	return slices.DeleteFunc(slices.Clone(states), func(s string) bool {
		base, _, _ := strings.Cut(s, " ") // a job's reason
		return slices.Contains(passing, base)
	})
}

func (w *world) submit(nodes int) string {
	w.Submit(slurmtest.Job{Nodes: nodes, Requeue: true})
	return "1"
}

func (w *world) sleep(d time.Duration) { w.pass(d) }

// real is a sandbox in which ResumeProgram starts a slurmd and SuspendProgram ends it.
type real struct {
	slurm.Exec
	t *testing.T
	c *sandbox.Cluster
}

func (r real) submit(nodes int) string {
	cmd := r.c.Command(r.t.Context(), "sbatch", "--parsable", "-p", "cloud", "--exclusive", "--requeue",
		"-N", strconv.Itoa(nodes), "-o", "/dev/null", "--wrap", "sleep 60")
	cmd.Dir = r.c.Dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		r.t.Fatalf("sbatch: %v: %s", err, out)
	}
	return strings.TrimSpace(string(out))
}

func (r real) sleep(d time.Duration) { time.Sleep(d) }

const (
	searchPath   = "export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\n"
	resumeScript = "#!/bin/sh\n" + searchPath + `
sleep 1 # a boot, long enough to be seen; slurmctld may ignore one within the second of the resume
spool=$(sed -n 's/^SlurmdSpoolDir=//p' "$SLURM_CONF")
for node in $(scontrol show hostnames "$1"); do
	mkdir -p "${spool%%\%n}$node"
	# Of the script's process group nothing outlives it: slurmctld kills a slurmd that has not left it yet.
	setsid env --default-signal slurmd -b -N "$node" -f "$SLURM_CONF" </dev/null >/dev/null 2>&1
done
`
	suspendScript = "#!/bin/sh\n" + searchPath + `
pids=$(sed -n 's/^SlurmdPidFile=//p' "$SLURM_CONF")
for node in $(scontrol show hostnames "$1"); do
	kill "$(cat "${pids%%\%n.pid}$node.pid")"
done
`
	// The sandbox gives BURST_CONFIG to the gate: here it names slurm.conf.
	gateScript = "#!/bin/sh\n" + searchPath + `
export SLURM_CONF="$BURST_CONFIG"
while squeue -h -j "$SLURM_JOB_ID" -o %T | grep -q CONFIGURING; do
	scontrol -o show node "$SLURM_JOB_NODELIST" | grep -q POWER || exit 0
	sleep 0.05
done
`
)

// TestLikeTheRealOne wants the simulated and the real slurmctld to take nodes
// and job through the same states.
func TestLikeTheRealOne(t *testing.T) {
	if testing.Short() {
		t.Skip("a real slurmctld: slow end-to-end, run by make test")
	}
	programs := t.TempDir()
	program := func(name, text string) string {
		path := filepath.Join(programs, name)
		if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
		return path
	}
	dir, err := os.MkdirTemp("", "slurmtest")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	c, err := sandbox.Start(t.Context(), sandbox.Options{
		Dir: filepath.Join(dir, "c"), CloudNodes: 2, OnPrem: 1, SuspendTime: 4 * time.Second, SuspendTimeout: 3 * time.Second,
		ResumeProgram: program("resume", resumeScript), SuspendProgram: program("suspend", suspendScript), Gate: program("gate", gateScript),
		BurstConfig: filepath.Join(dir, "c", "slurm.conf"),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	want := scenario(t, real{slurm.Exec{Conf: c.Conf}, t, c})
	t.Logf("the real one: job %q, c1 %q, c2 %q", want.job, want.c1, want.c2)

	o := slurmtest.Options{Nodes: []string{"c1", "c2"}, OnPrem: []string{"o1"}, SuspendTime: 4 * time.Second, SuspendTimeout: 3 * time.Second, ReturnToService: 2}
	bubble(t, o, func(w *world) {
		got := scenario(w.t, w)
		t.Logf("the simulated one: job %q, c1 %q, c2 %q", got.job, got.c1, got.c2)
		for _, pair := range []struct {
			name      string
			got, want []string
		}{{"job", got.job, want.job}, {"c1", got.c1, want.c1}, {"c2", got.c2, want.c2}} {
			if !slices.Equal(lasting(pair.got), lasting(pair.want)) {
				t.Errorf("%s was\n%q, with the real slurmctld\n%q", pair.name, pair.got, pair.want)
			}
		}
	})
}
