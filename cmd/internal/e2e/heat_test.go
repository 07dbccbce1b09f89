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
	buildAt(t, h.program)
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
	ckpt       string   // the method, in its #BURST line [heat's own checkpoints on SIGUSR1]
	burst      string   // further words of that line
	args       []string // of sbatch
	before     string   // lines of its script before the step
	step       string   // what burst-srun gets, $heat in it [heat with its own checkpoints]
	srun       string   // further options, where step is not given
	under      string   // what heat is started by, likewise
	after      string   // lines of its script after the step
	cells      int      // [64]
	iterations int      // [1500]
	pace       int      // ms of an iteration [20]
}

// heatRun is a job of heat. Its working folder is its own; heat's own file is
// deleted before a restart, so that only what Burst has kept counts.
type heatRun struct {
	*site
	h      *heats
	o      heatJob
	id     uint32
	dir    string
	folder string // of its generations

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
	if o.ckpt == "" {
		o.ckpt = "ckpt=signal signal=USR1 files=heat.ckpt"
	}
	if o.step == "" {
		o.step = fmt.Sprintf("--mpi=pmix %s %s $heat --checkpoint heat.ckpt --restart auto", o.srun, o.under)
	}
	args := append([]string{"--exclusive", "--chdir=" + dir, "--output=" + filepath.Join(s.Work, "slurm-%j.out")}, o.args...)
	id := s.submit(fmt.Sprintf(`#!/bin/bash
#SBATCH --requeue --open-mode=append
#BURST %s dir=kept %s
export BURST_URLS=http://%s BURST_MUNGE_SOCKET=%s
export OMPI_MCA_mpi_yield_when_idle=1 OMPI_MCA_btl_tcp_if_include=lo OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
attempt=${SLURM_RESTART_COUNT:-0}
burst=%s/burst-srun
heat="%s -n %d -i %d --pace %d --progress 1"
gate() { until [ -e "$1" ]; do sleep 0.1; done; }
echo "attempt $attempt begins"
rm -f heat.ckpt
%s
$burst %s
code=$?
%s
echo "the script ends with $code"
exit $code
`, o.ckpt, o.burst, h.listen, mungeSocket(s.Cluster.Conf), s.bin, h.program, o.cells, o.iterations, o.pace, o.before, o.step, o.after), args...)
	r := &heatRun{site: s, h: h, o: o, id: id, dir: dir, folder: "job-" + id10(id)}
	t.Cleanup(func() {
		if t.Failed() {
			r.look()
		}
	})
	return r
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

// ends waits for the job's end: the field is that of a run without faults, and
// the job was restarted so often.
func (r *heatRun) ends(restarts int) {
	r.t.Helper()
	r.says("the script ends with 0", 1)
	r.completes(r.id)
	out := r.output(r.id)
	got := checksum.FindAllString(out, -1)
	if want := r.h.undisturbed(r.t, r.o.cells, r.o.iterations); len(got) == 0 || slices.ContainsFunc(got, func(sum string) bool { return sum != want }) {
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
