// Package ckpt takes checkpoints of a job's step, keeps them as generations,
// and starts the step again from one. It is used by the user's own process,
// burst-srun: no daemon runs a user's command.
//
// A method (dmtcp, scr, signal, …) knows how; a Folder keeps what it made; when
// a checkpoint is due, and whether one still fits, is plain arithmetic.
package ckpt

import (
	"context"
	"errors"
	"io"
	"os"
)

// Method is one way to checkpoint a step. It holds nothing of a step that runs.
type Method interface {
	// Name is the directive's word: "dmtcp".
	Name() string
	// Usable says why the method cannot work on this host, in one line that names
	// what is missing; nil: it can.
	Usable(ctx context.Context) error
	// Start begins the step, from l.From if that is set. The step's output goes to
	// l.Stdout and l.Stderr. An error means that nothing runs.
	Start(ctx context.Context, l Launch) (Step, error)
}

// Launch is one start of a step.
type Launch struct {
	// Args is the command and its arguments: srun with its options, or what the
	// user's run= says.
	Args []string
	// Program is where the user's own command begins in Args; methods that put a
	// launcher before it (dmtcp_launch) need it.
	Program int
	Env     []string // whole, as of os.Environ
	Dir     string   // the step's working directory; empty: this process's
	Stdin   io.Reader
	Stdout  io.Writer
	Stderr  io.Writer
	// Say tells the user a line about the step while it runs; nil: nobody is told.
	Say func(format string, args ...any)
	// Scratch is a folder of this attempt for what does not outlive it: a
	// coordinator's port file and log. It is there, and on shared storage.
	Scratch string
	From    *Generation // to restart from; nil: from the beginning
}

// Step is a step that runs.
type Step interface {
	// Wait returns the step's exit code as srun's (128 + the signal's number for a
	// death by signal), once; an error means that it is not known.
	Wait() (code int, err error)
	// Signal passes a signal on to the step.
	Signal(s os.Signal) error
	// Checkpoint writes all that a restart needs into the folder into, which is
	// there and empty, and with stop ends the step after it. It is over, with
	// everything on disk as far as the method can tell, when it returns nil. ctx has
	// the time by which it must: after that it gives up, and the step goes on if it
	// can. An application that says ErrFinishing will end by itself.
	Checkpoint(ctx context.Context, into string, stop bool) (Made, error)
}

// Teller is a Step that knows how far it is, without a look at its output.
type Teller interface {
	// Iteration is the application's own count, -1 if it is not known, of so many; 0:
	// that is not known. After the step's end it is the last one.
	Iteration() (now, of int64)
}

// Yielder is a Step whose application begins a checkpoint when it is ready to, which may
// be long after it was asked.
type Yielder interface {
	// Yield gives up a checkpoint without stop that waits for that: its error wraps
	// ErrYielded.
	Yield()
}

// Asker is a Step whose application may ask for a checkpoint itself, at a moment that
// suits it.
type Asker interface {
	// Asked has a value when it has asked: it waits for a while for Checkpoint, without
	// stop, to be called. Whoever calls Asked listens from then on.
	Asked() <-chan struct{}
}

// Made is what a method says of a checkpoint beside its files.
type Made struct {
	Tool      string // and version: "dmtcp 4.2.0"
	Ranks     int    // processes; 0: not known
	Iteration int64  // the application's own count; -1: not known
	Extra     map[string]string
}

// ErrFinishing is wrapped by Step.Checkpoint when there is nothing to
// checkpoint: the step has ended by itself, or says that it is about to.
var ErrFinishing = errors.New("the step has ended or is about to")

// ErrYielded is wrapped by Step.Checkpoint after Yielder.Yield.
var ErrYielded = errors.New("it was not begun, and made way for a more urgent order")

// ErrBusy is wrapped by Step.Checkpoint while another one of the step is under way,
// and by Begin while another process writes a generation of the attempt.
var ErrBusy = errors.New("a checkpoint of the step is under way")
