// Package methods has the ways to checkpoint a step: by images of its processes
// (dmtcp, mana, criu), by the application itself (signal, scr, libburst), and by commands of the
// job's. Each is one of ckpt.Method; New makes them, and All says which can work here.
package methods

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/burst-hpc/burst/ft/ckpt"
)

// Options are what a job says of its method. A method takes those that are its own.
type Options struct {
	// Of the method signal.
	Signal string        // the signal's name, with or without SIG; empty: USR1
	Grace  time.Duration // from the signal to the proof; 0: as long as the caller has
	Files  []string      // patterns, all of which must match a new file; see docs/methods/signal.md
	// Exact has a restart put the generation's files back over younger ones too,
	// as a rehearsal needs it.
	Exact bool

	// Of the method command.
	Setup, Run, Checkpoint, Restart string
	Preset                          string // "blcr": its commands, for those that are not given
}

// maker is what is known of a method before there are options.
type maker struct {
	name   string
	about  string
	make   func(Options) (ckpt.Method, error)
	usable func(context.Context) error
}

// makers, in the order in which they are shown.
var makers = []maker{
	{"dmtcp", "images of the step's processes, on one node, by DMTCP", newDMTCP, usableDMTCP},
	{"mana", "images of MPICH's ranks, on any number of nodes, by MANA, for programs linked with it", newMANA, usableMANA},
	{"criu", "images of one program's processes, by CRIU, for root or with its capability", newCRIU, usableCRIU},
	{"scr", "the application writes it through SCR, and leaves when it is to stop", newSCR, usableSCR},
	{"libburst", "the application writes it when libburst says so, and leaves when it is to stop", newLib, usableLib},
	{"signal", "the application writes its own when it gets a signal", newSignal, func(context.Context) error { return nil }},
	{"command", "commands of the job write and restore it", newCommand, func(context.Context) error { return commands{}.usable() }},
}

// Known is a method, or a preset of one, and whether it can work here.
type Known struct {
	Name   string
	Preset string // empty: the method itself
	About  string // one line
	Err    error  // why it cannot work on this host; nil: it can
}

// usableTime is how long a method may take to find out.
const usableTime = 20 * time.Second

// All are the methods and their presets, with what they say of this host.
func All(ctx context.Context) []Known {
	var all []Known
	for _, m := range makers {
		ctx, cancel := context.WithTimeout(ctx, usableTime)
		all = append(all, Known{Name: m.name, About: m.about, Err: m.usable(ctx)})
		cancel()
	}
	for _, name := range slices.Sorted(maps.Keys(presets)) {
		all = append(all, Known{Name: "command", Preset: name, About: presets[name].about, Err: presets[name].usable()})
	}
	return all
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
