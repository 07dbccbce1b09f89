package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/burst-hpc/burst/slurm/sandbox"
)

// overheadPairs is how many pairs of steps are timed of each MPI.
const overheadPairs = 25

// coldPairs is how many pairs are timed in which burst-srun finds no sign of an earlier launch.
const coldPairs = 7

// burstSrunOverhead is what burst-srun costs a program of MPI, over srun with the option
// that suits it.
func burstSrunOverhead() Bench {
	return Bench{
		Name: "burst-srun-overhead",
		Method: fmt.Sprintf("in a batch job on two real slurmds of this host, a program of MPI that ends at once, by srun with the right --mpi and by burst-srun without, in turn, process start to end: how much longer burst-srun takes to find the MPI and what it needs; "+
			"median of %d pairs, of the MPI that takes longest. The figure is of the second and later launches of a job that asks for no checkpoints; a job's first one also asks Slurm and looks for checkpoints, and its median of %d pairs is printed beside", overheadPairs, coldPairs),
		Unit: "ms", Better: Lower, Goal: 30,
		Run: measureOverhead,
	}
}

// mpiCompilers are those whose programs are measured, and srun's type for each.
var mpiCompilers = [][2]string{{"mpicc", "pmix"}, {"mpicc.mpich", "pmi2"}}

// quickMPI links to MPI, and does nothing with it.
const quickMPI = "#include <mpi.h>\nint main(int c, char **v) { return c > 1 ? MPI_Init(&c, &v) : 0; }\n"

// overheadScript times pairs in nanoseconds; who begins changes from one to the next.
const overheadScript = `#!/bin/bash
t() { local a=$(date +%%s%%N); "$@" 2>>errors || exit; local b=$(date +%%s%%N); echo -n "$((b-a)) "; }
for i in $(seq %[4]d); do
	export TMPDIR=$(mktemp -d) # where the sign of a job's first launch is
	if ((i %% 2)); then t srun --mpi=%[2]s ./quick; t %[3]s ./quick; echo srun cold
	else t %[3]s ./quick; t srun --mpi=%[2]s ./quick; echo burst-srun cold; fi
	((i == %[4]d)) || rm -r "$TMPDIR"
done
for i in $(seq %[1]d); do
	if ((i %% 2)); then t srun --mpi=%[2]s ./quick; t %[3]s ./quick; echo srun warm
	else t %[3]s ./quick; t srun --mpi=%[2]s ./quick; echo burst-srun warm; fi
done
rm -r "$TMPDIR"
`

func measureOverhead(ctx context.Context, env Env) (worst []float64, err error) {
	c, err := sandbox.Start(ctx, sandbox.Options{Dir: filepath.Join(env.Dir, "s"), OnPrem: 2})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	for _, of := range mpiCompilers {
		cc, err := exec.LookPath(of[0])
		if err != nil {
			continue
		}
		work, err := os.MkdirTemp(env.Dir, "w")
		if err != nil {
			return nil, err
		}
		if err := os.WriteFile(filepath.Join(work, "quick.c"), []byte(quickMPI), 0o600); err != nil {
			return nil, err
		}
		build := exec.CommandContext(ctx, cc, "-o", "quick", "quick.c")
		build.Dir = work
		if out, err := build.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("building a program by %s: %w: %s", of[0], err, out)
		}
		cmd := c.Command(ctx, "sbatch", "--wait", "--output=out", "--nodes=2", "--ntasks-per-node=1", "-p", "onprem")
		cmd.Dir, cmd.Stdin = work, strings.NewReader(fmt.Sprintf(overheadScript, overheadPairs, of[1], filepath.Join(env.Programs, "burst-srun"), coldPairs))
		var errOut bytes.Buffer
		cmd.Stderr = &errOut
		if err := cmd.Run(); err != nil {
			said, rerr := os.ReadFile(filepath.Join(work, "errors"))
			return nil, fmt.Errorf("the job that times steps of %s: %w: %s%s %v", of[0], err, errOut.Bytes(), said, rerr)
		}
		out, err := os.ReadFile(filepath.Join(work, "out"))
		if err != nil {
			return nil, err
		}
		more, err := readPairs(string(out), "warm", overheadPairs)
		if err != nil {
			return nil, err
		}
		cold, err := readPairs(string(out), "cold", coldPairs)
		if err != nil {
			return nil, err
		}
		env.note("%s: %.1f ms, %.1f to %.1f; a job's first launch: %.1f ms, %.1f to %.1f",
			of[0], Median(more), slices.Min(more), slices.Max(more), Median(cold), slices.Min(cold), slices.Max(cold))
		if worst == nil || Median(more) > Median(worst) {
			worst = more
		}
	}
	if worst == nil {
		return nil, fmt.Errorf("no mpicc on PATH: make deps brings it")
	}
	return worst, nil
}

// readPairs reads lines of two times in nanoseconds, who was first, and which launches they are
// of, and returns how many milliseconds longer burst-srun took in those of a kind.
func readPairs(out, kind string, want int) (more []float64, err error) {
	for line := range strings.Lines(out) {
		var a, b float64
		var first, of string
		if _, err := fmt.Sscan(line, &a, &b, &first, &of); err != nil || of != kind {
			continue // or what a first launch has said
		}
		if first == "burst-srun" {
			a, b = b, a
		}
		more = append(more, (b-a)/1e6)
	}
	if len(more) != want {
		return nil, fmt.Errorf("%d %s pairs were timed, not %d: %.300s", len(more), kind, want, out)
	}
	return more, nil
}
