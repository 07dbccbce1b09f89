package e2e

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/burst-hpc/burst/cmd/internal/rig"
)

// apart are partitions: what a job of several nodes may get does not depend on
// how many nodes other jobs have.
const apart = "SchedulerParameters=batch_sched_delay=0,sched_min_interval=0,bf_interval=1\n" + // heterogeneous jobs start by backfill alone
	"PartitionName=rest Nodes=c[1-20]\nPartitionName=three Nodes=c[21-23]\n"

// TestHeatSurvives lets many jobs of heat, under burst-srun on one site, each go
// through a fault of its own, all at once: each ends with the field of a run
// without faults. Then burstd itself dies.
func TestHeatSurvives(t *testing.T) {
	t.Parallel() // its jobs wait more than they compute
	listen := freeAddress(t)
	s := start(t, rig.Options{Nodes: 23, Gate: true, SuspendTime: 5 * time.Second, SuspendTimeout: 5 * time.Second, SlurmExtra: apart,
		DaemonToml: fmt.Sprintf("listen = %q", listen)})
	h := buildHeat(t, s, listen)
	type fault struct {
		name string
		run  func(t *testing.T, h *heats)
	}
	for _, round := range [][]fault{{
		{"one eviction", evictedOnce},
		{"two evictions of two nodes", evictedTwice},
		{"five evictions", evictedFiveTimes},
		{"five evictions by commands", commandsFiveTimes},
		{"another number of nodes", otherNodes},
		{"an eviction during a periodic checkpoint", duringCheckpoint},
		{"an eviction during a restart", duringRestart},
		{"a second node's notice", secondNotice},
		{"a deadline too short for a checkpoint", tooShort},
		{"a full folder", fullFolder},
		{"one byte of the newest generation is changed", oneByte},
		{"a program that ignores SIGTERM", ignoresTerm},
	}, {
		{"burst-srun of two nodes is killed", srunKilled},
		{"two evictions by commands", commandsTwice},
		{"another number of nodes by commands", commandsOtherNodes},
		{"evictions by SCR", bySCR},
		{"evictions by libburst", byLibburst},
		{"DMTCP's coordinator is killed", coordinatorKilled},
		{"a coordinator as DMTCP's is killed", fakeCoordinatorKilled},
		{"a task of an array", arrayTask},
		{"a heterogeneous job", heterogeneous},
		{"an allocation of salloc", allocation},
	}} {
		var wg sync.WaitGroup
		for _, f := range round {
			wg.Go(func() { t.Run(f.name, func(t *testing.T) { f.run(t, h) }) }) // more at once than the machine has processors: they wait
		}
		wg.Wait()
	}
	if t.Failed() {
		return
	}
	t.Run("burstd is killed between the order and the answer", func(t *testing.T) { burstdKilled(t, h) })
}

const enough = 30 * time.Second // of lead time for a checkpoint

func evictedOnce(t *testing.T, h *heats) {
	r := h.run(t, heatJob{burst: "strategy=preemptive", args: []string{"-N1", "-n1", "-prest"}})
	r.evictions(1, 1)
	r.ends(1)
	if made := r.generations("attempt-0/gen-*"); len(made) != 1 {
		t.Errorf("generations without a periodic checkpoint: %v", made)
	}
}

func evictedTwice(t *testing.T, h *heats) {
	r := h.run(t, heatJob{burst: "strategy=both interval=4s", args: []string{"-N2", "--ntasks-per-node=1", "-prest"}, iterations: 2000})
	r.evictions(1, 2)
	r.ends(2)
}

func evictedFiveTimes(t *testing.T, h *heats) {
	r := h.run(t, heatJob{burst: "strategy=preemptive", args: []string{"-N1", "-n1", "-prest"}, iterations: 5000, pace: 10})
	r.evictions(1, 5)
	r.ends(5)
}

// evictions evicts a node of the job's, from the first time to the last.
func (r *heatRun) evictions(first, last int) {
	r.t.Helper()
	for n := first; n <= last; n++ {
		r.computes(n-1, 50)
		r.evict(r.on()[0], enough)
		r.wait(120*time.Second, "it goes on", func() bool { return len(r.restarts()) == n })
	}
	at := r.restarts()
	for i, n := range at {
		if i == 0 && n < 50 || i > 0 && n < at[i-1]+50 {
			r.t.Errorf("it went on from iterations %v", at)
		}
	}
}

// onAllNodes are srun's options for a rank on each of the nodes that the job has now.
const onAllNodes = "-N $SLURM_JOB_NUM_NODES -n $SLURM_JOB_NUM_NODES"

