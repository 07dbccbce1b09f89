package mpi

import (
	"fmt"
	"path/filepath"
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

// past ends each refusal.
const past = "; BURST_MPI=none leaves the step to srun as it is"

// Choose chooses the launch by what the program can be started by, what the user has said and
// what srun offers. An error is the user's to change: it was seen that the ranks would not find
// each other. What is only likely is a warning.
func (w World) Choose(f Found, s Step, said Word) (Launch, error) {
	if said.Type != "" {
		s.Type, s.From = said.Type, "--mpi="+string(said.Kind)+","+said.Type
	}
	told, by := w.told(f)
	if told != "" {
		f.PMI = []PMI{told}
	}
	can := f.can()
	switch {
	case said.Launcher && (said.Line || s.tasks() > 1):
		return w.launcher(f, s, "the user wants it")
	case said.Launcher:
		return Launch{Why: "one rank needs no launcher"}, nil
	case s.Type != "":
		return w.given(f, s, said)
	case told == PMI1:
		return Launch{PMI: told, Why: by + " is enough for Slurm's libpmi"}, nil
	}
	p, known := speaks(w.Default)
	switch {
	case w.Default != "" && !known:
		return Launch{Why: "slurm.conf has it, and what it can start is not known"}, nil
	case known && slices.Contains(can, p):
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
	return w.instead(f, s, said, fmt.Sprintf("of what srun offers (%s) nothing suits %s", strings.Join(types, ", "), f.Text()))
}

// told is the protocol that the user's environment has the implementation speak, and the word
// that says so; "": it says nothing.
func (w World) told(f Found) (p PMI, by string) {
	switch {
	case f.Kind == Intel:
		if v := w.Env("I_MPI_PMI"); v == "pmix" || v == "pmi2" {
			return PMI(v), "I_MPI_PMI=" + v
		}
		v := w.Env("I_MPI_PMI_LIBRARY")
		by = "I_MPI_PMI_LIBRARY=" + v
		switch name := filepath.Base(v); {
		case strings.HasPrefix(name, "libpmix."):
			return PMIx, by
		case strings.HasPrefix(name, "libpmi2."):
			return PMI2, by
		case strings.HasPrefix(name, "libpmi."):
			return PMI1, by
		}
	case f.Kind == MPICH && !f.sure(): // from version 4.2 on
		switch v := w.Env("MPIR_CVAR_PMI_VERSION"); v {
		case "x":
			return PMIx, "MPIR_CVAR_PMI_VERSION=" + v
		case "1", "2":
			return PMI2, "MPIR_CVAR_PMI_VERSION=" + v
		}
	}
	return "", ""
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

// sure says that it was seen, not guessed, what the library can be started by: others can be
// built, or told by the environment, to speak more.
func (f Found) sure() bool {
	if len(f.PMI) == 0 {
		return false
	}
	var first, second int
	n, _ := fmt.Sscanf(f.Version, "%d.%d", &first, &second) // fewer than 2: not known
	return f.Kind == OpenMPI4 || f.Kind == OpenMPI5 ||
		f.Kind == MPICH && n == 2 && (first < 4 || first == 4 && second < 2)
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
	case !f.sure():
		l.Warning = fmt.Sprintf("%s: %s is built with %s, which as a rule %s: if its %d tasks do not find each other, leave %s out%s",
			s.From, s.Program, f.Text(), not(f.can()), s.tasks(), s.From, w.better(f))
		return l, nil
	}
	return l, fmt.Errorf("%s: %s is built with %s, which %s: its %d tasks would not find each other; leave %s out%s%s",
		s.From, s.Program, f.Text(), not(f.can()), s.tasks(), s.From, w.better(f), past)
}

// instead is the launch where srun offers nothing that suits. Where the user has said nothing of
// MPI and there is no launcher, or srun was written, the step runs as by srun, with a warning.
func (w World) instead(f Found, s Step, said Word, why string) (Launch, error) {
	path := w.Launcher(f)
	switch {
	case s.tasks() == 1:
		return Launch{Why: "one rank needs none"}, nil
	case s.Stands, s.Mixed, path == "" && said.Kind == None:
		l := Launch{Why: "nothing that suits is known"}
		l.Warning = fmt.Sprintf("%s: each of the %d tasks of %s is likely to be a world of its own: load the module of its MPI and say --mpi=%s, or ask the site for a Slurm with %s", why, s.tasks(), s.Program, launcherWord, wanted(f.can()))
		return l, nil
	case path != "" && f.Kind == OpenMPI5 && s.Nodes > 1:
		return Launch{}, fmt.Errorf("%s: %s: %s is not chosen unasked on several nodes, since it ends with exit code 0 when it has lost one: ask the site for a Slurm with %s, or write --mpi=%s and let the program say in its output when it is done%s",
			s.Program, why, path, wanted(f.can()), launcherWord, past)
	}
	return w.launcher(f, s, why)
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
