package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// heats runs jobs of heat under burst-srun on one site.
type heats struct {
	*site
	listen  string // burstd's address for burst-srun
	program string // heat

	mu    sync.Mutex
	alone map[string]string // checksums of runs without any fault, by their options
}

// buildHeat builds contrib/heat beside the site's programs.
func buildHeat(t *testing.T, s *site, listen string) *heats {
	t.Helper()
	h := &heats{site: s, listen: listen, program: filepath.Join(s.bin, "heat"), alone: map[string]string{}}
	if out, err := exec.CommandContext(t.Context(), "make", "-s", "-C", "../../../contrib/heat", "OUT="+h.program).CombinedOutput(); err != nil {
		t.Fatalf("building heat (make deps installs an MPI and gcc): %v\n%s", err, out)
	}
	return h
}

var (
	checksum  = regexp.MustCompile(`checksum=\S+`)
	restarted = regexp.MustCompile(`heat: restarted from iteration (\d+)`)
	progress  = regexp.MustCompile(`heat: iteration (\d+) of`)
	fromWhich = regexp.MustCompile(`restarts from generation (\d+) of attempt (\d+)`)
)

// undisturbed is the checksum of a run without any fault.
func (h *heats) undisturbed(t *testing.T, cells, iterations int) string {
	t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	args := []string{"-n", strconv.Itoa(cells), "-i", strconv.Itoa(iterations)}
	key := strings.Join(args, " ")
	if h.alone[key] == "" {
		out, err := exec.CommandContext(t.Context(), h.program, args...).CombinedOutput()
		if err != nil || !checksum.Match(out) {
			t.Fatalf("heat alone: %v\n%s", err, out)
		}
		h.alone[key] = string(checksum.Find(out))
	}
	return h.alone[key]
}

// heatJob says what one job of heat is like.
type heatJob struct {
	burst      string   // further words of its #BURST line
	args       []string // of sbatch
	srun       string   // further options of burst-srun
	before     string   // lines of its script before the step
	under      string   // what heat is started by
	cells      int      // [64]
	iterations int      // [1500]
	pace       int      // ms of an iteration [20]
}

// heatRun is a job of heat. Its working folder is its own; heat's own file is
// deleted before a restart, so that only what Burst has kept counts.
type heatRun struct {
	*site
	h   *heats
	o   heatJob
	id  uint32
	dir string

	failures int // ends of its script that are none of Burst's making
}

func (h *heats) run(t *testing.T, o heatJob) *heatRun {
	t.Helper()
	s := &site{h.Site, t, h.bin}
	dir, err := os.MkdirTemp(s.Work, "heat-")
	if err != nil {
		t.Fatal(err)
	}
	if o.cells == 0 {
		o.cells = 64
	}
	if o.iterations == 0 {
		o.iterations = 1500
	}
	if o.pace == 0 {
		o.pace = 20
	}
	args := append([]string{"--exclusive", "--chdir=" + dir, "--output=" + filepath.Join(s.Work, "slurm-%j.out")}, o.args...)
	id := s.submit(fmt.Sprintf(`#!/bin/bash
#SBATCH --requeue --open-mode=append
#BURST ckpt=signal signal=USR1 files=heat.ckpt dir=kept %s
export BURST_URLS=http://%s BURST_MUNGE_SOCKET=%s
export OMPI_MCA_mpi_yield_when_idle=1 OMPI_MCA_btl_tcp_if_include=lo
attempt=${SLURM_RESTART_COUNT:-0}
gate() { until [ -e "$1" ]; do sleep 0.1; done; }
echo "attempt $attempt begins"
rm -f heat.ckpt
%s
burst=%s/burst-srun
$burst --mpi=pmix %s %s %s -n %d -i %d --pace %d --checkpoint heat.ckpt --restart auto --progress 1
code=$?
echo "the script ends with $code"
exit $code
`, o.burst, h.listen, mungeSocket(s.Cluster.Conf), o.before, s.bin, o.srun, o.under, h.program, o.cells, o.iterations, o.pace), args...)
	return &heatRun{site: s, h: h, o: o, id: id, dir: dir}
}

// restarts are the iterations that heat went on from.
func (r *heatRun) restarts() (at []int) {
	for _, m := range restarted.FindAllStringSubmatch(r.output(r.id), -1) {
		n, _ := strconv.Atoi(m[1])
		at = append(at, n)
	}
	return at
}

// computes waits until heat has restarted so often and then done so many more iterations.
func (r *heatRun) computes(restarts, iterations int) {
	r.t.Helper()
	r.wait(120*time.Second, fmt.Sprintf("heat computes after %d restarts", restarts), func() bool {
		out, from := r.output(r.id), 0
		if restarts > 0 {
			all := restarted.FindAllStringSubmatchIndex(out, -1)
			if len(all) < restarts {
				return false
			}
			m := all[restarts-1]
			from, _ = strconv.Atoi(out[m[2]:m[3]])
			out = out[m[1]:]
		}
		all := progress.FindAllStringSubmatch(out, -1)
		if len(all) == 0 {
			return false
		}
		n, _ := strconv.Atoi(all[len(all)-1][1])
		return n >= from+iterations
	})
}

