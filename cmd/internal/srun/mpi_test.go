package srun

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/burst-hpc/burst/cmd/internal/cli"
	"github.com/burst-hpc/burst/slurm/step"
	"github.com/burst-hpc/burst/slurm/step/mpi"
)

// allocation is an allocation of salloc, in which srun offers PMIx and PMI2, and a program
// that is linked to a library which says that it is MPICH's.
type allocation struct {
	*testing.T
	dir   string
	env   []string
	asked int // how often srun was asked what it offers
}

func newAllocation(t *testing.T) *allocation {
	t.Helper()
	dir := t.TempDir()
	t.Setenv("TMPDIR", t.TempDir())
	for name, text := range map[string]string{
		"srun":       "#!/bin/sh\necho x >>" + dir + "/asked\nprintf 'MPI plugin types are...\\n\\tpmix\\n\\tpmi2\\n\\tnone\\n'\n",
		"slurm.conf": "MpiDefault=pmix\n",
		"plain.c":    "int main(void) { return 0; }\n",
		"run.py":     "#!/usr/bin/env python3\n",
		"mpi.c":      "int MPI_Init(void) { return 0; }\nconst char *said(void) { return \"MPICH Version:\\t%s\"; }\nconst char MPII_Version_string[] = \"4.0.2\";\n",
		"app.c":      "int MPI_Init(void);\nint main(void) { return MPI_Init(); }\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, args := range []string{"-o plain plain.c", "-shared -fPIC -Wl,-soname,libmpi.so.12 -o libmpi.so.12 mpi.c", "-o app app.c -L. -l:libmpi.so.12 -Wl,-rpath,$ORIGIN"} {
		cmd := exec.CommandContext(t.Context(), "gcc", strings.Fields(args)...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("gcc (make deps brings it): %v\n%s", err, out)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "other"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("../app", filepath.Join(dir, "other/program")); err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir)
	return &allocation{T: t, dir: dir, env: []string{"SLURM_JOB_ID=17", "SLURM_JOB_NUM_NODES=2", "SLURM_NTASKS=4", "SLURM_NTASKS_PER_NODE=2",
		"PATH=" + dir + ":" + os.Getenv("PATH"), "BURST_SRUN=" + dir + "/srun", "SLURM_CONF=" + dir + "/slurm.conf"}}
}

// run runs burst-srun, and returns its exit code, the line that takes its place, and what it said.
func (a *allocation) run(env string, args ...string) (code int, line, said string) {
	var out, errs bytes.Buffer
	p := program{name: "burst-srun", args: args, environ: append(slices.Clone(a.env), strings.Fields(env)...), stdout: &out, stderr: &errs}
	p.tests.become = func(words []string) error {
		line = strings.Join(words, " ")
		return nil
	}
	code = p.run(a.Context())
	asked, _ := os.ReadFile(a.dir + "/asked") // none yet
	a.asked = bytes.Count(asked, []byte("x"))
	return code, line, errs.String() + out.String()
}

func TestMPIOfAStep(t *testing.T) {
	a := newAllocation(t)
	for _, c := range []struct {
		name, env, args string
		line            string // what takes its place; "": nothing
		says            string
	}{
		{"MPICH where the site has PMIx", "", "./app", "srun --mpi=pmi2 ./app", ""},
		{"before the user's options", "", "-n 2 --mem=1G ./app x", "srun --mpi=pmi2 -n 2 --mem=1G ./app x", ""},
		{"the user's choice", "", "--mpi=pmi2 ./app", "srun --mpi=pmi2 ./app", ""},
		{"the environment's", "SLURM_MPI_TYPE=pmi2", "./app", "srun ./app", ""},
		{"salloc's own step has said none", "SLURM_MPI_TYPE=none", "./app", "srun --mpi=pmi2 ./app", ""},
		{"a wrong one", "", "--mpi pmix ./app", "", "error: --mpi=pmix: ./app is built with MPICH 4.0.2, which is started by pmi2: its 4 tasks would not find each other; leave --mpi=pmix out, or write --mpi=pmi2; BURST_MPI=none leaves the step to srun as it is"},
		{"a wrong one of the environment", "SLURM_MPI_TYPE=pmix", "./app", "", "leave SLURM_MPI_TYPE=pmix out"},
		{"which does not matter to one rank", "", "-n1 --mpi=pmix ./app", "srun -n1 --mpi=pmix ./app", ""},
		{"named", "", "--mpi=mpich ./run.py", "srun --mpi=pmi2 ./run.py", ""},
		{"named in two words", "", "--mpi openmpi5 -n 2 ./run.py", "srun -n 2 ./run.py", ""},
		{"named with a type", "", "--mpi=openmpi4,pmi2 ./run.py", "srun --mpi=pmi2 ./run.py", ""},
		{"named beside srun's type", "", "--mpi=mpich --mpi=pmi2 ./run.py", "srun --mpi=pmi2 ./run.py", ""},
		{"named by the environment", "BURST_MPI=mpich", "./run.py", "srun --mpi=pmi2 ./run.py", ""},
		{"not named", "", "./run.py", "srun ./run.py", ""},
		{"turned off", "BURST_MPI=none", "./app", "srun ./app", ""},
		{"named over that", "BURST_MPI=none", "--mpi=mpich ./run.py", "srun --mpi=pmi2 ./run.py", ""},
		{"a wrong name", "BURST_MPI=openmpi", "./app", "", "error: BURST_MPI=openmpi: it can be openmpi4, openmpi5, mpich, intel, mvapich, mpirun or none"},
		{"half a name", "", "--mpi=mpich, ./app", "", "after mpich and a comma comes srun's type"},
		{"outside of a job", "SLURM_JOB_ID=", "--mpi=mpich ./app", "", "error: --mpi=mpich is burst-srun's"},
		{"mpirun's own helper", "BURST_MPI=mpich BURST_CKPT=container=/x.sif", "-n1 /opt/bin/orted -mca x y", "srun -n1 /opt/bin/orted -mca x y", ""},
		{"turned off as a whole", "BURST_SRUN_OFF=1", "./app", "srun ./app", ""},
		{"and with burst-srun's own words", "BURST_SRUN_OFF=1", "--mpi=mpich -n 2 ./app", "srun -n 2 ./app", ""},
		{"for all steps, and one has no MPI", "BURST_MPI=mpich", "./plain", "srun ./plain", ""},
		{"where the job's variable says", "SLURM_WORKING_DIR=" + a.dir + "/other", "./program", "srun --mpi=pmi2 ./program", ""},
		{"a step of several programs", "", "./app : ./app", "srun ./app : ./app", ""},
		{"a program beside, without its folder", "", "app", "srun --mpi=pmi2 app", ""},
		{"in another folder", "", "-D " + a.dir + "/other ./program", "srun --mpi=pmi2 -D " + a.dir + "/other ./program", ""},
		{"there without its folder", "", "-D other program", "srun --mpi=pmi2 -D other program", ""},
		{"no program that is here", "", "./nowhere", "srun ./nowhere", ""},
		{"a question of srun's", "", "--mpi=list", "srun --mpi=list", ""},
	} {
		code, line, said := a.run(c.env, strings.Fields(c.args)...)
		if line != c.line || !strings.Contains(said, c.says) || (c.line == "") != (code == cli.Usage) {
			t.Errorf("%s: exit code %d, %q, want %q; said %s", c.name, code, line, c.line, said)
		}
	}
}

// TestMPIExplained: every setting with its reason, and nothing is run.
func TestMPIExplained(t *testing.T) {
	a := newAllocation(t)
	_, line, said := a.run("OMP_NUM_THREADS=8", "--explain", "./app")
	for _, want := range []string{"sets --mpi=pmi2: MPICH 4.0.2 is started by pmi2, and srun offers it\n", "keeps OMP_NUM_THREADS=8: the environment has it\n", "/srun --mpi=pmi2 ./app\n"} {
		if !strings.Contains(said, want) {
			t.Errorf("%q lacks %q", said, want)
		}
	}
	if _, _, said := a.run("", "--explain", "./run.py"); !strings.Contains(said, "keeps srun's own choice of MPI: ./run.py is run by python3") {
		t.Error(said)
	}
	if line != "" {
		t.Errorf("ran %s", line)
	}
	for _, c := range [][2]string{{"", "--export=NONE"}, {"SLURM_EXPORT_ENV=NONE", "--explain"}, {"", "--export=HOME,A=1"}} {
		if _, _, said := a.run(c[0], c[1], "--explain", "./app"); strings.Contains(said, "OMP_NUM_THREADS") || !strings.Contains(said, "would not reach the ranks") {
			t.Errorf("%s: %s", c, said)
		}
	}
	if _, _, said := a.run("OMP_NUM_THREADS=4", "--export=ALL,OMP_NUM_THREADS=8", "--explain", "./app"); !strings.Contains(said, "keeps OMP_NUM_THREADS=8: ") {
		t.Error(said)
	}
	if _, _, said := a.run("", "--export=ALL,A=1", "--explain", "./app"); !strings.Contains(said, "sets OMP_NUM_THREADS=1: ") {
		t.Error(said)
	}
}

// TestSrunIsAskedOnlyIfNeeded: what it offers takes it some milliseconds.
func TestSrunIsAskedOnlyIfNeeded(t *testing.T) {
	a := newAllocation(t)
	if err := os.WriteFile("slurm.conf", []byte("MpiDefault=pmi2\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, line, _ := a.run("", "./app"); line != "srun ./app" || a.asked != 0 {
		t.Errorf("%q, and srun was asked %d times", line, a.asked)
	}
}

func TestMPIStep(t *testing.T) {
	for _, c := range []struct {
		env, args string
		want      mpi.Step
	}{
		{"SLURM_JOB_NUM_NODES=4", "./a", mpi.Step{Program: "./a", Nodes: 4, Whole: true}},
		{"SLURM_JOB_NUM_NODES=4 SLURM_NTASKS_PER_NODE=2", "./a", mpi.Step{Program: "./a", Nodes: 4, Tasks: 8, PerNode: 2, Whole: true}},
		{"SLURM_JOB_NUM_NODES=4 SLURM_NTASKS=8", "-N2 ./a", mpi.Step{Program: "./a", Nodes: 2, Tasks: 8}},
		{"SLURM_JOB_NUM_NODES=4 SLURM_NTASKS=8", "-N2-4 ./a", mpi.Step{Program: "./a", Nodes: 2, Tasks: 8}},
		{"SLURM_JOB_NUM_NODES=4", "-n1 ./a", mpi.Step{Program: "./a", Nodes: 1, Tasks: 1}},
		{"SLURM_JOB_NUM_NODES=1 SLURM_CPUS_PER_TASK=4", "./a", mpi.Step{Program: "./a", Nodes: 1, Shaped: true, Whole: true}},
		{"SLURM_JOB_NUM_NODES=4 SLURM_NTASKS=128 SLURM_NTASKS_PER_NODE=32", "-n1 ./a", mpi.Step{Program: "./a", Nodes: 1, Tasks: 1, PerNode: 1}},
		{"SLURM_JOB_NUM_NODES=4 SLURM_NTASKS=128 SLURM_NTASKS_PER_NODE=32", "-n6 ./a", mpi.Step{Program: "./a", Nodes: 4, Tasks: 6, PerNode: 2, Whole: true}},
		{"SLURM_JOB_NUM_NODES=1 SLURM_HINT=nomultithread", "-n2 ./a", mpi.Step{Program: "./a", Nodes: 1, Tasks: 2, Shaped: true, Whole: true}},
		{"SLURM_JOB_NUM_NODES=1", "-n2 --cpus-per-gpu=8 ./a", mpi.Step{Program: "./a", Nodes: 1, Tasks: 2, Shaped: true, Whole: true}},
		{"SLURM_JOB_NUM_NODES=2 SLURM_HET_SIZE=2", "./a", mpi.Step{Program: "./a", Nodes: 2, Mixed: true, Whole: true}},
		{"SLURM_JOB_NUM_NODES=1 SLURM_CPUS_PER_TASK=4 SRUN_CPUS_PER_TASK=2", "./a", mpi.Step{Program: "./a", Nodes: 1, CPUs: 2, Whole: true}},
		{"SLURM_JOB_NUM_NODES=1 SRUN_CPUS_PER_TASK=2", "-c 3 --ntasks-per-node=2 ./a", mpi.Step{Program: "./a", Nodes: 1, Tasks: 2, PerNode: 2, CPUs: 3, Whole: true}},
		{"SLURM_JOB_NUM_NODES=1 SLURM_MPI_TYPE=pmi2", "./a", mpi.Step{Program: "./a", Nodes: 1, Type: "pmi2", From: "SLURM_MPI_TYPE=pmi2", Whole: true}},
		{"SLURM_JOB_NUM_NODES=1 SLURM_MPI_TYPE=pmi2", "--mpi=pmix ./a", mpi.Step{Program: "./a", Nodes: 1, Type: "pmix", From: "--mpi=pmix", Whole: true}},
	} {
		p := program{environ: append(strings.Fields(c.env), "SLURM_JOB_ID=1", "SLURM_TASK_PID=2")}
		job, err := step.ReadJob(p.env)
		if err != nil {
			t.Fatal(err)
		}
		r, err := read(t.Context(), strings.Fields(c.args), p.env, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := p.mpiStep(known{facts: facts{request: r, job: job}}); got != c.want {
			t.Errorf("%s, %s: %+v, want %+v", c.env, c.args, got, c.want)
		}
	}
}

func TestSiblings(t *testing.T) {
	for list, want := range map[string]int{"0": 1, "0,4": 2, "0-1": 2, "0-3,8-11": 8, "": 0, "x": 0, "0-y": 0} {
		if got := siblings(list); got != want {
			t.Errorf("%q: %d, want %d", list, got, want)
		}
	}
}
