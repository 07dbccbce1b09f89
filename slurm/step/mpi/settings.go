package mpi

import (
	"fmt"
	"strings"

	"github.com/burst-hpc/burst/slurm/step"
)

// Plan is all that a step gets for its MPI.
type Plan struct {
	Found    Found
	Launch   Launch
	Settings step.Settings
	Warnings []string // for the user, each a line
}

// Plan decides what a step gets. What the user has set stays. An error is the user's to change.
func (w World) Plan(f Found, s Step, said Word) (Plan, error) {
	p := Plan{Found: f}
	if said.Off {
		return p, nil
	}
	if f.Missing != "" {
		p.Warnings = append(p.Warnings, fmt.Sprintf("%s needs %s, which ld.so does not find here: load the module of its MPI, or put that library's folder into LD_LIBRARY_PATH", s.Program, f.Missing))
	}
	if f.Clash != "" {
		p.Warnings = append(p.Warnings, fmt.Sprintf("%s is built with %s, and %s: with both in one process its ranks are likely to crash: load that library's module for this MPI, or build it with it", s.Program, f.Text(), f.Clash))
	}
	if said = said.counts(f); said == (Word{}) && f.Kind == None {
		return p, nil
	}
	if f.Kind = said.over(f); f.Kind != p.Found.Kind {
		f = Found{Kind: f.Kind, Program: f.Program, Script: f.Script}
		p.Found = f
	}
	if f.Kind == None && !said.Launcher {
		return p, nil
	}
	var err error
	if p.Launch, err = w.Choose(f, s, said); err != nil {
		return p, err
	}
	if p.Launch.Warning != "" {
		p.Warnings = append(p.Warnings, p.Launch.Warning)
	}
	b := build{World: w, f: f, s: s, l: p.Launch}
	b.launch()
	switch {
	case s.Mixed:
	case s.Nodes > 1:
		b.threads()
		b.binding()
		b.fence()
		b.interfaces()
		b.transport()
	default:
		b.threads()
		b.binding()
	}
	p.Settings = b.all
	p.Warnings = append(p.Warnings, b.warnings...)
	return p, nil
}

// counts is what the environment's word, which stands for all steps of a script, says of one: of
// what can be seen it names nothing, and what is not seen has no launcher unless it is named.
func (w Word) counts(f Found) Word {
	seen := f.Kind != None || f.Program != "" && !f.Opaque && f.Missing == ""
	switch {
	case w.Line:
	case w.Kind != None && seen && f.Kind != w.Kind:
		return Word{}
	case w.Kind == None && f.Kind == None:
		return Word{}
	}
	return w
}

// over is the implementation that holds: the one that the user names, before what was seen.
func (w Word) over(f Found) Kind {
	if w.Kind != None {
		return w.Kind
	}
	return f.Kind
}

// build gathers settings.
type build struct {
	World
	f   Found
	s   Step
	l   Launch
	all step.Settings

	warnings []string
}

// set puts a variable, unless the user has one of them: all are names for the same.
func (b *build) set(name, value, why string, others ...string) {
	for _, n := range append([]string{name}, others...) {
		if v := b.Env(n); v != "" {
			b.all = append(b.all, step.Setting{Kept: n + "=" + v, Why: "the environment has it"})
			return
		}
	}
	b.all = append(b.all, step.Setting{Variable: name + "=" + value, Why: why})
}

// launch puts what starts the ranks.
func (b *build) launch() {
	switch {
	case b.l.Launcher != "":
		b.all = append(b.all, step.Setting{Launcher: b.l.line(b.f, b.s), Why: b.l.Why})
		b.loose()
		b.proxies()
	case b.l.Type != "":
		b.all = append(b.all, step.Setting{Option: "--mpi=" + b.l.Type, Why: b.l.Why})
	case b.s.Type != "":
		b.all = append(b.all, step.Setting{Kept: b.s.From, Why: b.l.Why})
	case b.Default == "":
		b.all = append(b.all, step.Setting{Kept: "srun's own choice of MPI", Why: b.l.Why})
	default:
		b.all = append(b.all, step.Setting{Kept: "MpiDefault=" + b.Default, Why: b.l.Why})
	}
	if b.f.Kind != Intel || b.l.PMI != PMI2 {
		return
	}
	if lib := b.Library("libpmi2.so.0"); lib != "" {
		b.set("I_MPI_PMI_LIBRARY", lib, "Intel MPI finds the other ranks by Slurm's libpmi2; its own client does so from version 2021 on", "I_MPI_PMI")
	}
}

