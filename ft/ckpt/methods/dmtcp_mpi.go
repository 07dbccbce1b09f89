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

// aloneMPI leaves srun out where it would start an mpirun: the job's tasks are the
// ranks, and all of them are below one mpirun on this host.
func (l launch) aloneMPI() launch {
	if l.Program > 0 && l.Program < len(l.Args) && !l.isMPI() && isMPIRun(l.Args[l.Program]) && l.taskOptions() <= 1 {
		l.Args, l.Program = l.Args[l.Program:], 0
	}
	return l
}

// openMPI is mpirun with its settings, and with the job's number of ranks where
// the step does not say one: mpirun is not to ask Slurm.
func (l launch) openMPI() []string {
	args := slices.Concat(l.Args[:1], openMPISettings)
	if tasks := l.env("SLURM_NTASKS"); tasks != "" && !saysRanks(l.Args[1:]) {
		args = append(args, "-n", tasks)
	}
	return append(args, l.Args[1:]...)
}

var (
	rankOptions = strings.Fields("n np c N npernode pernode map-by ppr app")
	// mpirunTakes are the options of Open MPI's mpirun that have one value, and
	// those that have two.
	mpirunTakes    = strings.Fields("n np c N npernode map-by ppr app H host hostfile machinefile default-hostfile x wdir wd path bind-to rank-by rankfile rf output-filename tmpdir prefix timeout report-pid report-uri personality am tune stdin max-restarts cpu-set cpu-list slot-list launch-agent")
	mpirunTakesTwo = strings.Fields("mca gmca omca pmca prtemca")
)

// saysRanks says whether mpirun's options, which end where its program begins,
// have a number of ranks.
func saysRanks(args []string) bool {
	for i := 0; i < len(args) && strings.HasPrefix(args[i], "-"); i++ {
		name := strings.TrimLeft(args[i], "-")
		switch {
		case slices.Contains(rankOptions, name):
			return true
		case slices.Contains(mpirunTakes, name):
			i++
		case slices.Contains(mpirunTakesTwo, name):
			i += 2
		}
	}
	return false
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
		return nil, fmt.Errorf("%s is not Open MPI's, and no other restarts below DMTCP: use Open MPI, or the method signal", l.Args[0])
	}
	lstopo, err := l.lookPath("lstopo-no-graphics")
	if err != nil {
		return nil, fmt.Errorf("mpirun needs the machine's topology as a file: %w: install hwloc (Debian: hwloc-nox)", err)
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
