package methods

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/burst-hpc/burst/ft/ckpt"
	"github.com/burst-hpc/burst/slurm/sandbox"
)

// realMANA skips without a MANA on PATH, as realDMTCP does.
func realMANA(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("a real MANA: slow end-to-end, run by make test")
	}
	if _, err := exec.LookPath("mana_launch"); err != nil {
		t.Skip("NOT TESTED: no MANA is here; put the folders of mana_launch and of MPICH's mpiexec into PATH, and MPICH's mpi.h into CPATH (docs/methods/mana.md)")
	}
	if err := usableMANA(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// manaHeat is heat on ranks below MANA, and its checksum when nothing disturbs it,
// by the machine's own MPI.
func manaHeat(t *testing.T, ranks int) (j *testJob, sum string) {
	t.Helper()
	work := []string{"-n", "400", "-i", "100", "--pace", "50", "--progress", "1"}
	build := func(compiler string) string {
		heat := filepath.Join(t.TempDir(), "heat")
		if out, err := exec.CommandContext(t.Context(), "make", "-s", "-C", "../../../contrib/heat", "OUT="+heat, "MPICC="+compiler).CombinedOutput(); err != nil {
			t.Fatalf("building heat by %s: %v\n%s", compiler, err, out)
		}
		return heat
	}
	plain := &testJob{t: t, env: append(os.Environ(), "OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1"), dir: t.TempDir(),
		args: append([]string{"mpirun.openmpi", "--oversubscribe", "-n", "2", build("mpicc.openmpi")}, work...)}
	sum = checksum(t, plain.undisturbedLine())
	mpiexec := ""
	for _, name := range hydraNames {
		if path, err := exec.LookPath(name); err == nil && isHydra(t.Context(), path, os.Environ()) == nil {
			mpiexec = path
			break
		}
	}
	j = newJob(t, "mana", append([]string{mpiexec, "-n", strconv.Itoa(ranks), build("mpicc_mana")}, work...)...)
	return j, sum
}

// evictMANA evicts the job three times, each time while it computes. Before each
// start on is called. MANA crashes the ranks in some checkpoints, where its calls of
// MPI meet theirs: that must be seen, and the job goes on from its last generation.
func evictMANA(t *testing.T, j *testJob, ranks int, on func(start int)) {
	t.Helper()
	on(0)
	s := j.start(nil)
	var g *ckpt.Generation
	crashes, taken := 0, 0
	for evictions := 0; evictions < 3; {
		awaitProgress(t, j)
		next, err := takeMANA(t, s, taken != 1) // of which one goes on
		if err != nil {
			if code, lost := s.Wait(); !errors.Is(lost, ErrLost) || crashes == 4 {
				t.Fatalf("%v; ended with %d, %v\n%s", err, code, lost, j.said())
			}
			crashes++
			t.Logf("MANA CRASHED THE RANKS in a checkpoint, for the %d. time: %v", crashes, err)
			s = j.start(g)
			continue
		}
		taken++
		if g = next; taken == 2 {
			continue
		}
		if g.Ranks != ranks {
			t.Errorf("%d ranks, want %d", g.Ranks, ranks)
		}
		evictions++
		on(evictions)
		began := time.Now()
		s = j.start(g)
		t.Logf("restart %d in %v", evictions, time.Since(began).Round(time.Millisecond))
	}
	late := time.AfterFunc(longEnough, func() { s.Signal(syscall.SIGKILL) })
	defer late.Stop()
	if code, err := s.Wait(); code != 0 || err != nil {
		t.Errorf("ended with %d, %v (137: it hung)\n%s", code, err, j.said())
	}
}

// takeMANA takes a checkpoint, and says what it took.
func takeMANA(t *testing.T, s ckpt.Step, stop bool) (*ckpt.Generation, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), longEnough)
	defer cancel()
	into, began := t.TempDir(), time.Now()
	made, err := s.Checkpoint(ctx, into, stop)
	if err != nil {
		return nil, err
	}
	took := time.Since(began)
	g := &ckpt.Generation{Dir: into, Manifest: ckpt.Manifest{Method: "mana", Ranks: made.Ranks, Extra: made.Extra}}
	images, err := rankImagesOf(g)
	if err != nil {
		t.Fatal(err)
	}
	var size int64
	for _, image := range images {
		st, err := os.Stat(image)
		if err != nil {
			t.Fatal(err)
		}
		size += st.Size()
	}
	t.Logf("checkpoint, stop %v: %d MB in %v", stop, size>>20, took.Round(time.Millisecond))
	if !stop {
		return g, nil
	}
	if code, err := s.Wait(); code != endedByUs || err != nil {
		t.Errorf("a step that was stopped ended with %d, %v", code, err)
	}
	return g, nil
}

