package srun

import (
	"cmp"
	"context"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"github.com/burst-hpc/burst/slurm/conf"
	"github.com/burst-hpc/burst/slurm/step"
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
	s.CPUs = given(cmp.Or(first(p.env, "SRUN_CPUS_PER_TASK", "SLURM_CPUS_PER_TASK"), "SRUN_CPUS_PER_TASK"), "cpus-per-task")
	if s.Tasks == 0 {
		s.Tasks = s.Nodes * s.PerNode
	}
	if s.Tasks > 0 && s.Tasks < s.Nodes {
		s.Nodes = s.Tasks // srun takes so few nodes, and says so
		all = s.Nodes == k.job.Nodes
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
	w := mpi.World{Env: p.env, Default: site.Get("MpiDefault"), Fence: fenceOf(p.env)}
	w.Types = func() []string {
		out, err := p.ask(ctx, "--mpi=list")
		if err != nil {
			return nil // it will say so when it starts the step
		}
		return mpi.ReadTypes(out)
	}
	w.Launcher = func(f mpi.Found) string { return mpi.FindLauncher(f, p.env) }
	w.Interfaces = mpi.UpInterfaces
	w.Library, w.Fabric = func(string) string { return "" }, func(mpi.Found) mpi.Fabric { return mpi.Fabric{} }
	if k.inside == nil {
		w.Library = func(name string) string { return mpi.FindLibrary("", name, p.env) }
		w.Fabric = func(f mpi.Found) mpi.Fabric { return mpi.ReadFabric("/sys", f, p.env) }
	}
	w.Binds = strings.Contains(site.Get("TaskPlugin"), "affinity") && site.Get("TaskPluginParam") == "" &&
		!k.call.Has("cpu-bind", "cpu_bind", "hint", "threads-per-core", "ntasks-per-core", "extra-node-info", "distribution")
	w.Cores, w.Threads = coresOf("/sys", p.env("SLURM_CPUS_ON_NODE"))
	return w
}

// coresOf are the cores of this node and their threads, where the job has all of them and
// Slurm counts threads as CPUs; zero: it is not known, or not so.
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
