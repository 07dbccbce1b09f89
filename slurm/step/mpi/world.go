package mpi

// Step is what is known of the step to come.
type Step struct {
	Program string // as the user wrote it, for messages
	Nodes   int    // 0: not known
	Tasks   int    // 0: not known, and one for each node at least
	PerNode int    // tasks of a node, where the user has bounded them; 0: not said
	CPUs    int    // of a task, where srun is told; 0: not said
	Shaped  bool   // more is said of what a rank gets: CPUs of a GPU, how it is bound
	Mixed   bool   // of a heterogeneous job, of which Nodes, Tasks and PerNode say little
	Stands  bool   // the user has written srun, for which burst-srun stands
	Whole   bool   // one program for all its tasks, and on all nodes of the job
	// Type is srun's type of MPI that the user has said, and From where: --mpi=pmi2.
	Type, From string
}

// tasks is how many ranks the step has, at the least.
func (s Step) tasks() int { return max(1, s.Tasks, s.Nodes) }

// several says that more ranks than one share a node, as far as is known.
func (s Step) several() bool { return s.PerNode > 1 || s.PerNode == 0 && s.Tasks > max(1, s.Nodes) }

// World is what is known of the host and the site that the step runs on. What takes time to
// find out is asked for only where it matters.
type World struct {
	Env      func(string) string
	Default  string                        // MpiDefault of slurm.conf; "": not known
	Types    func() []string               // what srun offers; none: it did not say
	Launcher func(Found) string            // the launcher of an implementation; "": there is none
	Library  func(name string) string      // where ld.so has a library; "": nowhere
	Bridges  func() []string               // the names of this host's interfaces that lead to no other
	Network  func() Network                // that of the job's nodes, where this host has others; zero: it has none, or it is not known
	Params   func(Found) map[string]string // what files set for Open MPI, and which file; nil: it is not known which files count
	Fabric   func(Found) Fabric
	UCX      func(Found) bool // its library sends by UCX
	Fence    string           // PMIxCollFence of mpi.conf
	Free     bool             // Slurm is known to leave ranks all CPUs of their node
	Binds    bool             // Slurm's task/affinity is on, and the site has not said how it binds
	Cores    int              // of the CPUs that this process may use; 0: not known
	Threads  int              // of a core, that Slurm gives to jobs; 0: not known
	Locked   func() uint64    // bytes of memory that a process may lock
}

// Fabric is the network of a node beside its Ethernet.
type Fabric struct {
	Devices  bool // /sys/class/infiniband has some
	EFA      bool // one of them is Amazon's
	Provider bool // the libfabric that the MPI would load has a provider for it
}