// loose keeps a launcher from binding ranks: it would bind those of two steps of a job that run
// side by side to the same cores.
func (b *build) loose() {
	const why = "two steps side by side would be bound to the same cores"
	switch b.f.Kind {
	case OpenMPI4:
		b.param("OMPI_MCA_", "hwloc_base_binding_policy", "none", why)
	case OpenMPI5:
		b.param("PRTE_MCA_", "hwloc_default_binding_policy", "none", why)
	case Intel:
		b.set("I_MPI_PIN", "off", why, "I_MPI_PIN_DOMAIN", "I_MPI_PIN_PROCESSOR_LIST", "I_MPI_PIN_CELL", "I_MPI_PIN_ORDER")
	}
}

// proxies has the srun by which Hydra starts its proxies give them no PMI, as Open MPI does itself: they
// have one for the ranks, and MPICH 5 aborts where it finds two.
func (b *build) proxies() {
	switch b.f.Kind {
	case MPICH, MVAPICH, Intel:
		b.set("SLURM_MPI_TYPE", "none", "the launcher's own PMI is for the ranks, which would find that of MpiDefault beside it")
	}
}

// param puts a parameter of Open MPI's, unless the environment or a file of the site's or the
// user's has it or what excludes it. Where it is not known which files count it is left out.
func (b *build) param(prefix, name, value, why string, others ...string) {
	files := b.Params(b.f)
	if files == nil || b.l.Launcher != "" && b.f.Library == "" { // a launcher of this host's reads others than an image's MPI
		return
	}
	var in []string
	for _, n := range others {
		in = append(in, prefix+n)
	}
	for _, n := range append([]string{name}, others...) {
		if file := files[n]; file != "" && b.Env(prefix+n) == "" {
			b.all = append(b.all, step.Setting{Kept: n, Why: file + " has it"})
			return
		}
	}
	b.set(prefix+name, value, why, in...)
}

// threads sets OpenMP's threads of a rank. A rank that is alone on its node, or bound to some
// of its CPUs, is left as it is: OpenMP counts what the rank has.
func (b *build) threads() {
	switch {
	case b.s.CPUs > 0:
		b.set("OMP_NUM_THREADS", fmt.Sprint(b.s.CPUs), "as many as --cpus-per-task gives a rank")
	case b.s.several() && b.Free && !b.s.Shaped:
		b.set("OMP_NUM_THREADS", "1", "several ranks share a node, Slurm binds none of them, and no --cpus-per-task is said: each would start a thread for every CPU")
	}
}

// binding binds ranks to whole cores where the node has several threads of a core and a core
// for each rank: Slurm alone would put two ranks on the threads of one core.
func (b *build) binding() {
	if !b.Binds || b.Threads < 2 || b.Cores == 0 || b.l.Launcher != "" || b.s.PerNode == 0 {
		return
	}
	for _, n := range []string{"SLURM_CPU_BIND", "SLURM_HINT", "SLURM_THREADS_PER_CORE"} {
		if v := b.Env(n); v != "" {
			b.all = append(b.all, step.Setting{Kept: n + "=" + v, Why: "the environment has it"})
			return
		}
	}
	if b.s.Shaped {
		return
	}
	if v := b.Env("OMP_NUM_THREADS"); v != "" && v != fmt.Sprint(max(1, b.s.CPUs)) {
		return // its threads are meant to have more than their rank's CPUs
	}
	if cores := b.s.PerNode * ((max(1, b.s.CPUs) + b.Threads - 1) / b.Threads); b.s.PerNode > 1 && cores <= b.Cores && b.s.PerNode <= b.Cores {
		b.all = append(b.all, step.Setting{Option: "--cpu-bind=cores", Why: fmt.Sprintf("%d ranks of a node have its %d cores of %d threads: each gets whole cores", b.s.PerNode, b.Cores, b.Threads)})
	}
}

