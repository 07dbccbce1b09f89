package mpi

import (
	"fmt"
	"slices"
	"strings"
)

// Launch is how a step's ranks are started.
type Launch struct {
	Type     string // for srun's --mpi; "": what holds anyhow is right
	Launcher string // the path of mpirun or mpiexec, in srun's place
	PMI      PMI    // what the ranks speak; "": with their launcher, or it is not known
	Why      string
	Warning  string // what is likely to go wrong, though the user wants it so
}

// Choose chooses the launch by what the program can be started by, what the user has said and
// what srun offers. An error is the user's to change: the ranks would not find each other, and
// each would be a world of its own, or they would not start.
func (w World) Choose(f Found, s Step, said Word) (Launch, error) {
	can := f.can()
	if said.Type != "" {
		s.Type, s.From = said.Type, "--mpi="+string(said.Kind)+","+said.Type
	}
	switch {
	case said.Launcher:
		return w.launcher(f, s, "the user wants it")
	case s.Type != "":
		return w.given(f, s, said)
	}
	if p, ok := speaks(w.Default); ok && slices.Contains(can, p) {
		return Launch{PMI: p, Why: fmt.Sprintf("slurm.conf has it, and %s %s", f.Text(), p.by())}, nil
	}
	types := w.Types()
	for _, p := range can {
		if t := offered(types, p); t != "" {
			return Launch{Type: t, PMI: p, Why: fmt.Sprintf("%s %s, and srun offers it", f.Text(), p.by())}, nil
		}
	}
	if types == nil && len(can) > 0 {
		return Launch{PMI: can[0], Why: "srun does not say what it offers"}, nil
	}
	l, err := w.launcher(f, s, fmt.Sprintf("of what srun offers (%s) nothing suits %s", strings.Join(types, ", "), f.Text()))
	if err != nil && s.tasks() == 1 {
		return Launch{Why: "one rank needs none"}, nil
	}
	return l, err
}

// can are the protocols that what was found can be started by, the best first.
func (f Found) can() []PMI {
	switch {
	case f.PMI != nil:
		return f.PMI
	case f.Kind == OpenMPI4, f.Kind == OpenMPI5:
		return []PMI{PMIx}
	}
	return []PMI{PMI2}
}

// by says in words that a rank is started by a protocol.
func (p PMI) by() string {
	if p == PMI1 {
		return "is started by Slurm's libpmi"
	}
	return "is started by " + string(p)
}

// given judges the type that the user has said.
func (w World) given(f Found, s Step, said Word) (Launch, error) {
	p, ok := speaks(s.Type)
	suits := ok && slices.Contains(f.can(), p)
	l := Launch{PMI: p, Why: "the user has said so (" + s.From + ")"}
	if said.Type != "" {
		l.Type = said.Type
	}
	switch {
	case suits || !ok || s.tasks() == 1:
		return l, nil
	case p == PMI1:
		l.Warning = fmt.Sprintf("%s: each of the %d tasks of %s, which is built with %s, will be a world of its own: leave it out", s.From, s.tasks(), s.Program, f.Text())
		return l, nil
	case f.Library == "" && f.PMI == nil:
		return l, nil // only its name is known
	}
	return l, fmt.Errorf("%s: %s is built with %s, which %s: its %d tasks would not find each other; leave %s out%s",
		s.From, s.Program, f.Text(), not(f.can()), s.tasks(), s.From, w.better(f))
}

// not says what a library does in place of what was asked.
func not(can []PMI) string {
	if len(can) == 0 {
		return "speaks none of srun's protocols"
	}
	var words []string
	for _, p := range can {
		words = append(words, string(p))
	}
	return "is started by " + strings.Join(words, " or ")
}

// better names the type that would suit, where srun offers one.
func (w World) better(f Found) string {
	types := w.Types()
	for _, p := range f.can() {
		if t := offered(types, p); t != "" {
			return ", or write --mpi=" + t
		}
	}
	return ""
}

// launcher has the implementation's own launcher start the ranks, with srun as its way to the
// nodes: no keys for ssh are needed.
func (w World) launcher(f Found, s Step, why string) (Launch, error) {
	path := ""
	if f.Kind != None {
		path = w.Launcher(f)
	}
	switch {
	case f.Kind == None:
		return Launch{}, fmt.Errorf("--mpi=%s: it cannot be seen which MPI %s was built with: name it before a comma, as --mpi=openmpi5,%s", launcherWord, s.Program, launcherWord)
	case path == "":
		return Launch{}, fmt.Errorf("%s is built with %s: %s, and no launcher of its own was found: load its module, so that its %s is on PATH, or ask the site for a Slurm with %s",
			s.Program, f.Text(), why, f.Kind.launchers()[0], wanted(f.can()))
	case !s.Whole:
		return Launch{}, fmt.Errorf("%s is built with %s: %s, and its launcher %s would use all nodes of the job for one program: leave out --nodes and --multi-prog, or ask the site for a Slurm with %s",
			s.Program, f.Text(), why, path, wanted(f.can()))
	}
	return Launch{Launcher: path, Why: why + ": its own launcher starts the ranks, by srun on each node"}, nil
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