var progressLine = regexp.MustCompile(`iteration [0-9]+ of `)

// awaitProgress waits until heat says where it is.
func awaitProgress(t *testing.T, j *testJob) {
	t.Helper()
	had := len(progressLine.FindAllString(j.said(), -1))
	for limit := time.Now().Add(longEnough); len(progressLine.FindAllString(j.said(), -1)) == had; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatalf("no progress:\n%s", j.said())
		}
	}
}

func endedWith(t *testing.T, j *testJob, want string) {
	t.Helper()
	for line := range strings.Lines(j.said()) {
		if strings.Contains(line, "checksum=") {
			if got := checksum(t, line); got != want {
				t.Errorf("checksum %s, undisturbed %s", got, want)
			}
			return
		}
	}
	t.Errorf("no checksum:\n%s", j.said())
}

// TestRealMANA: heat on two ranks of one node, evicted three times.
func TestRealMANA(t *testing.T) {
	realMANA(t)
	j, want := manaHeat(t, 2)
	evictMANA(t, j, 2, func(int) {})
	endedWith(t, j, want)
}

// TestRealMANASlurm: the same on two nodes of a job, by srun, and restarted on two
// others.
func TestRealMANASlurm(t *testing.T) {
	realMANA(t)
	c, err := sandbox.Start(t.Context(), sandbox.Options{OnPrem: 4})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	srun, err := exec.LookPath("srun")
	if err != nil {
		t.Fatal(err)
	}
	j, want := manaHeat(t, 2)
	j.args, j.at = append([]string{srun}, j.args...), 1
	nodes := c.OnPremNodes()
	evictMANA(t, j, 2, func(start int) {
		two := nodes[start%2*2 : start%2*2+2]
		out, err := c.Command(t.Context(), "salloc", "--no-shell", "-p", "onprem", "-N2", "-w", strings.Join(two, ",")).CombinedOutput()
		m := regexp.MustCompile(`Granted job allocation ([0-9]+)`).FindStringSubmatch(string(out))
		if err != nil || m == nil {
			t.Fatalf("salloc: %v\n%s", err, out)
		}
		// As in a batch script on the first of the nodes.
		j.env = append(c.Env(), "SLURM_JOB_ID="+m[1], "SLURM_JOBID="+m[1], "SLURM_JOB_NUM_NODES=2", "SLURM_NNODES=2", "SLURM_NTASKS=2",
			"SLURM_TASKS_PER_NODE=1(x2)", "SLURM_NODELIST="+strings.Join(two, ","), "SLURM_JOB_NODELIST="+strings.Join(two, ","), "SLURMD_NODENAME="+two[0])
	})
	endedWith(t, j, want)
}

// TestRealMANAKilled: nothing goes on without a rank or the coordinator.
func TestRealMANAKilled(t *testing.T) {
	realMANA(t)
	j, _ := manaHeat(t, 2)
	for _, victim := range []string{"coordinator", "rank"} {
		step := j.start(nil)
		awaitProgress(t, j)
		pids, all := processesOf(t, step)
		if !all || len(pids) != 2 {
			t.Fatalf("ranks %v, %v", pids, all)
		}
		pid := pids[0]
		if victim == "coordinator" {
			pid = step.(*dmtcpStep).coordinator.pid()
		}
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		code, err := step.Wait()
		if code == 0 || errors.Is(err, ErrLost) != (victim == "coordinator") {
			t.Errorf("%s: ended with %d, %v", victim, code, err)
		}
		t.Logf("%s killed: %d, %v", victim, code, err)
		for _, pid := range pids {
			if err := syscall.Kill(pid, 0); err == nil {
				t.Errorf("%s: rank %d is an orphan", victim, pid)
			}
		}
	}
}