// fence has Slurm's PMIx gather and wait by one algorithm, and by the one that no rank was lost with (docs/slurm-states.md).
func (b *build) fence() {
	if b.l.PMI != PMIx || b.Fence != "" {
		return
	}
	b.set("SLURM_PMIX_FENCE", "ring", "Slurm's PMIx lets ranks of several nodes out of MPI_Init too early where it waits by its other algorithm, tree")
}

// interfaces keeps an MPI to the network of the nodes, or Open MPI off interfaces that lead to
// none. On a host with one network and without such nothing is set: the implementations leave
// out the loopback themselves, and use all others.
func (b *build) interfaces() {
	open := b.f.Kind == OpenMPI4 || b.f.Kind == OpenMPI5
	if n := b.Network(); n.Interface != "" {
		why := fmt.Sprintf("the nodes have their addresses in the network of %s, and this node's other networks may be closed between them", n.Interface)
		if open {
			b.openmpi("include", "exclude", n.Prefix.String(), why)
		} else {
			b.named(n.Interface, why)
		}
		return
	}
	off := b.Bridges()
	if !open || len(off) == 0 {
		return // the other MPIs have no list of what to leave out
	}
	b.openmpi("exclude", "include", "127.0.0.0/8,"+strings.Join(off, ","), "the bridges of containers and virtual machines on this node lead to no other node")
}

// openmpi has Open MPI, and its launcher, include or exclude some networks, unless either is said.
func (b *build) openmpi(do, other, list, why string) {
	b.param("OMPI_MCA_", "btl_tcp_if_"+do, list, why, "btl_tcp_if_"+other)
	switch {
	case b.l.Launcher == "":
	case b.f.Kind == OpenMPI4:
		b.param("OMPI_MCA_", "oob_tcp_if_"+do, list, why, "oob_tcp_if_"+other)
	default:
		b.param("PRTE_MCA_", "prte_if_"+do, list, why, "prte_if_"+other)
	}
}

// named has the other MPIs, which take no network, use an interface by its name. A libfabric on a
// node without one of that name uses them all; a UCX would have none, but all nodes of a job are
// of one type and image. UCX leaves InfiniBand, too, if it is given names.
func (b *build) named(name, why string) {
	switch {
	case !b.UCX(b.f):
		b.set("FI_TCP_IFACE", name, why)
	case !b.Fabric(b.f).Devices:
		b.set("UCX_NET_DEVICES", name, why)
	}
	switch {
	case b.l.Launcher == "":
	case b.f.Kind == Intel:
		b.set("I_MPI_HYDRA_IFACE", name, why)
	default:
		b.set("HYDRA_IFACE", name, why)
	}
}

// transport has the MPI use EFA where the node has it and the MPI's libfabric can. Elsewhere
// nothing is set: the implementations themselves take shared memory within a node, and
// between nodes the best that they find, TCP at the least.
func (b *build) transport() {
	fabric := b.Fabric(b.f)
	if !fabric.EFA || !fabric.Provider {
		return
	}
	const why = "the node has an EFA device and libfabric a provider for it: without this word an MPI may take TCP and not say so"
	if b.f.Kind == Intel {
		b.set("I_MPI_OFI_PROVIDER", "efa", why, "FI_PROVIDER")
	} else {
		b.set("FI_PROVIDER", "efa", why)
	}
	if n := b.Locked(); n < leastLocked && strings.HasSuffix(b.all[len(b.all)-1].Variable, "=efa") {
		b.warnings = append(b.warnings, fmt.Sprintf("the ranks use EFA, which locks memory, and their limit of that is %d KiB (ulimit -l), as a rule the login node's, which Slurm hands on: "+
			"if MPI_Init fails with \"Cannot allocate memory\", say --propagate=NONE, and ask the site for PropagateResourceLimitsExcept=MEMLOCK in slurm.conf", n>>10))
	}
}

// leastLocked is more locked memory than a rank over EFA is sure to live with: what it takes grows
// with its messages, and Amazon wants no limit.
const leastLocked = 1 << 30
