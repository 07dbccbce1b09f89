package mpi

import (
	"fmt"
	"slices"
	"strings"
)

// Word is what a user says of a step's MPI where srun's own --mpi has no word for it.
type Word struct {
	Kind     Kind   // the implementation; None: not said
	Type     string // srun's type for it, pmi2 of "mpich,pmi2"; "": not said
	Launcher bool   // the implementation's own launcher is to start the ranks
	Off      bool   // nothing is to be done about MPI
	Line     bool   // it stands on the command line, not in the environment
}

// launcherWord has the implementation's own launcher start the ranks, whatever srun offers.
const launcherWord = "mpirun"

// ReadWord reads the value of --mpi, or of BURST_MPI: an implementation, after it a comma and
// srun's type or mpirun; or mpirun alone. own says that it is none of srun's words: all else
// is srun's to read.
func ReadWord(value string) (w Word, own bool, err error) {
	first, rest, more := strings.Cut(value, ",")
	switch {
	case first == launcherWord && !more:
		return Word{Launcher: true}, true, nil
	case !slices.Contains(Kinds(), Kind(first)):
		return Word{}, false, nil
	case more && rest == launcherWord:
		return Word{Kind: Kind(first), Launcher: true}, true, nil
	case more && (rest == "" || strings.ContainsAny(rest, ", ")):
		return Word{}, true, fmt.Errorf("--mpi=%.80s: after %s and a comma comes srun's type, as pmix or pmi2, or %s", value, first, launcherWord)
	}
	return Word{Kind: Kind(first), Type: rest}, true, nil
}

// Words are those that ReadWord takes for its own, for messages.
func Words() string {
	var all []string
	for _, k := range Kinds() {
		all = append(all, string(k))
	}
	return strings.Join(append(all, launcherWord), ", ")
}
