package methods

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/burst-hpc/burst/ft/ckpt"
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

// isMPI says whether the step is an mpirun, which is itself part of what is
// checkpointed. Below srun each task's program is.
func (l ckpt.Launch) isMPI() bool {
	return l.Program > 0 && slices.Contains([]string{"mpirun", "mpiexec", "orterun"}, filepath.Base(l.Args[0]))
}

// fitsDMTCP says why the step cannot be checkpointed by DMTCP.
func (l ckpt.Launch) fitsDMTCP() error {
	switch {
	case l.Program < 0 || l.Program >= len(l.Args):
		return errors.New("dmtcp: no program is given")
	case !filepath.IsAbs(l.Scratch):
		return fmt.Errorf("dmtcp: the scratch folder %q is not absolute", l.Scratch)
	case l.isMPI() && l.nodes() > 1:
		return fmt.Errorf("dmtcp: checkpoints MPI on one node only, and the job has %d: use mana, scr or signal, or one node", l.nodes())
	}
	return nil
}

// nodes is the job's number of nodes as Slurm says; 0: it does not.
func (l ckpt.Launch) nodes() int {
	n, _ := strconv.Atoi(l.env("SLURM_JOB_NUM_NODES")) // 0 if it is none
	return n
}

func (l ckpt.Launch) env(key string) string {
	value := ""
	for _, kv := range l.Env {
		if v, ok := strings.CutPrefix(kv, key+"="); ok {
			value = v
		}
	}
	return value
}

// dmtcpArgs are the step's arguments with DMTCP's launcher before the program,
// or, with images, with dmtcp_restart in its place.
func (l ckpt.Launch) dmtcpArgs(t dmtcpTools, c *coordinator, to string, images []string) []string {
	at := l.Program
	if l.isMPI() {
		at = 0
	}
	join := []string{"-j", "-h", c.host, "-p", strconv.Itoa(c.port), "--ckptdir", to}
	args := slices.Clone(l.Args[:at])
	if images != nil {
		return slices.Concat(args, []string{t.restart}, join, images)
	}
	args = slices.Concat(args, []string{t.launch, "--no-gzip"}, join)
	if !l.isMPI() {
		return append(args, l.Args[at:]...)
	}
	args = slices.Concat(args, l.Args[:1], openMPISettings)
	if tasks := l.env("SLURM_NTASKS"); tasks != "" && !saysRanks(l.Args[1:l.Program]) {
		args = append(args, "-n", tasks)
	}
	return append(args, l.Args[1:]...)
}

func saysRanks(args []string) bool {
	return slices.ContainsFunc(args, func(a string) bool {
		return slices.Contains([]string{"-n", "-np", "--n", "--np", "-c", "-N", "--map-by"}, a)
	})
}

// prepareMPI makes the environment for mpirun. Open MPI would read the machine's
// topology from a device that cannot be restored, so it gets a file of it.
func prepareMPI(ctx context.Context, l ckpt.Launch, work string) ([]string, error) {
	mpirun, err := l.command(l.Args[:1], withoutDMTCP(l.Env))
	if err != nil {
		return nil, fmt.Errorf("dmtcp: %w", err)
	}
	mpirun.Args, mpirun.Stdin, mpirun.Stdout, mpirun.Stderr = []string{mpirun.Path, "--version"}, nil, nil, nil
	_, out, err := runTool(ctx, mpirun)
	if err != nil {
		return nil, fmt.Errorf("dmtcp: %w", err)
	}
	if !strings.Contains(out, "Open MPI") && !strings.Contains(out, "OpenRTE") {
		return nil, fmt.Errorf("dmtcp: %s is not Open MPI's, and no other restarts below DMTCP: use mana for MPICH, or scr or signal", l.Args[0])
	}
	lstopo, err := l.lookPath("lstopo-no-graphics")
	if err != nil {
		return nil, fmt.Errorf("dmtcp: Open MPI needs the machine's topology as a file: %w: install hwloc (Debian: hwloc-nox)", err)
	}
	topology := filepath.Join(work, "topology.xml")
	code, out, err := runTool(ctx, &exec.Cmd{Path: lstopo, Args: []string{lstopo, "--no-io", "-f", topology}, Env: l.Env})
	if err == nil && code != 0 {
		err = fmt.Errorf("exit code %d: %s", code, lastLine(out))
	}
	if err != nil {
		return nil, fmt.Errorf("dmtcp: writing the machine's topology: %w", err)
	}
	env := slices.DeleteFunc(restartEnv(l), func(kv string) bool { return strings.HasPrefix(kv, "SLURM_") })
	return setEnv(env, map[string]string{"HWLOC_XMLFILE": topology, "HWLOC_THISSYSTEM": "1"}), nil
}

// withoutDMTCP drops the settings that a user may have for DMTCP: this
// coordinator is not the one they mean.
func withoutDMTCP(env []string) []string {
	return slices.DeleteFunc(slices.Clone(env), func(kv string) bool { return strings.HasPrefix(kv, "DMTCP_") })
}

// quietDMTCP is for what writes into the step's own output: errors only.
func quietDMTCP(env []string) []string { return append(withoutDMTCP(env), "DMTCP_QUIET=2") }

// dmtcpHost is where the step's processes find the coordinator: on the loopback
// interface where they all run on this host, else at this host's address.
func (l ckpt.Launch) dmtcpHost() string {
	const loopback = "127.0.0.1"
	if l.Program == 0 || l.isMPI() || l.nodes() == 1 {
		return loopback
	}
	name, err := os.Hostname()
	if err != nil {
		return loopback
	}
	found, _ := net.LookupIP(name) // not in the DNS: by the interfaces
	own, _ := net.InterfaceAddrs()
	for _, a := range own {
		if n, ok := a.(*net.IPNet); ok {
			found = append(found, n.IP)
		}
	}
	for _, ip := range found {
		if v4 := ip.To4(); v4 != nil && v4.IsGlobalUnicast() {
			return v4.String()
		}
	}
	return loopback
}