func otherNodes(t *testing.T, h *heats) {
	fewerNodes(t, h, heatJob{burst: "strategy=both interval=5s", srun: onAllNodes})
}

// fewerNodes: of three nodes one is taken back and one drained, and the job
// comes back on fewer, with as many ranks.
func fewerNodes(t *testing.T, h *heats, o heatJob) {
	o.args = []string{"-N1-3", "-pthree"}
	r := h.run(t, o)
	r.computes(0, 50)
	had := r.on()
	if len(had) != 3 {
		t.Fatalf("it began on %v", had)
	}
	r.scontrol("update", "nodename="+had[1], "state=drain", "reason=test")
	r.evict(had[2], enough)
	r.wait(120*time.Second, "it goes on", func() bool { return len(r.restarts()) == 1 })
	if now := r.on(); len(now) >= 3 || slices.Contains(now, had[1]) {
		t.Errorf("it goes on on %v", now)
	}
	r.ends(1)
	r.scontrol("update", "nodename="+had[1], "state=undrain")
	if out := r.output(r.id); !strings.Contains(out, " 3 ranks as") || !strings.Contains(out, " 1 ranks as") && !strings.Contains(out, " 2 ranks as") {
		t.Errorf("ranks:\n%s", out)
	}
}

// srunKilled: the step ends with its burst-srun on both of its nodes, while the
// script goes on, as with srun. What it has kept stays, and a requeue goes on from
// there.
func srunKilled(t *testing.T, h *heats) {
	r := h.run(t, heatJob{burst: "strategy=both interval=3s", args: []string{"-N2", "--ntasks-per-node=1", "-prest"}, cells: 1000, iterations: 1000,
		after: `[ $code = 0 ] || gate seen`})
	r.failures = 1
	r.computes(0, 50)
	r.wait(60*time.Second, "two generations", func() bool { return len(r.generations("attempt-0/gen-*[0-9]/manifest.json")) >= 2 })
	if n := len(r.processes("heat")); n != 2 {
		t.Fatalf("%d processes of heat on two nodes", n)
	}
	r.writes(0)
	before := r.newest(0)
	pid := r.process("burst-srun")
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	r.wait(30*time.Second, "heat has ended with burst-srun", func() bool { return len(r.processes("heat")) == 0 })
	if j := r.job(r.id); j.State != "RUNNING" {
		t.Errorf("the job, whose script goes on, is %s", j.State)
	}
	r.touch("seen")
	r.says("the script ends with 137", 1)
	r.wait(60*time.Second, "the job has failed", func() bool { return r.job(r.id).State == "FAILED" })
	r.scontrol("requeue", id10(r.id))
	r.wait(60*time.Second, "it is requeued", func() bool { return r.job(r.id).State == "PENDING" })
	time.Sleep(time.Until(time.Now().Truncate(time.Second).Add(time.Second))) // a start in the second of the last end fails: docs/slurm-states.md
	r.scontrol("update", "jobid="+id10(r.id), "starttime=now")                // Slurm has it wait for two minutes
	r.wait(120*time.Second, "it goes on", func() bool { return len(r.restarts()) == 1 })
	if n, attempt := r.from(); attempt != 0 || n < before {
		t.Errorf("from generation %d of attempt %d, but generation %d was whole", n, attempt, before)
	}
	r.ends(1)
	if parts := r.generations("attempt-0/*.part"); len(parts) > 0 {
		t.Errorf("what was being written is still there: %v", parts)
	}
}

func duringCheckpoint(t *testing.T, h *heats) {
	r := h.run(t, heatJob{burst: "strategy=both interval=3s", args: []string{"-N1", "-n1", "-prest"}, cells: 1000, iterations: 1000})
	r.computes(0, 50)
	node := r.on()[0]
	r.wait(60*time.Second, "two generations", func() bool { return len(r.generations("attempt-0/gen-*[0-9]/manifest.json")) >= 2 })
	r.writes(0)
	before := r.newest(0)
	r.evict(node, enough)
	r.wait(120*time.Second, "it goes on", func() bool { return len(r.restarts()) == 1 })
	if n, attempt := r.from(); attempt != 0 || n <= before {
		t.Errorf("from generation %d of attempt %d, but generation %d was whole before the notice", n, attempt, before)
	}
	r.ends(1)
}

