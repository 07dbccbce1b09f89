package e2e

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// byCommands is heat with its own checkpoints again, of which commands of the user's take
// care.
func byCommands(o heatJob, srun string) heatJob {
	o.ckpt = `ckpt=command checkpoint='rm -f heat.ckpt && kill -s USR1 $BURST_PID && until [ -e heat.ckpt ]; do sleep 0.1; done && cp heat.ckpt "$BURST_DIR"'` +
		` restart='exec "$@" --restart "$BURST_GENERATION/heat.ckpt"'`
	o.step = srun + " --mpi=pmix $heat --checkpoint heat.ckpt"
	return o
}

func commandsTwice(t *testing.T, h *heats) {
	r := h.run(t, byCommands(heatJob{burst: "strategy=preemptive", args: []string{"-N2", "--ntasks-per-node=1", "-prest"}, iterations: 2000}, ""))
	r.evictions(1, 2)
	r.ends(2)
}

func commandsFiveTimes(t *testing.T, h *heats) {
	r := h.run(t, byCommands(heatJob{burst: "strategy=preemptive", args: []string{"-N1", "-n1", "-prest"}, iterations: 5000, pace: 10}, ""))
	r.evictions(1, 5)
	r.ends(5)
}

func commandsOtherNodes(t *testing.T, h *heats) {
	fewerNodes(t, h, byCommands(heatJob{burst: "strategy=preemptive"}, onAllNodes))
}

// bySCR: heat with its checkpoints in a real SCR, evicted once, twice and five times.
func bySCR(t *testing.T, h *heats) {
	halt, err := exec.LookPath("scr_halt")
	if err != nil {
		t.Skip("NOT TESTED: no SCR is here; put the folder of scr_halt into PATH (docs/methods/scr.md)")
	}
	buildAt(t, h.program+"-scr", "SCR="+filepath.Dir(filepath.Dir(halt)))
	var wg sync.WaitGroup
	for times, nodes := range map[int]string{1: "-N1", 2: "-N2", 5: "-N1"} {
		wg.Go(func() {
			t.Run(strconv.Itoa(times), func(t *testing.T) {
				r := h.run(t, heatJob{burst: "strategy=preemptive", args: []string{nodes, "--ntasks-per-node=1", "-prest"}, iterations: 1000 * (1 + times), ckpt: "ckpt=scr",
					before: "export SCR_PREFIX=$PWD USER=${USER:-$(id -un)}", pace: 10,
					step: "--mpi=pmix ${heat/heat -n/heat-scr -n} --checkpoint heat.ckpt --restart auto"})
				r.evictions(1, times)
				r.ends(times)
			})
		})
	}
	wg.Wait()
}

// coordinatorKilled: heat on two ranks, which knows nothing of checkpoints, below a
// real DMTCP.
func coordinatorKilled(t *testing.T, h *heats) {
	if _, err := exec.LookPath("dmtcp_launch"); err != nil {
		t.Skip("NOT TESTED: no DMTCP is here; put the folder of dmtcp_launch into PATH (docs/methods/dmtcp.md)")
	}
	losesCoordinator(t, h, heatJob{args: []string{"-N1", "-n2", "-prest"}, step: "mpirun $heat"})
}

