package e2e

import (
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/burst-hpc/burst/cmd/internal/api"
)

// byLibburst: heat that is built with libburst, evicted once on a node and twice on two.
// Its own file is never written before its end: only what Burst has kept counts.
func byLibburst(t *testing.T, h *heats) {
	h.withLibburst(t)
	var wg sync.WaitGroup
	wg.Go(func() { t.Run("one", func(t *testing.T) { libburstOnce(t, h) }) })
	wg.Go(func() {
		t.Run("two of two nodes", func(t *testing.T) {
			r := h.run(t, underLibburst(heatJob{burst: "strategy=both interval=4s", args: []string{"-N2", "--ntasks-per-node=1", "-prest"}, iterations: 3000}))
			r.evictions(1, 2)
			r.leaves(2)
		})
	})
	wg.Wait()
}

// buildingLibburst is held by the one test that builds at a time.
var buildingLibburst sync.Mutex

// withLibburst builds heat with libburst, beside the other; all tests share them.
func (h *heats) withLibburst(t *testing.T) (program string) {
	t.Helper()
	buildingLibburst.Lock()
	defer buildingLibburst.Unlock()
	lib := filepath.Join(filepath.Dir(h.program), "libburst")
	if out, err := exec.CommandContext(t.Context(), "make", "-s", "-C", "../../../contrib/libburst", "OUT="+lib).CombinedOutput(); err != nil {
		t.Fatalf("building libburst (make deps installs gcc): %v\n%s", err, out)
	}
	program = h.program + "-libburst"
	buildAt(t, program, "LIBBURST="+lib)
	return program
}

func underLibburst(o heatJob) heatJob {
	o.ckpt, o.pace, o.step = "ckpt=libburst", 10, "--mpi=pmix ${heat/heat -n/heat-libburst -n} --checkpoint heat.ckpt --restart auto "+o.step
	return o
}

// libburstOnce: heat's output goes through a pipe, in which burst-srun sees nothing: how
// far it is burstd has by libburst alone.
func libburstOnce(t *testing.T, h *heats) {
	const iterations = 4500 // burst-srun speaks twice a minute
	r := h.run(t, underLibburst(heatJob{burst: "strategy=preemptive", args: []string{"-N1", "-n2", "-prest"}, iterations: iterations,
		before: "set -o pipefail", step: "| cat"}))
	r.computes(0, 50)
	r.wait(60*time.Second, "burstd has how far it is", func() bool {
		s, err := r.API.Status(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return slices.ContainsFunc(s.Steps, func(s api.Step) bool {
			return s.Job == r.id && s.Iteration != nil && *s.Iteration >= 50 && s.Iterations != nil && *s.Iterations == iterations
		})
	})
	r.evictions(1, 1)
	r.leaves(1)
	if made := r.generations("attempt-0/gen-*"); len(made) != 1 {
		t.Errorf("generations without a periodic checkpoint: %v", made)
	}
}

// leaves waits for the job's end, after so many evictions for each of which heat wrote
// its checkpoint on Burst's word, and left by itself.
func (r *heatRun) leaves(evictions int) {
	r.t.Helper()
	r.ends(evictions)
	out := r.output(r.id)
	if strings.Count(out, "(libburst)") < evictions || strings.Contains(out, "libburst: ") || strings.Contains(out, "MPI_ABORT") {
		r.t.Errorf("heat did not write its checkpoints on Burst's word, and leave:\n%s", out)
	}
}
