// Package slurmtest is a simulated slurmctld for tests of what talks to Slurm
// through scontrol, squeue and scancel. It keeps nodes and jobs in memory,
// prints them as Slurm 22.05 does, and follows its power saving: allocation of
// powered-down nodes, ResumeProgram, registration, timeouts, requeue with its
// hold, suspension. All time goes through package time, so that a bubble of
// testing/synctest runs hours in milliseconds.
//
// It follows what slurmctld 22.05.8 was seen to do; where it is simpler:
// nodes are allocated whole, but for jobs that say their CPUs, a job that cannot start never keeps a later one
// waiting, there are no arrays, steps, or limits, and a job requeued while
// CONFIGURING has no "Cleaning" phase.
package slurmtest

import (
	"cmp"
	"strconv"
	"time"
)

// Options shape the simulated cluster. A zero duration takes the default.
type Options struct {
	Nodes     []string // cloud nodes, in partition Partition
	OnPrem    []string // ordinary nodes, up and idle, in partition "onprem"
	Servers   []string // cloud nodes in partition "servers", which takes no jobs and has SuspendTime=INFINITE
	Partition string   // of the cloud nodes; "cloud"
	Features  []string // of the cloud nodes; none: jobs may ask for any
	CPUs      int      // of every node; 2
	Memory    int      // of every node, MiB; 1000

	SuspendTime    time.Duration // idle before suspension; 10 min
	SuspendTimeout time.Duration // POWERING_DOWN until POWERED_DOWN; 30 s
	ResumeTimeout  time.Duration // POWERING_UP until DOWN; 60 s
	SlurmdTimeout  time.Duration // no answer until NOT_RESPONDING, DOWN after twice as long; 300 s
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
	// Gate is called in its own goroutine when a job's nodes are up, as a
	// PrologSlurmctld: the job starts when it returns. nil: at once.
	Gate func(id uint32)
	// NewResumeFile writes SLURM_RESUME_FILE's content as Slurm 23.02 does.
	NewResumeFile bool

	// ResetAddr sets NodeAddr and NodeHostName back to the node's name when it is
	// POWERED_DOWN, as SlurmctldParameters=cloud_reg_addrs does. Without it
	// slurmctld keeps what was set.
	ResetAddr bool

	// Config is more of what scontrol show config prints.
	Config map[string]string

	// The programs that slurmctld calls, each call in its own goroutine; nil: none.
	OnResume     func(hostlist, resumeFile string) // resumeFile is the JSON text
	OnSuspend    func(hostlist string)
	OnResumeFail func(hostlist string)

	// Fail is asked before each command, with the command line joined by
	// spaces. A *Fault says what goes wrong; any other error is the command's
	// result and nothing is done.
	Fail func(cmd string) error
}

func (o Options) withDefaults() Options {
	o.Partition = cmp.Or(o.Partition, "cloud")
	o.CPUs = cmp.Or(o.CPUs, 2)
	o.Memory = cmp.Or(o.Memory, 1000)
	o.SuspendTime = cmp.Or(o.SuspendTime, 10*time.Minute)
	o.SuspendTimeout = cmp.Or(o.SuspendTimeout, 30*time.Second)
	o.ResumeTimeout = cmp.Or(o.ResumeTimeout, time.Minute)
	o.SlurmdTimeout = cmp.Or(o.SlurmdTimeout, 5*time.Minute)
	o.MinJobAge = cmp.Or(o.MinJobAge, 5*time.Minute)
	o.Hold = cmp.Or(o.Hold, 121*time.Second)
	o.Interval = cmp.Or(o.Interval, time.Second)
	o.Completing = cmp.Or(o.Completing, 500*time.Millisecond)
	return o
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

// ExitError is the error of a command that ran and exited other than 0. Like
// *exec.ExitError it has a method ExitCode.
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
	Nodes     int    // 1
	CPUs      int    // of each node, which others may share; 0: all of them
	Script    string // text of the batch script
	Comment   string
	Features  string // of --constraint, with & and |; any node will do where Options.Features has none
	Requeue   bool
	Salloc    bool          // it has no script: it ends where others are requeued
	Duration  time.Duration // of the work; 0: until Exit or Cancel
	TimeLimit time.Duration // which Slurm shows, and does not hold the job to; 0: none
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
	State string // as scontrol prints it: "IDLE+CLOUD+POWERED_DOWN"
	At    time.Time
}
