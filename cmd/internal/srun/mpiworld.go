package srun

import (
	"context"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/burst-hpc/burst/slurm"
	"github.com/burst-hpc/burst/slurm/conf"
	"github.com/burst-hpc/burst/slurm/hostlist"
	"github.com/burst-hpc/burst/slurm/step"
	"github.com/burst-hpc/burst/slurm/step/container"
	"github.com/burst-hpc/burst/slurm/step/mpi"
)

// mpiStep is what the command line and the environment say of the step's shape.
func (p *program) mpiStep(k known) mpi.Step {
	s := mpi.Step{Program: k.call.Program()[0], Tasks: k.tasks(p.env), Nodes: k.job.Nodes}
	given := func(env string, names ...string) int {
		text := p.env(env)
		for _, n := range names {
			if v, ok := k.call.Value(n, func(string) string { return "" }); ok {
				text = v
			}
		}
		n, err := strconv.Atoi(text)
		if err != nil {
			return 0
		}
		return max(0, n)
	}
	all := true
	if v, ok := k.call.Value("nodes", p.env); ok {
		least, _, _ := strings.Cut(v, "-")
		if n, err := strconv.Atoi(least); err == nil && n > 0 {
			s.Nodes, all = n, n == k.job.Nodes
		}
	}
	s.PerNode = given("SLURM_NTASKS_PER_NODE", "ntasks-per-node", "tasks-per-node")
	s.CPUs = given("SRUN_CPUS_PER_TASK", "cpus-per-task")
	// From version 22.05 on srun does not take the job's number, and what a rank gets is not known.
	s.Shaped = k.call.Has(shaping...) || first(p.env, shapers...) != "" || s.CPUs == 0 && p.env("SLURM_CPUS_PER_TASK") != ""
	s.Mixed, s.Stands = k.job.Components > 0, p.name == "srun"
	if s.Tasks == 0 {
		s.Tasks = s.Nodes * s.PerNode
	}
	if s.Tasks > 0 && s.Tasks < s.Nodes {
		s.Nodes = s.Tasks // srun takes so few nodes, and says so
		all = s.Nodes == k.job.Nodes
	}
	if s.PerNode > 0 && s.Tasks > 0 && s.Nodes > 0 { // the job's, which the step need not fill
		s.PerNode = min(s.PerNode, (s.Tasks+s.Nodes-1)/s.Nodes)
	}
	s.Whole = all && k.call.Whole(p.env)
	var ok bool
	if s.Type, ok = k.call.Value("mpi", p.env); ok {
		s.From = "SLURM_MPI_TYPE=" + s.Type
		if k.call.Has("mpi") {
			s.From = "--mpi=" + s.Type
		} else if k.job.Place == step.Interactive && s.Type == "none" {
			s.Type, s.From = "", "" // salloc's shell has it from its own step
		}
	}
	return s
}

// shaping are srun's options, and shapers the variables of the job, that say more of what a rank
// gets than --cpus-per-task.
var (
	shaping = strings.Fields("cpus-per-gpu tres-per-task ntasks-per-socket ntasks-per-core ntasks-per-gpu ntasks-per-tres cpu-bind cpu_bind hint threads-per-core cores-per-socket sockets-per-node extra-node-info distribution")
	shapers = strings.Fields("SLURM_CPUS_PER_GPU SLURM_TRES_PER_TASK SLURM_NTASKS_PER_SOCKET SLURM_NTASKS_PER_CORE SLURM_NTASKS_PER_GPU SLURM_CPU_BIND SLURM_HINT SLURM_THREADS_PER_CORE SLURM_DISTRIBUTION")
)

// first is the first of some variables that is set; "": none.
func first(env func(string) string, names ...string) string {
	for _, n := range names {
		if env(n) != "" {
			return n
		}
	}
	return ""
}

// mpiWorld is what is known of the host and the site. What is found in an image says nothing
// of the host's files.
func (p *program) mpiWorld(ctx context.Context, k known, f mpi.Found) mpi.World {
	site := slurmConf(p.env)
	w := mpi.World{Env: p.stepEnv(k), Default: site.Get("MpiDefault"), Fence: fenceOf(p.env)}
	w.Types = func() []string {
		out, err := p.ask(ctx, "--mpi=list")
		if err != nil {
			return nil // it will say so when it starts the step
		}
		return mpi.ReadTypes(out)
	}
	w.Launcher = func(f mpi.Found) string { return mpi.FindLauncher(f, p.env) }
	w.Bridges, w.Params = mpi.Bridges, func(f mpi.Found) map[string]string { return mpi.Params(f, p.env) }
	w.Network = func() mpi.Network { return mpi.Choose(mpi.Networks(), func() []netip.Addr { return p.addresses(ctx) }) }
	w.Library = func(string) string { return "" }
	if k.inside != nil {
		w.Params = func(mpi.Found) map[string]string { return k.inside.sets }
		w.Fabric = func(f mpi.Found) mpi.Fabric { return p.fabricInside(f, *k.inside) }
		w.UCX = func(mpi.Found) bool { return k.inside.ucx }
	} else {
		w.Library = func(name string) string { return mpi.FindLibrary("", name, p.env) }
		w.Fabric = func(f mpi.Found) mpi.Fabric { return mpi.ReadFabric("/sys", f, p.env) }
		w.UCX = func(f mpi.Found) bool { return mpi.OverUCX(f, p.env) }
	}
	plugin := site.Get("TaskPlugin")
	w.Free = site.Lines && (plugin == "" || plugin == "task/none")
	w.Binds = strings.Contains(plugin, "affinity") && site.Get("TaskPluginParam") == "" && !binds(site)
	w.Locked = func() uint64 {
		if _, said := k.call.Value("propagate", p.env); said || !conf.HandsOnMemlock(site) {
			return unix.RLIM_INFINITY // slurmd's own limit counts, or the user has chosen
		}
		return locked()
	}
	w.Cores, w.Threads = coresOf("/sys", p.env("SLURM_CPUS_ON_NODE"))
	return w
}

