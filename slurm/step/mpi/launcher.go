package mpi

import "fmt"

// Exits0 is what a user of Open MPI 5's mpirun on several nodes has to know.
const Exits0 = "Open MPI 5's mpirun ends with exit code 0 when it has lost a node: the step counts as done, but under a method or --once if mpirun says on its standard error what it has lost: let the program say in its output when it is done"

// LostNode is what Open MPI's mpirun says on its standard error when it has lost a node (PRRTE,
// help-errmgr-base.txt, node-died).
const LostNode = "has lost communication with a remote daemon"

// GoesOn follows it where mpirun ends no job that has asked to outlive its ranks, as by --with-ft
// ulfm, and any other by an exit code of its own (PRRTE after 4.1; that of Open MPI 5 ends all).
const GoesOn = "is terminated unless it asked to"

// launcher has the implementation's own launcher start the ranks, with srun as its way to the
// nodes: no keys for ssh are needed.
func (w World) launcher(f Found, s Step, why string) (Launch, error) {
	path := ""
	if f.Kind != None {
		path = w.Launcher(f)
	}
	switch {
	case f.Kind == None:
		return Launch{}, fmt.Errorf("--mpi=%s: it cannot be seen which MPI %s was built with: name it before a comma, as --mpi=openmpi5,%s%s", launcherWord, s.Program, launcherWord, past)
	case path == "":
		return Launch{}, fmt.Errorf("%s is built with %s: %s, and no launcher of its own was found: load its module, so that its %s is on PATH, or ask the site for a Slurm with %s%s",
			s.Program, f.Text(), why, f.Kind.launchers()[0], wanted(f.can()), past)
	case !s.Whole:
		return Launch{}, fmt.Errorf("%s is built with %s: %s, and its launcher %s would use all nodes of the job for one program: leave out --nodes and --multi-prog, or ask the site for a Slurm with %s%s",
			s.Program, f.Text(), why, path, wanted(f.can()), past)
	}
	l := Launch{Launcher: path, Why: why + ": its own launcher starts the ranks, by srun on each node"}
	if f.Kind == OpenMPI5 && s.Nodes > 1 {
		l.Warning = Exits0
	}
	return l, nil
}

func wanted(can []PMI) string {
	if len(can) == 0 || can[0] == PMIx {
		return "PMIx"
	}
	return string(can[0])
}

// launchers are the names of an implementation's launcher, the most certain first.
func (k Kind) launchers() []string {
	switch k {
	case OpenMPI4, OpenMPI5:
		return []string{"mpirun.openmpi", "mpirun", "orterun", "prterun"}
	case MPICH:
		return []string{"mpiexec.hydra", "mpiexec.mpich", "mpiexec"}
	case Intel, MVAPICH:
		return []string{"mpiexec.hydra", "mpiexec"}
	}
	return nil
}

// line is the launcher's command line, up to the program.
func (l Launch) line(f Found, s Step) []string {
	n := fmt.Sprint(s.tasks())
	if f.Kind == OpenMPI4 || f.Kind == OpenMPI5 {
		line := []string{l.Launcher, "-n", n}
		if s.PerNode > 0 {
			line = append(line, "--map-by", fmt.Sprintf("ppr:%d:node", s.PerNode))
		}
		return line
	}
	line := []string{l.Launcher, "-bootstrap", "slurm", "-n", n}
	if s.PerNode > 0 {
		line = append(line, "-ppn", fmt.Sprint(s.PerNode))
	}
	return line
}
