package methods

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/burst-hpc/burst/ft/ckpt"
)

// Options are what a job says of its method. A method takes those that are its own.
type Options struct {
	// KillWait is what a step gets between SIGTERM and SIGKILL; 0: 30 s, as Slurm's.
	KillWait time.Duration

	// Of the method signal.
	Signal   string        // the signal's name, with or without SIG; empty: USR1
	Grace    time.Duration // from the signal to the proof; 0: as long as the caller has
	Files    []string      // patterns, all of which must match a new file; see docs/methods/signal.md
	LeftCode int           // exit code by which the application says that it has checkpointed and left; 0: 75; -1: none
	// Exact has a restart put the generation's files back over younger ones too,
	// as a rehearsal needs it.
	Exact bool
	// Iteration is where the application tells its iteration: a pattern of files,
	// or "output"; empty: nowhere. IterationPattern has the number as its first
	// group; empty: the first number after the word checkpoint.
	Iteration, IterationPattern string

	// Of the method command.
	Setup, Run, Checkpoint, Restart string
	Preset                          string // "blcr": its commands, for those that are not given
}

// maker is what is known of a method before there are options.
type maker struct {
	name   string
	make   func(Options) (ckpt.Method, error)
	usable func(context.Context) error
}

// makers, in the order in which they are shown.
var makers = []maker{
	{"dmtcp", newDMTCP, usableDMTCP},
	{"criu", newCRIU, usableCRIU},
	{"signal", newSignal, func(context.Context) error { return nil }},
	{"command", newCommand, func(context.Context) error { return commands{}.usable() }},
}

// Names are the methods' names.
func Names() []string {
	var names []string
	for _, m := range makers {
		names = append(names, m.name)
	}
	return names
}

// New makes a method. The error is one line for the job's user.
func New(name string, o Options) (ckpt.Method, error) {
	i := slices.IndexFunc(makers, func(m maker) bool { return m.name == name })
	if i < 0 {
		return nil, fmt.Errorf("ckpt=%s is not known; there are %s", name, strings.Join(Names(), ", "))
	}
	if o.KillWait < 0 {
		return nil, errors.New("KillWait is less than nothing")
	}
	if o.KillWait == 0 {
		o.KillWait = defaultKillWait
	}
	m, err := makers[i].make(o)
	if err != nil {
		return nil, fmt.Errorf("ckpt=%s: %w", name, err)
	}
	return m, nil
}

// Usable says why the method cannot work on this host, whatever a job's options;
// nil: it can.
func Usable(ctx context.Context, name string) error {
	i := slices.IndexFunc(makers, func(m maker) bool { return m.name == name })
	if i < 0 {
		return fmt.Errorf("ckpt=%s is not known; there are %s", name, strings.Join(Names(), ", "))
	}
	return makers[i].usable(ctx)
}