// addresses are those by which Slurm reaches the nodes of the job, as Burst gives them to nodes of a
// cloud; none: one of them is the site's own, which may have a faster network than that, or has a name for its
// address, or Slurm does not say.
func (p *program) addresses(ctx context.Context) (all []netip.Addr) {
	names, err := hostlist.Expand(p.env("SLURM_JOB_NODELIST"))
	if err != nil || len(names) == 0 {
		return nil
	}
	nodes, err := slurm.New(slurm.Exec{Timeout: lookTime}).Nodes(ctx, names...)
	if err != nil {
		return nil
	}
	for _, n := range nodes {
		a, err := netip.ParseAddr(n.Addr)
		if err != nil || !n.State.Has("CLOUD") {
			return nil
		}
		all = append(all, a)
	}
	return all
}

// locked is how many bytes this process may lock.
func locked() uint64 {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_MEMLOCK, &limit); err != nil {
		return unix.RLIM_INFINITY // not known
	}
	return limit.Cur
}

// binds says whether a node or a partition of the site has words on how ranks are bound.
func binds(site conf.Site) bool {
	return slices.ContainsFunc(slices.Concat(site.Nodes, site.Partitions), func(l conf.Line) bool { return l.Attrs["cpubind"] != "" })
}

// fabricInside is the network of a rank in an image: the node's devices, and the libfabric for
// EFA that is bound into it, which Intel MPI, and what has one within, pass over for their own.
func (p *program) fabricInside(f mpi.Found, in inside) mpi.Fabric {
	f.Library = ""
	fabric := mpi.ReadFabric("/sys", f, p.env)
	fabric.Provider = fabric.EFA && f.Kind != mpi.Intel && (in.takes || in.blind != nil) && container.ThisNode("/").EFA != ""
	return fabric
}

// coresOf are the cores of the CPUs that this process may use, and the threads of each, where
// they are as many CPUs as Slurm counts for the job on this node; zero: it is not known, or not so.
func coresOf(sys, cpus string) (cores, threads int) {
	n, err := strconv.Atoi(cpus)
	if err != nil || n != runtime.NumCPU() {
		return 0, 0
	}
	text, err := os.ReadFile(filepath.Join(sys, "devices/system/cpu/cpu0/topology/thread_siblings_list"))
	if err != nil {
		return 0, 0
	}
	if threads = siblings(strings.TrimSpace(string(text))); threads < 1 || n%threads != 0 {
		return 0, 0
	}
	return n / threads, threads
}

// siblings counts the CPUs of a list as the kernel writes it: 0,4 or 0-1.
func siblings(list string) (n int) {
	for part := range strings.SplitSeq(list, ",") {
		from, to, has := strings.Cut(part, "-")
		a, err := strconv.Atoi(from)
		if err != nil {
			return 0
		}
		b := a
		if has {
			if b, err = strconv.Atoi(to); err != nil {
				return 0
			}
		}
		n += b - a + 1
	}
	return n
}

// confs are where a node has slurm.conf: of its own, or as slurmd has got it.
var confs = []string{"/etc/slurm/slurm.conf", "/etc/slurm-llnl/slurm.conf", "/run/slurm/conf/slurm.conf"}

// confPath is the slurm.conf that srun reads; "": it is not known.
func confPath(env func(string) string) string {
	if path := env("SLURM_CONF"); path != "" {
		return path
	}
	for _, path := range confs {
		if _, err := os.Stat(path); err == nil {
			return path
		}
	}
	return ""
}

// slurmConf is the site's slurm.conf; empty where it is not to be read here.
func slurmConf(env func(string) string) conf.Site {
	if path := confPath(env); path != "" {
		if site, err := conf.Read(path); err == nil {
			return site
		}
	}
	return conf.Site{}
}

// fenceOf is the algorithm by which the site has Slurm's PMIx wait; "": it says nothing.
func fenceOf(env func(string) string) string {
	path := confPath(env)
	if path == "" {
		return ""
	}
	site, err := conf.Read(filepath.Join(filepath.Dir(path), "mpi.conf"))
	if err != nil {
		return ""
	}
	return site.Get("PMIxCollFence")
}
