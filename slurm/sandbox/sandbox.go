// Package sandbox runs a private, real Slurm cluster on this host, as root or
// as an ordinary user: a munged with a key and socket of its own, slurmctld,
// a slurmd for each on-prem node, and cloud nodes that wait for a
// ResumeProgram. Several may run at once. The demo and the end-to-end tests
// use it.
//
// Whatever a sandbox starts carries its mark in the environment, or Slurm's
// own SLURM_CONF. By these Close finds everything that is to end, job
// processes included. If the process that holds a sandbox is killed, the
// kernel kills the daemons with it; what they had started remains until Reap,
// or a Start in the same folder, ends it. Only a process that leaves its
// parents and clears its environment escapes.
//
// slurmd listens on all interfaces, as always; only holders of the sandbox's
// MUNGE key can talk to it.
package sandbox

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Options describe a cluster. Zero values take the defaults in brackets.
type Options struct {
	// Dir is where everything lives. Start makes it, and refuses a folder with
	// foreign files; Close removes it, unless Keep. [a new temporary folder]
	Dir  string
	Keep bool // Close leaves Dir, with its logs
	// Outlive lets the daemons run on when this process ends without Close;
	// then Reap(Dir) ends them.
	Outlive bool

	CloudNodes int // c1 … cN, in partition cloud, powered down at first
	OnPrem     int // o1 … oN, in partition onprem, each with a running slurmd
	CPUs       int // per node, whatever the host has [2]
	OnPremCPUs int // per on-prem node [CPUs]
	RealMemory int // per node, MiB, whatever the host has [1000]

	// Programs that slurmctld runs, as absolute paths; "" is none. Each is called
	// through a small script in Dir that sets the mark, and BURST_CONFIG if
	// BurstConfig is given: slurmctld itself gives them next to no environment.
	ResumeProgram, SuspendProgram, ResumeFailProgram string
	Gate                                             string // PrologSlurmctld
	BurstConfig                                      string

	SuspendTime    time.Duration // idle until suspended, cloud nodes only [10 s]
	SuspendTimeout time.Duration // from SuspendProgram until usable again [3 s]
	ResumeTimeout  time.Duration // from ResumeProgram until given up [60 s]
	CredExpire     time.Duration // life of a job credential; a requeued job is held for it + 1 s [Slurm's 120 s]
	KillWait       time.Duration // from SIGTERM to SIGKILL at a job's end [2 s]
	SlurmdTimeout  time.Duration // until a silent node is DOWN [30 s]
	StartTimeout   time.Duration // bounds Start [30 s]
	Extra          string        // more lines for slurm.conf

	// NetNS says that the cloud nodes live in network namespaces: they keep
	// Slurm's usual port, have no address until one is set, and reach the
	// controller and the on-prem nodes at CtldAddr.
	NetNS    bool
	CtldAddr string // address of the controller [127.0.0.1]

	Slurm string // prefix of a Slurm installation (its bin and sbin) [the PATH]
}

func (o Options) withDefaults() Options {
	o.CPUs = orDefault(o.CPUs, 2)
	o.OnPremCPUs = orDefault(o.OnPremCPUs, o.CPUs)
	o.RealMemory = orDefault(o.RealMemory, 1000)
	o.SuspendTime = orDefault(o.SuspendTime, 10*time.Second)
	o.SuspendTimeout = orDefault(o.SuspendTimeout, 3*time.Second)
	o.ResumeTimeout = orDefault(o.ResumeTimeout, time.Minute)
	o.KillWait = orDefault(o.KillWait, 2*time.Second)
	o.SlurmdTimeout = orDefault(o.SlurmdTimeout, 30*time.Second)
	o.StartTimeout = orDefault(o.StartTimeout, 30*time.Second)
	o.CtldAddr = orDefault(o.CtldAddr, "127.0.0.1")
	return o
}

func orDefault[T comparable](v, def T) T {
	var zero T
	if v == zero {
		return def
	}
	return v
}

