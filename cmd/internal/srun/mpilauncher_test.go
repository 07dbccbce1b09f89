package srun

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/burst-hpc/burst/cmd/internal/cli"
)

// TestALaunchersStepKeepsSrunsWords: what only srun carries out is not dropped in silence.
func TestALaunchersStepKeepsSrunsWords(t *testing.T) {
	a := newAllocation(t)
	hydra := "#include <stdio.h>\nint main(void) { puts(\"bootstrap\"); return 0; }\n"
	if err := os.WriteFile("hydra.c", []byte(hydra), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "gcc", "-o", "mpiexec.hydra", "hydra.c")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("gcc (make deps brings it): %v\n%s", err, out)
	}
	start := a.dir + "/mpiexec.hydra -bootstrap slurm -n 4 -ppn 2 ./app"
	for _, c := range []struct{ env, args, line, says string }{
		{"", "--mpi=mpirun ./app", start, ""},
		{"", "--mpi=mpirun -c 2 -J x ./app", start, ""},
		{"", "--mpi=mpirun --exact ./app", "", "--exact is for srun, and mpiexec.hydra would start the ranks in its place"},
		{"", "--mpi=mpirun --gpus-per-task=1 ./app", "", "--gpus-per-task=1 is for srun"},
		{"", "--mpi=mpirun --cpu-bind=sockets ./app", "", "--cpu-bind=sockets is for srun"},
		{"", "--mpi=mpirun --mem=1G ./app", "", "BURST_MPI=none, which leaves the step to srun"},
		{"", "--mpi=mpirun --kill-on-bad-exit=0 ./app", "", "--kill-on-bad-exit=0 is for srun"},
		{"SLURM_GPUS_PER_TASK=1", "--mpi=mpirun ./app", "", "SLURM_GPUS_PER_TASK=1 is for srun"},
		{"BURST_MPI=mpirun", "-n1 ./app", "srun -n1 ./app", ""},
	} {
		code, line, said := a.run(c.env, strings.Fields(c.args)...)
		if line != c.line || !strings.Contains(said, c.says) || (c.line == "") != (code == cli.Usage) {
			t.Errorf("%s %s: exit code %d, %q, want %q; said %s", c.env, c.args, code, line, c.line, said)
		}
	}
}

func TestStrippedOfOwnWords(t *testing.T) {
	for args, want := range map[string]string{
		"--mpi=mpich --bad x": "--bad x", "--mpi mpich --bad x": "--bad x", "--mpi=pmix --bad x": "--mpi=pmix --bad x", "--mpi pmix --bad x": "--mpi pmix --bad x",
		"--explain --ckpt=x --once y --bad --mpi=mpich": "--bad --mpi=mpich",
	} {
		if got := strings.Join(stripped(strings.Fields(args)), " "); got != want {
			t.Errorf("%q: %q, want %q", args, got, want)
		}
	}
}

// TestASitesBindingIsLeftAlone: whatever node or partition it is said for.
func TestASitesBindingIsLeftAlone(t *testing.T) {
	dir := t.TempDir()
	for text, want := range map[string]bool{
		"NodeName=a CPUs=4\nPartitionName=p Nodes=a\n":              false,
		"NodeName=a CPUs=4 CpuBind=socket\n":                        true,
		"NodeName=a CPUs=4\nPartitionName=p Nodes=a CpuBind=none\n": true,
	} {
		path := filepath.Join(dir, "slurm.conf")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := binds(slurmConf(vars("SLURM_CONF=" + path))); got != want {
			t.Errorf("%q: %t", text, got)
		}
	}
}

// TestAddressesOfTheNodes: by which the network that MPI uses is chosen, where all are numbers.
func TestAddressesOfTheNodes(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	p := &program{environ: []string{"SLURM_JOB_NODELIST=lon-[1-2]"}}
	for second, want := range map[string]string{"10.1.0.4 +CLOUD": "[10.1.0.3 10.1.0.4]", "10.1.0.4 ": "[]", "lon-2 +CLOUD": "[]", "": "[]"} {
		addr, flag, _ := strings.Cut(second, " ")
		script := "#!/bin/sh\n[ \"$*\" = '-o show nodes lon-1,lon-2' ] && [ '" + addr + "' ] || exit 1\n" +
			"echo 'NodeName=lon-1 Arch=x86_64 CPUAlloc=1 CPUTot=2 NodeAddr=10.1.0.3 NodeHostName=lon-1 State=ALLOCATED+CLOUD Partitions=cloud '\n" +
			"echo 'NodeName=lon-2 Arch=x86_64 CPUAlloc=1 CPUTot=2 NodeAddr=" + addr + " NodeHostName=lon-2 State=ALLOCATED" + flag + " Partitions=cloud '\n"
		if err := os.WriteFile(filepath.Join(dir, "scontrol"), []byte(script), 0o700); err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(p.addresses(t.Context())); got != want {
			t.Errorf("%q: %s, want %s", second, got, want)
		}
	}
	if got := (&program{}).addresses(t.Context()); got != nil {
		t.Errorf("in no job: %v", got)
	}
}
