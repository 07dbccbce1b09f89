package methods

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// openMPISettings are those with which Open MPI's processes can be restarted:
// all below one mpirun that knows nothing of Slurm, over TCP on the loopback
// interface, which is the same on every node, and bound to no core of this one.
var openMPISettings = []string{
	"--oversubscribe", "--bind-to", "none",
	"--mca", "plm", "isolated",
	"--mca", "btl", "tcp,self", "--mca", "pml", "ob1",
	"--mca", "btl_tcp_if_include", "lo", "--mca", "oob_tcp_if_include", "lo",
	"--mca", "rtc", "^hwloc",
}

func isMPIRun(command string) bool {
	return slices.Contains([]string{"mpirun", "mpiexec", "orterun"}, filepath.Base(command))
}

// isMPI says whether the step is an mpirun, which is itself part of what is
// checkpointed. Below srun each task's program is.
func (l launch) isMPI() bool { return isMPIRun(l.Args[0]) }

// openMPI is mpirun with its settings, and with the job's number of ranks where
// the step does not say one: mpirun is not to ask Slurm.
func (l launch) openMPI() []string {
	args := slices.Concat(l.Args[:1], openMPISettings)
	options := l.Args[1:]
	if l.Program > 0 {
		options = l.Args[1:l.Program]
	}
	if tasks := l.env("SLURM_NTASKS"); tasks != "" && !saysRanks(options) {
		args = append(args, "-n", tasks)
	}
	return append(args, l.Args[1:]...)
}

func saysRanks(args []string) bool {
	return slices.ContainsFunc(args, func(a string) bool {
		return slices.Contains([]string{"n", "np", "c", "N", "npernode", "pernode", "map-by", "ppr", "app"}, strings.TrimLeft(a, "-")) && strings.HasPrefix(a, "-")
	})
}

// prepareMPI makes the environment for mpirun. Open MPI would read the machine's
// topology from a device that cannot be restored, so it gets a file of it.
func prepareMPI(ctx context.Context, l launch, work string) ([]string, error) {
	mpirun, err := l.lookPath(l.Args[0])
	if err != nil {
		return nil, err
	}
	_, out, err := runTool(ctx, &exec.Cmd{Path: mpirun, Args: []string{mpirun, "--version"}, Env: withoutDMTCP(l.Env), Dir: l.Dir})
	if err != nil {
		return nil, err
	}
	if !strings.Contains(out, "Open MPI") && !strings.Contains(out, "OpenRTE") {
		return nil, fmt.Errorf("%s is not Open MPI's, and no other restarts below DMTCP: use mana for MPICH, or scr or signal", l.Args[0])
	}
	lstopo, err := l.lookPath("lstopo-no-graphics")
	if err != nil {
		return nil, fmt.Errorf("Open MPI needs the machine's topology as a file: %w: install hwloc (Debian: hwloc-nox)", err)
	}
	topology := filepath.Join(work, "topology.xml")
	code, out, err := runTool(ctx, &exec.Cmd{Path: lstopo, Args: []string{lstopo, "--no-io", "-f", topology}, Env: l.Env})
	if err == nil && code != 0 {
		err = failed(code, out)
	}
	if err != nil {
		return nil, fmt.Errorf("writing the machine's topology: %w", err)
	}
	env := slices.DeleteFunc(restartEnv(l), func(kv string) bool { return strings.HasPrefix(kv, "SLURM_") })
	return setEnv(env, map[string]string{"HWLOC_XMLFILE": topology, "HWLOC_THISSYSTEM": "1"}), nil
}
