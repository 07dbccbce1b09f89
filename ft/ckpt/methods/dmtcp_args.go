package methods

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// fitsDMTCP says why the step cannot be checkpointed by DMTCP.
func (l launch) fitsDMTCP() error {
	switch {
	case l.Program < 0 || l.Program >= len(l.Args):
		return errors.New("no program is given")
	case !filepath.IsAbs(l.Scratch):
		return fmt.Errorf("the scratch folder %q is not absolute", l.Scratch)
	case l.Program > 0 && !l.isMPI() && isMPIRun(l.Args[l.Program]):
		return fmt.Errorf("%s is started once, and its ranks by it: leave out the number of tasks before it", l.Args[l.Program])
	case l.isMPI() && l.elsewhere():
		return fmt.Errorf("%s would run on this host, which is none of the job's: start it from the batch script", l.Args[0])
	case l.isMPI() && l.nodes() > 1:
		return fmt.Errorf("checkpoints MPI on one node only, and the job has %d: use one node, or the method signal", l.nodes())
	case l.Program > 0 && !l.isMPI() && l.tasks() > 1:
		// dmtcp_restart starts all images, and each task would run it.
		return fmt.Errorf("checkpoints one task below srun, and the step has %d: for MPI on one node write mpirun before the program", l.tasks())
	case l.Program == 0:
		return l.isThere(l.Args[0]) // dmtcp_launch would say so by an exit code
	}
	return nil
}

// isThere says why the program cannot be started on this host.
func (l launch) isThere(program string) error {
	path, err := l.lookPath(program)
	if err != nil {
		return err
	}
	if !filepath.IsAbs(path) {
		dir, err := l.dir()
		if err != nil {
			return err
		}
		path = filepath.Join(dir, path)
	}
	switch st, err := os.Stat(path); {
	case err != nil:
		return err
	case !st.Mode().IsRegular() || st.Mode()&0o111 == 0:
		return fmt.Errorf("%s is not a program", path)
	}
	return nil
}

// elsewhere says that this host is none of the job's, as a login node is to salloc.
func (l launch) elsewhere() bool {
	return l.env("SLURM_JOB_ID") != "" && l.env("SLURMD_NODENAME") == ""
}

// nodes is the job's number of nodes as Slurm says; 0: it does not.
func (l launch) nodes() int { return countOf(l.env("SLURM_JOB_NUM_NODES")) }

// tasks is the step's number of tasks, of srun's options or of the job; 0: not known.
func (l launch) tasks() int {
	if n := l.taskOptions(); n > 0 {
		return n
	}
	return countOf(l.env("SLURM_NTASKS"))
}

// taskOptions is what srun's options say of it; 0: nothing.
func (l launch) taskOptions() int {
	tasks, nodes, perNode := 0, 0, 0
	for i, arg := range l.Args[1:l.Program] {
		for _, o := range []struct {
			short, long string
			to          *int
		}{{"-n", "--ntasks", &tasks}, {"-N", "--nodes", &nodes}, {"", "--ntasks-per-node", &perNode}} {
			value, is := strings.CutPrefix(arg, o.long+"=")
			if !is && o.short != "" && !strings.HasPrefix(arg, "--") {
				value, is = strings.CutPrefix(arg, o.short)
			}
			if arg == o.long || arg == o.short {
				value, is = l.Args[i+2], true // at most the program itself, which is no number
			}
			if n := countOf(value); is && n > 0 {
				*o.to = n
			}
		}
	}
	return max(tasks, nodes, perNode)
}

// countOf is the count that text says; 0 if text is none.
func countOf(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		return 0
	}
	return n
}

func (l launch) env(key string) string {
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
func (l launch) dmtcpArgs(s *dmtcpStep, images []string) []string {
	at := l.Program
	if l.isMPI() {
		at = 0
	}
	join := []string{"-j", "-h", s.coordinator.host, "-p", strconv.Itoa(s.coordinator.port), "--ckptdir", s.images}
	if s.temp != "" {
		join = append(join, "--tmpdir", s.temp)
	}
	if images != nil {
		return slices.Concat(l.Args[:at], []string{s.tools.restart}, join, images)
	}
	program := l.Args[at:]
	if l.isMPI() {
		program = l.openMPI()
	}
	// gzip makes a checkpoint five times as long.
	return slices.Concat(l.Args[:at], []string{s.tools.launch, "--no-gzip"}, join, program)
}

// withoutDMTCP drops the settings that a user may have for DMTCP: this
// coordinator is not the one they mean. Which signal DMTCP uses stays theirs.
func withoutDMTCP(env []string) []string {
	return slices.DeleteFunc(slices.Clone(env), func(kv string) bool {
		return strings.HasPrefix(kv, "DMTCP_") && !strings.HasPrefix(kv, "DMTCP_SIGCKPT=")
	})
}

// quietDMTCP is for what writes into the step's own output: errors only.
func quietDMTCP(env []string) []string { return append(withoutDMTCP(env), "DMTCP_QUIET=2") }

// dmtcpSignal is what DMTCP stops the step's threads with.
func (l launch) dmtcpSignal() syscall.Signal {
	if n := countOf(l.env("DMTCP_SIGCKPT")); n > 0 {
		return syscall.Signal(n)
	}
	return syscall.SIGUSR2
}

const loopback = "127.0.0.1"

// dmtcpHost is where the step's processes find the coordinator: on the loopback
// interface where they all run on this host, else at this host's address.
func (l launch) dmtcpHost() string {
	if l.Program == 0 || l.isMPI() || l.nodes() == 1 && !l.elsewhere() {
		return loopback
	}
	return hostAddress()
}

// hostAddress is where other hosts find this one.
func hostAddress() string {
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