// says waits until the job's output has the words so often.
func (r *heatRun) says(words string, times int) {
	r.t.Helper()
	r.wait(120*time.Second, fmt.Sprintf("the output has %q %d times", words, times), func() bool {
		return strings.Count(r.output(r.id), words) >= times
	})
}

// on are the nodes that the job has now.
func (r *heatRun) on() []string {
	r.t.Helper()
	return expand(r.t, r.job(r.id).Nodes)
}

func (r *heatRun) evict(node string, lead time.Duration) {
	r.t.Helper()
	if err := r.Control.Evict(node, lead); err != nil {
		r.t.Fatal(err)
	}
}

// generations are the complete ones on disk, as attempt-0/gen-1, with what else matches.
func (r *heatRun) generations(pattern string) (all []string) {
	step := filepath.Join(r.dir, "kept", "job-"+id10(r.id), "step-0")
	for _, f := range glob(step, pattern) {
		name, _ := filepath.Rel(step, f) // it is below
		all = append(all, name)
	}
	return all
}

// from is the generation that the last restart took.
func (r *heatRun) from() (n, attempt int) {
	r.t.Helper()
	all := fromWhich.FindAllStringSubmatch(r.output(r.id), -1)
	if len(all) == 0 {
		r.t.Fatalf("no restart from a generation:\n%s", r.output(r.id))
	}
	last := all[len(all)-1]
	n, _ = strconv.Atoi(last[1])
	attempt, _ = strconv.Atoi(last[2])
	return n, attempt
}

// ends waits for the job's end: the field is that of a run without faults, and
// the job was restarted so often.
func (r *heatRun) ends(restarts int) {
	r.t.Helper()
	r.says("the script ends with 0", 1)
	r.completes(r.id)
	out := r.output(r.id)
	if got, want := checksum.FindString(out), r.h.undisturbed(r.t, r.o.cells, r.o.iterations); got != want {
		r.t.Errorf("%s, and %s without faults", got, want)
	}
	if strings.Count(out, "the script ends") != 1+r.failures {
		r.t.Error("an attempt's script went on after its step had been ended")
	}
	if j := r.job(r.id); j.Restarts != restarts {
		r.t.Errorf("%d restarts, want %d", j.Restarts, restarts)
	}
	if r.t.Failed() || testing.Verbose() {
		r.t.Logf("%s", out)
	}
}

// newest is the number of the newest whole generation of an attempt.
func (r *heatRun) newest(attempt int) int {
	r.t.Helper()
	most := 0
	for _, f := range r.generations(fmt.Sprintf("attempt-%d/gen-*/manifest.json", attempt)) {
		name := filepath.Base(filepath.Dir(f))
		if n, err := strconv.Atoi(strings.TrimPrefix(name, "gen-")); err == nil { // not one that is being written
			most = max(most, n)
		}
	}
	if most == 0 {
		r.t.Fatalf("attempt %d has no generation: %v", attempt, r.generations("attempt-*/*"))
	}
	return most
}

// writes waits until a checkpoint has just begun to be written.
func (r *heatRun) writes(attempt int) {
	r.t.Helper()
	pattern := fmt.Sprintf("attempt-%d/gen-*.part", attempt)
	was := r.generations(pattern)
	for end := time.Now().Add(60 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		if now := r.generations(pattern); len(now) > 0 && !slices.Equal(now, was) {
			return
		}
		if time.Now().After(end) {
			r.t.Fatal("no checkpoint was begun")
		}
	}
}

func (r *heatRun) touch(name string) {
	r.t.Helper()
	if err := os.WriteFile(filepath.Join(r.dir, name), nil, 0o600); err != nil {
		r.t.Fatal(err)
	}
}

// processes are those of the job that run the program.
func (r *heatRun) processes(program string) (pids []int) {
	procs, _ := filepath.Glob("/proc/[0-9]*")
	for _, p := range procs {
		exe, _ := os.Readlink(p + "/exe") // gone meanwhile: nothing of ours
		env, _ := os.ReadFile(p + "/environ")
		if exe != filepath.Join(r.bin, program) || !slices.Contains(strings.Split(string(env), "\x00"), "SLURM_JOB_ID="+id10(r.id)) {
			continue
		}
		pid, _ := strconv.Atoi(filepath.Base(p))
		pids = append(pids, pid)
	}
	return pids
}

// process is the only one of the job that runs the program.
func (r *heatRun) process(program string) int {
	r.t.Helper()
	all := r.processes(program)
	if len(all) != 1 {
		r.t.Fatalf("%d processes of %s in job %d", len(all), program, r.id)
	}
	return all[0]
}

func (r *heatRun) scontrol(args ...string) {
	r.t.Helper()
	if out, err := r.Cluster.Command(r.t.Context(), "scontrol", args...).CombinedOutput(); err != nil {
		r.t.Fatalf("scontrol %v: %v: %s", args, err, out)
	}
}