func (o Options) validate() error {
	if o.CloudNodes < 0 || o.OnPrem < 0 || o.CloudNodes+o.OnPrem == 0 {
		return errors.New("a sandbox needs at least one node")
	}
	if o.NetNS && net.ParseIP(o.CtldAddr).IsLoopback() {
		return errors.New("nodes in network namespaces cannot reach the controller at a loopback address: set CtldAddr")
	}
	for _, p := range []string{o.ResumeProgram, o.SuspendProgram, o.ResumeFailProgram, o.Gate} {
		if p == "" {
			continue
		}
		if !filepath.IsAbs(p) {
			return fmt.Errorf("program %s: slurmctld wants an absolute path", p)
		}
		if st, err := os.Stat(p); err != nil {
			return fmt.Errorf("program for slurmctld: %w", err)
		} else if st.IsDir() || st.Mode()&0o111 == 0 {
			return fmt.Errorf("program %s is not executable", p)
		}
	}
	return nil
}

// Cluster is a running sandbox.
type Cluster struct {
	Dir  string
	Conf string // slurm.conf
	Mark string // NAME=value in the environment of what the sandbox starts

	o       Options
	run     string // folder of sockets and pid files; Dir, or a shorter one
	env     []string
	ports   *ports
	lock    *os.File  // held as long as we hold the cluster
	ctld    *daemon   // nil while the controller is stopped
	daemons []*daemon // all that were ever started
}

// CloudNodes returns the names of the cloud nodes.
func (c *Cluster) CloudNodes() []string { return names("c", c.o.CloudNodes) }

// OnPremNodes returns the names of the on-prem nodes.
func (c *Cluster) OnPremNodes() []string { return names("o", c.o.OnPrem) }

// CloudPorts returns the first and the last port of the cloud nodes, in order
// of their names; zeros where they live in network namespaces, with Slurm's usual port.
func (c *Cluster) CloudPorts() (first, last int) {
	if c.o.NetNS {
		return 0, 0
	}
	first = c.ports.first + 1 + c.o.OnPrem
	return first, first + c.o.CloudNodes - 1
}

func names(prefix string, n int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = prefix + strconv.Itoa(i+1)
	}
	return all
}

// Env is the environment for commands that talk to this cluster: this
// process's own, less what would steer Slurm's commands elsewhere.
func (c *Cluster) Env() []string { return append([]string(nil), c.env...) }

func environment(o Options, conf, mark string) []string {
	var env []string
	for _, e := range os.Environ() {
		name, _, _ := strings.Cut(e, "=")
		switch {
		case name == "PATH", name == "BURST_CONFIG", name == markName:
		case hasAnyPrefix(name, "SLURM", "SBATCH_", "SALLOC_", "SQUEUE_", "SINFO_", "SCONTROL_"):
		default:
			env = append(env, e)
		}
	}
	env = append(env, "PATH="+searchPath(o.Slurm), "SLURM_CONF="+conf, mark)
	if o.BurstConfig != "" {
		env = append(env, "BURST_CONFIG="+o.BurstConfig)
	}
	return env
}

func hasAnyPrefix(s string, prefixes ...string) bool {
	for _, p := range prefixes {
		if strings.HasPrefix(s, p) {
			return true
		}
	}
	return false
}

// searchPath adds the folders of daemons, which an ordinary user's PATH lacks.
func searchPath(prefix string) string {
	dirs := []string{os.Getenv("PATH"), "/usr/local/sbin", "/usr/sbin", "/sbin", "/usr/local/bin", "/usr/bin", "/bin"}
	if prefix != "" {
		dirs = append([]string{filepath.Join(prefix, "bin"), filepath.Join(prefix, "sbin")}, dirs...)
	}
	return strings.Trim(strings.Join(dirs, ":"), ":")
}

// Command prepares a program, sbatch or scontrol for instance, to run in this
// cluster. As with exec.CommandContext it is killed when ctx ends.
func (c *Cluster) Command(ctx context.Context, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, c.program(name), args...)
	cmd.Env = c.Env()
	return cmd
}

// program finds a program in the cluster's own search path.
func (c *Cluster) program(name string) string {
	if strings.Contains(name, "/") {
		return name
	}
	for _, dir := range filepath.SplitList(searchPath(c.o.Slurm)) {
		if path, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
			return path
		}
	}
	return name // exec says that it was not found
}
