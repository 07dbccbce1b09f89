// Package slurmtest is a simulated slurmctld for tests of what talks to Slurm
// through scontrol, squeue and scancel. It keeps nodes and jobs in memory,
// prints them as Slurm 22.05 does, and follows its power saving: allocation of
// powered-down nodes, ResumeProgram, registration, timeouts, requeue with its
// hold, suspension. All time goes through package time, so that a bubble of
// testing/synctest runs hours in milliseconds. What was seen of the real
// slurmctld is compared with it in the package's test.
package slurmtest

import (
	"context"
	"strconv"
	"sync"
	"time"
)

// Options shape the simulated cluster. A zero duration takes the default.
type Options struct {
	Nodes     []string // cloud nodes, in partition Partition
	OnPrem    []string // ordinary nodes, up and idle, in partition "onprem"
	Partition string   // of the cloud nodes; "cloud"
	CPUs      int      // of every node; 2
	Memory    int      // of every node, MiB; 1000

	SuspendTime    time.Duration // idle before suspension; 10 min
	SuspendTimeout time.Duration // POWERING_DOWN until POWERED_DOWN; 30 s
	ResumeTimeout  time.Duration // POWERING_UP until DOWN; 60 s
	SlurmdTimeout  time.Duration // no answer until DOWN; 300 s
	MinJobAge      time.Duration // an ended job is forgotten after it; 300 s
	Hold           time.Duration // after a requeue: cred_expire + 1 s; 121 s
	Interval       time.Duration // between two power saving rounds; 1 s
	Completing     time.Duration // how long a job stays COMPLETING; 500 ms

	// ReturnToService as in slurm.conf (0, 1, 2): whether a node that is DOWN
	// comes back by registering.
	ReturnToService int
	// Ungated starts a job not when its last node has registered but at the
	// next 30 s tick, as slurmctld does without a PrologSlurmctld.
	Ungated bool
	// NewResumeFile writes SLURM_RESUME_FILE's content as Slurm 23.02 does.
	NewResumeFile bool

	// The programs that slurmctld calls, each call in its own goroutine; nil: none.
	OnResume     func(hostlist, resumeFile string) // resumeFile is the JSON text
	OnSuspend    func(hostlist string)
	OnResumeFail func(hostlist string)

	// Fail is asked before each command, with the command line joined by
	// spaces. A *Fault says what goes wrong; any other error is the command's
	// result and nothing is done.
	Fail func(cmd string) error
}

// Fault is a failure that Options.Fail orders for one command.
type Fault struct {
	Delay time.Duration // the command takes this long; ctx may end it
	// After lets the command take effect before the answer is lost.
	After bool
	Err   error // what Run returns; nil: only the delay
}

func (f *Fault) Error() string {
	if f.Err == nil {
		return "delayed by " + f.Delay.String()
	}
	return f.Err.Error()
}

func (f *Fault) Unwrap() error { return f.Err }

// ExitError is the error of a command that ran and exited other than 0.
type ExitError struct{ Code int }

func (e *ExitError) Error() string { return "exit status " + strconv.Itoa(e.Code) }

// ExitCode is as of exec.ExitError.
func (e *ExitError) ExitCode() int { return e.Code }

// Job is what Submit is told.
type Job struct {
	Name      string // "job"
	User      string // "root"
	UID       int
	Account   string
	Partition string // the cloud partition
	Nodes     int    // whole nodes; 1
	Script    string // text of the batch script
	Comment   string
	Requeue   bool
	Duration  time.Duration // of the work; 0: until Exit or Cancel
	ExitCode  int           // when the work is done

	// OnStart is called in its own goroutine each time the batch script starts.
	OnStart func(id uint32, restarts int)
	// OnSignal is called in its own goroutine for each scancel --signal to the
	// running job, with the signal's name without SIG. It may call Checkpoint and Exit.
	OnSignal func(id uint32, signal string)
}

// JobInfo is a job's present state.
type JobInfo struct {
	ID           uint32
	State        string // PENDING, CONFIGURING, RUNNING, COMPLETING, COMPLETED, …
	Reason       string
	Restarts     int
	Nodes        []string
	AdminComment string
	ExitCode     int
	Begin        time.Time // not started before
	Start, End   time.Time // of the present or last run
	Signals      []string  // names without SIG
}

// Call is one command that was run.
type Call struct {
	Name string
	Args []string
	At   time.Time
}

// Change is one step in a node's history.
type Change struct {
	State string // as scontrol prints it: "IDLE+CLOUD+POWERING_UP"
	At    time.Time
}

// Controller is the simulated slurmctld. Its methods may be called
// concurrently, also from the hooks.
type Controller struct {
	opt Options
	mu  sync.Mutex
}

// New makes a cluster whose cloud nodes are powered down. Nothing happens in
// time before Serve.
func New(o Options) *Controller { panic("slurmtest: not built yet") }

// Serve lets time pass for the controller until ctx ends.
func (c *Controller) Serve(ctx context.Context) { panic("slurmtest: not built yet") }

// Run carries out one command line; it makes Controller a slurm.Runner.
func (c *Controller) Run(ctx context.Context, name string, args ...string) (stdout, stderr []byte, err error) {
	panic("slurmtest: not built yet")
}

// Submit queues a job and returns its id.
func (c *Controller) Submit(j Job) uint32 { panic("slurmtest: not built yet") }

// Cancel ends a job as scancel does.
func (c *Controller) Cancel(id uint32) { panic("slurmtest: not built yet") }

// Exit ends a running job's batch script with code.
func (c *Controller) Exit(id uint32, code int) { panic("slurmtest: not built yet") }

// Checkpoint saves a running job's work: its next run needs only the rest.
func (c *Controller) Checkpoint(id uint32) { panic("slurmtest: not built yet") }

// Register is a slurmd's registration, booted just now. It tells whether the
// node is usable after it.
func (c *Controller) Register(node string) bool { panic("slurmtest: not built yet") }

// RegisterBooted is Register by a slurmd on a host that booted at boot.
func (c *Controller) RegisterBooted(node string, boot time.Time) bool {
	panic("slurmtest: not built yet")
}

// Lost says that a node's slurmd no longer answers.
func (c *Controller) Lost(node string) { panic("slurmtest: not built yet") }

// Down stops the controller: commands fail, nothing changes. Up starts it
// again with the state it had saved.
func (c *Controller) Down() { panic("slurmtest: not built yet") }
func (c *Controller) Up()   { panic("slurmtest: not built yet") }

// LoseResume makes the controller die between marking nodes as powering up and
// calling ResumeProgram: the next call is not made, and never repeated.
func (c *Controller) LoseResume() { panic("slurmtest: not built yet") }

// Node returns a node's state as scontrol prints it, and Addr its address.
func (c *Controller) Node(name string) string { panic("slurmtest: not built yet") }
func (c *Controller) Addr(name string) string { panic("slurmtest: not built yet") }

// History returns a node's states since New, oldest first.
func (c *Controller) History(node string) []Change { panic("slurmtest: not built yet") }

// Info returns a job's state; ok is false when it is not known (any more).
func (c *Controller) Info(id uint32) (JobInfo, bool) { panic("slurmtest: not built yet") }

// Calls returns the commands run so far, and Count how many of their lines
// ("scontrol update nodename=…") begin with prefix.
func (c *Controller) Calls() []Call           { panic("slurmtest: not built yet") }
func (c *Controller) Count(prefix string) int { panic("slurmtest: not built yet") }