// fakeCoordinatorKilled: the same where there is no DMTCP, with tools that say what
// DMTCP's say, and whose images are heat's own checkpoints.
func fakeCoordinatorKilled(t *testing.T, h *heats) {
	tools := t.TempDir()
	for name, text := range standIn {
		if err := os.WriteFile(filepath.Join(tools, name), []byte("#!/bin/sh\nhere="+tools+"\n"+text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	losesCoordinator(t, h, heatJob{args: []string{"-N1", "-n1", "-prest"}, before: "export PATH=" + tools + ":$PATH\n",
		step: "--mpi=pmix $heat --checkpoint heat.ckpt --restart auto"})
}

// losesCoordinator: a step whose coordinator is killed goes on in place from its last
// generation; evicted then, it goes on elsewhere from the one before the newest, of
// which a byte is changed.
func losesCoordinator(t *testing.T, h *heats, o heatJob) {
	o.ckpt, o.burst, o.iterations = "ckpt=dmtcp", "strategy=both interval=10s", 2500
	o.before += `[ $attempt = 0 ] || gate go`
	r := h.run(t, o)
	r.computes(0, 50)
	r.wait(120*time.Second, "a generation", func() bool { return len(r.generations("attempt-0/gen-*[0-9]/manifest.json")) > 0 })
	before := r.newest(0)
	pids := r.processes("dmtcp_coordinator")
	if len(pids) == 0 {
		t.Fatal("there is no coordinator")
	}
	for _, pid := range pids {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) { // a shell has others, for a moment
			t.Fatal(err)
		}
	}
	r.says("restarts from generation", 1)
	if n, attempt := r.from(); attempt != 0 || n < before {
		t.Errorf("from generation %d of attempt %d, but generation %d was whole", n, attempt, before)
	}
	if out := r.output(r.id); !strings.Contains(out, "the coordinator was killed") || r.job(r.id).Restarts != 0 {
		t.Errorf("the user is not told, or the job was requeued:\n%s", out)
	}
	r.wait(120*time.Second, "a generation after that", func() bool { return r.newest(0) > before })
	r.evict(r.on()[0], enough)
	r.says("attempt 1 begins", 1)
	newest := r.newest(0)
	r.damage(newest)
	r.touch("go")
	r.says("restarts from generation", 2)
	if n, attempt := r.from(); attempt != 0 || n != newest-1 {
		t.Errorf("from generation %d of attempt %d, where %d is damaged", n, attempt, newest)
	}
	r.ends(1)
}

// standIn are DMTCP's tools as far as burst-srun needs them, for heat alone. A
// coordinator's port is the number of a folder, which has the way to its own; an image
// is DMTCP's first line, heat's command line, and what heat has written on SIGUSR1.
var standIn = map[string]string{
	"dmtcp_launch": `
[ "$1" != --version ] || { echo "dmtcp_launch (DMTCP) 4.2.0"; exit; }
. $here/options
"$@" &
program=$!
trap 'kill $program' TERM
echo "$@" >$work/words
echo $program >$work/program
while kill -0 $program; do
	kill -0 $(cat $work/coordinator) || { kill -9 $program; exit 99; } # as DMTCP does
	sleep 0.05
done 2>/dev/null
wait $program
`,
	"dmtcp_restart": `
. $here/options
tail -n +3 "$1" >heat.ckpt
exec $here/dmtcp_launch --ckptdir $work/images $(sed -n '2{p;q}' "$1")
`,
	"options": `
while case $1 in --ckptdir) work=${2%/*}; shift 2;; -h|-p|--tmpdir) shift 2;; -*) shift;; *) false;; esac; do :; done
`,
	"dmtcp_coordinator": `
while [ $# -gt 0 ]; do [ "$1" != --port-file ] || file=$2; shift; done
work=${file%/*}
echo $$ >$work/coordinator
port=1
until mkdir $here/port-$port 2>/dev/null; do port=$((port+1)); done
echo $work >$here/port-$port/work
echo "Worker connected"; echo "Updating process Information after exec()"
echo $port >$file.new; mv $file.new $file
until [ -s $work/program ]; do sleep 0.05; done
while kill -0 $(cat $work/program) 2>/dev/null; do sleep 0.05; done
`,
	"dmtcp_command": `
while [ $# -gt 1 ]; do [ "$1" != -p ] || port=$2; shift; done
work=$(cat $here/port-$port/work)
program=$(cat $work/program) && kill -0 $(cat $work/coordinator) || exit 2
case $1 in
-s) echo NUM_PEERS=1; echo RUNNING=yes;;
-k) kill $program;;
-c)
	echo "starting checkpoint; incrementing generation" >>$work/coordinator.log
	from=$(readlink /proc/$program/cwd)/heat.ckpt image=$work/images/ckpt_heat_1-2-3.dmtcp script=$work/scripts/restart.sh
	rm -f $from
	kill -USR1 $program
	until [ -e $from ]; do kill -0 $program || exit 2; sleep 0.02; done
	{ echo DMTCP_CHECKPOINT_IMAGE; cat $work/words $from; } >$image
	{ echo "# Number of processes in the computation = 1"; echo $image; } >$script
	echo "Wrote restart script; (restartScriptPath = $script)" >>$work/coordinator.log;;
esac
`,
}
