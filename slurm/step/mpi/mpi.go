// Package mpi says which MPI a program was built with, how its ranks are best started
// within a Slurm job, and what they need in their environment. Programs are read, never
// run; what is decided from what was read is decided by pure functions.
package mpi

import "strings"

// Kind is an implementation of MPI, by the word that users have for it.
type Kind string

// The implementations that are told apart. None is a program without any that is seen: a
// script, an interpreter, or no MPI program at all.
const (
	None     Kind = ""
	OpenMPI4 Kind = "openmpi4" // and 2 and 3, which are started alike
	OpenMPI5 Kind = "openmpi5" // and later
	MPICH    Kind = "mpich"
	Intel    Kind = "intel"
	MVAPICH  Kind = "mvapich"
)

// Kinds are all that a user may name.
func Kinds() []Kind { return []Kind{OpenMPI4, OpenMPI5, MPICH, Intel, MVAPICH} }

// Name is the implementation's name for people.
func (k Kind) Name() string {
	switch k {
	case OpenMPI4, OpenMPI5:
		return "Open MPI"
	case MPICH:
		return "MPICH"
	case Intel:
		return "Intel MPI"
	case MVAPICH:
		return "MVAPICH"
	}
	return "no MPI"
}

// PMI is a protocol by which a rank learns of the others, by srun's word for it.
type PMI string

// The protocols. Slurm's plugin pmi2 speaks PMI1, too, over its socket; PMI1 is what Slurm's own
// libpmi does without any plugin.
const (
	PMIx PMI = "pmix"
	PMI2 PMI = "pmi2"
	PMI1 PMI = "none"
)

// Found is what was found out about a program.
type Found struct {
	Kind    Kind
	Version string // "4.1.4"; "": not known
	Program string // the file that was read, below the root
	Script  string // the interpreter, where the program is a script: which MPI it starts is not known
	Library string // the MPI library as ld.so would find it, below the root; "" where it is linked statically
	Missing string // the MPI library that the program needs and that ld.so would not find
	Clash   string // "libhdf5.so.103 needs Open MPI's libmpi.so.40", where the program has another MPI; "": none is seen
	Opaque  bool   // no MPI is seen in the program, but it may load one, or start a program that does
	PMI     []PMI  // what the library can be started by; nil: not known
}

// Text is what was found, in a few words.
func (f Found) Text() string {
	if f.Kind == None {
		return f.Kind.Name()
	}
	return strings.TrimSpace(f.Kind.Name() + " " + f.Version)
}