// duringRestart evicts the node while the second attempt's script is at work and
// burst-srun has not begun, and then while heat is being started from a generation:
// it does not catch its signal yet, dies of it, and its script does not go on for that.
func duringRestart(t *testing.T, h *heats) {
	r := h.run(t, heatJob{burst: "strategy=preemptive", args: []string{"-N1", "-n1", "-prest"}, before: `[ $attempt != 1 ] || gate go`,
		under: `sh -c 'until [ ${SLURM_RESTART_COUNT:-0} != 2 ] || [ -e go ]; do sleep 0.1; done; exec "$0" "$@"'`})
	r.computes(0, 50)
	r.evict(r.on()[0], enough)
	r.says("attempt 1 begins", 1)
	r.evict(r.on()[0], 20*time.Second)
	r.says("attempt 2 begins", 1)
	r.says("restarts from generation", 1)
	r.evict(r.on()[0], 20*time.Second)
	r.says("attempt 3 begins", 1)
	r.wait(120*time.Second, "it goes on", func() bool { return len(r.restarts()) == 1 })
	if n, attempt := r.from(); attempt != 0 || n != 1 {
		t.Errorf("from generation %d of attempt %d", n, attempt)
	}
	if n := r.restarts()[0]; n < 50 {
		t.Errorf("from iteration %d", n)
	}
	r.ends(3)
}

func secondNotice(t *testing.T, h *heats) {
	r := h.run(t, heatJob{burst: "strategy=preemptive", args: []string{"-N2", "--ntasks-per-node=1", "-prest"}})
	r.computes(0, 50)
	nodes := r.on()
	r.evict(nodes[0], enough)
	r.says("burstd asks for", 1)
	r.evict(nodes[1], enough)
	r.wait(120*time.Second, "it goes on", func() bool { return len(r.restarts()) == 1 })
	if now := r.on(); slices.Contains(now, nodes[0]) || slices.Contains(now, nodes[1]) {
		t.Errorf("it goes on on %v, after %v", now, nodes)
	}
	r.ends(1)
	r.wait(60*time.Second, "both notices are done with", func() bool { return len(r.site.evictions(r.id)) == 2 })
	if made := r.generations("attempt-0/gen-*"); len(made) != 1 {
		t.Errorf("generations: %v", made)
	}
}

// tooShort: there is no time for a checkpoint, and the job is requeued at once.
func tooShort(t *testing.T, h *heats) {
	r := h.run(t, heatJob{burst: "strategy=both interval=2s", args: []string{"-N1", "-n1", "-prest"}})
	r.computes(0, 50)
	r.wait(60*time.Second, "two generations", func() bool { return len(r.generations("attempt-0/gen-*[0-9]/manifest.json")) >= 2 })
	before := r.newest(0)
	r.evict(r.on()[0], 3*time.Second)
	r.wait(120*time.Second, "it goes on", func() bool { return len(r.restarts()) == 1 })
	if n, attempt := r.from(); attempt != 0 || n < before {
		t.Errorf("from generation %d of attempt %d, but generation %d was whole", n, attempt, before)
	}
	r.ends(1)
	r.wait(60*time.Second, "the history says what was lost", func() bool {
		notes := r.site.evictions(r.id)
		return len(notes) == 1 && strings.Contains(notes[0], "it goes on from its last checkpoint")
	})
}

func ignoresTerm(t *testing.T, h *heats) {
	r := h.run(t, heatJob{burst: "strategy=preemptive", args: []string{"-N1", "-n1", "-prest"}, under: `env --ignore-signal=TERM`})
	r.evictions(1, 1)
	r.ends(1)
}

// burstdKilled: the step's answer waits for the next burstd, which takes the
// eviction up where it was.
func burstdKilled(t *testing.T, h *heats) {
	r := h.run(t, heatJob{burst: "strategy=preemptive", args: []string{"-N1", "-n1", "-prest"}, cells: 1000, iterations: 800})
	r.computes(0, 50)
	r.evict(r.on()[0], 60*time.Second)
	r.says("burstd asks for", 1)
	if err := r.KillBurstd(); err != nil {
		t.Fatal(err)
	}
	if out := r.output(r.id); strings.Contains(out, "waits for its job to be requeued") {
		t.Log("the answer may have been given before burstd was killed")
	}
	r.says("waits for its job to be requeued", 1)
	if err := r.StartBurstd(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.wait(120*time.Second, "it goes on", func() bool { return len(r.restarts()) == 1 })
	r.ends(1)
	if n := strings.Count(r.output(r.id), "burstd asks for"); n != 1 {
		t.Errorf("the step was asked %d times", n)
	}
	r.wait(60*time.Second, "the eviction is closed, with its checkpoint", func() bool {
		notes := r.site.evictions(r.id)
		return len(notes) == 1 && strings.Contains(notes[0], "checkpoint of ")
	})
}
