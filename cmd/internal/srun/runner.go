package srun

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/burst-hpc/burst/cmd/internal/steprecord"
	"github.com/burst-hpc/burst/ft/ckpt"
	"github.com/burst-hpc/burst/ft/ckpt/methods"
	"github.com/burst-hpc/burst/ft/session"
	"github.com/burst-hpc/burst/slurm/directive"
	"github.com/burst-hpc/burst/slurm/step"
)

// CutOff is the exit code of a step whose job goes on elsewhere: EX_TEMPFAIL.
const CutOff = 75

// runner runs one protected step.
//
//	choose a generation -> start -> runs -> ended by itself     -> its exit code
//	     ^    ^                      |  \-> a later attempt runs -> 75
//	     |    \---- its tool died ---/  \-> stopped for burstd   -> waits for the requeue -> 75
//	     \------------- not requeued, and Slurm has it running ------------/
type runner struct {
	job     step.Job
	name    string // of the step
	merged  directive.Merged
	method  ckpt.Method
	folder  *ckpt.Folder
	machine ckpt.Machine // zero: generations are no images of processes
	launch  ckpt.Launch  // without From
	burstd  *session.Client
	parts   *parts // nil: the step is no part of a heterogeneous job
	loss    *lossWatch
	say     func(format string, args ...any)
	runs    func(context.Context) error // why Slurm does not say that this attempt runs; nil: it says so
	note    func(steprecord.Step)       // writes down how far the step is
	entry   steprecord.Step             // of the record; its stats are those before this attempt
	was     steprecord.Step             // of the attempt before; no name: there was none
	// recorded is what burstd had on record before this attempt; zero: nothing, or it
	// is not known.
	recorded ckpt.ID

	slot chan struct{} // full while folder and step are used for a checkpoint

	mu        sync.Mutex
	step      ckpt.Step
	from      *ckpt.Generation // which step was started from
	started   time.Time        // when step was
	ended     chan struct{}    // of step
	stopped   time.Time        // the step was ended by us, to be requeued by then; zero: it was not
	halting   time.Time        // when we began to end it
	halted    time.Time        // when it ended
	cut       bool             // a later attempt runs
	took      time.Duration    // by the last checkpoint; 0: there was none
	stats     steprecord.Stats // of this attempt
	advised   time.Duration
	advice    chan struct{}    // has a value when the next periodic one may be due at another time
	regular   time.Time        // when the last one that nobody waited for ended, or the step began
	delivered ckpt.ID          // the newest that burstd has on record by this attempt
	failure   string           // of the last checkpoint that failed
	failed    int              // periodic ones in a row
	early     int              // in a row died of the signal for a checkpoint
	vain      time.Duration    // that the last of them took
	iteration int64            // of the last checkpoint of this attempt
	saved     *ckpt.Generation // that checkpoint; nil: there is none
	ending    bool             // the end of the job, or of its attempt, has been told, or is ours
	told      telling
	final     *steprecord.Step // how the step has ended; nil: it has not
	cost      string           // of the job so far, as burstd says at the step's end
}

// run sees the step, which begin has started, to its end, and returns its exit code.
func (r *runner) run(ctx context.Context, signals <-chan os.Signal) int {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	told := make(chan time.Time, 1)
	wg.Go(func() { r.pass(ctx, signals, told) })
	for {
		code := r.life(ctx)
		r.mu.Lock()
		stopped, cut := r.stopped, r.cut
		r.mu.Unlock()
		switch {
		case cut:
			r.say("a later attempt of job %d has begun: this one is over", r.job.ID)
			return CutOff
		case stopped.IsZero():
			return code
		case !r.wait(ctx, stopped, told) || !r.goOn(ctx, told):
			return CutOff
		}
	}
}

// mostLosses is how often in a row a step is started again in place whose tool
// died, without a checkpoint between.
const mostLosses = 3

// life waits for the step that has been started, and starts it again if its
// method has lost it.
func (r *runner) life(ctx context.Context) int {
	for losses := 0; ; losses++ {
		made := r.made()
		code, err := r.watch(ctx)
		if err == nil {
			return code
		}
		if r.made() > made {
			losses = 0
		}
		if code == 0 {
			code = 1
		}
		r.say("%v", err)
		if !errors.Is(err, methods.ErrLost) || losses >= mostLosses || r.parts != nil || !r.over().IsZero() || ctx.Err() != nil {
			return code
		}
		if errors.Is(err, methods.ErrEarly) && !r.diedEarly() {
			return code
		}
		if err := r.begin(ctx); err != nil {
			r.say("%v", err)
			return code
		}
	}
}

// diedEarly counts a step that died of the signal for its checkpoint. False: the job
// ends, which may have been that signal.
func (r *runner) diedEarly() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.early++
	return !r.ending
}

// current is the step that runs, or ran last.
func (r *runner) current() (ckpt.Step, chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.step, r.ended
}

func (r *runner) made() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.stats.Checkpoints
}

// over says by when a step that we have ended is to be requeued; zero: we have not.
func (r *runner) over() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.cut {
		return time.Now()
	}
	return r.stopped
}

// watch waits for the end of the step and takes its periodic checkpoints, and those that
// it asks for.
func (r *runner) watch(ctx context.Context) (int, error) {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	r.mu.Lock()
	r.regular = time.Now()
	r.mu.Unlock()
	running, ended := r.current()
	if r.merged.Periodical() && r.parts == nil {
		wg.Go(func() { r.periodic(ctx) })
	}
	if a, ok := running.(ckpt.Asker); ok && r.parts == nil {
		wg.Go(func() { r.wishes(ctx, a.Asked()) })
	}
	code, err := running.Wait()
	code, lost := r.loss.judge(code, r.job)
	r.mu.Lock()
	if r.halted = time.Now(); lost != "" && r.stopped.IsZero() {
		defer r.say("%s", lost)
	}
	r.mu.Unlock()
	close(ended)
	cancel()
	wg.Wait()
	// An order that is being carried out sees the end, and says whether it was its own.
	r.slot <- struct{}{}
	<-r.slot
	return code, err
}

// pass has the step get the signals that this process gets. Those that say the
// job's end are told on by the time at which they came.
func (r *runner) pass(ctx context.Context, signals <-chan os.Signal, told chan time.Time) {
	shares := methods.SharesTerminal(r.launch.Stdin)
	for {
		select {
		case <-ctx.Done():
			return
		case s := <-signals:
			if s == syscall.SIGPIPE {
				continue // it is of our own writing
			}
			switch s {
			case syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT:
				r.jot()
				select {
				case <-told: // the last one counts
				default:
				}
				told <- time.Now()
			}
			if shares && slices.Contains([]os.Signal{syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTSTP}, s) {
				continue // the terminal has sent it to the step too
			}
			running, _ := r.current()
			if err := running.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
				r.say("signal %v: %v", s, err)
			}
		}
	}
}

// jot writes down how far the step is, in case no later word comes.
func (r *runner) jot() {
	r.mu.Lock()
	r.ending = true
	e := r.entry
	e.Stats, e.Ended = r.total(), time.Now().UTC()
	if !r.stopped.IsZero() && !r.halted.IsZero() {
		e.Ended = r.halted.UTC()
	}
	r.mu.Unlock()
	r.note(e)
}

// total is what all attempts have done. The lock is held.
func (r *runner) total() steprecord.Stats {
	a, b, end := r.entry.Stats, r.stats, time.Now()
	if !r.stopped.IsZero() && !r.halted.IsZero() {
		end = r.halted // since then it waits to be requeued
	}
	return steprecord.Stats{Ran: a.Ran + end.Sub(r.entry.Began), Checkpoints: a.Checkpoints + b.Checkpoints, Writing: a.Writing + b.Writing,
		Restarts: a.Restarts + b.Restarts, Lost: a.Lost + b.Lost, LostUnknown: a.LostUnknown + b.LostUnknown,
		LostIterations: a.LostIterations + b.LostIterations}
}

// askAgain is the time between two questions to a Slurm that does not answer.
const askAgain = time.Minute

// wait waits until Slurm ends the job to requeue it: to return would have the
// script go on as if the step were done. True: it has not, in time.
func (r *runner) wait(ctx context.Context, by time.Time, told <-chan time.Time) bool {
	r.jot()
	r.say("the step is ended, and waits for its job to be requeued")
	timer := time.NewTimer(time.Until(by) + session.WaitTime + rand.N(askAgain)) // others began to wait when it did
	defer timer.Stop()
	r.mu.Lock()
	since := r.halting
	r.mu.Unlock()
	for {
		select {
		case at := <-told:
			if at.Before(since) {
				continue // the step bore it
			}
			if shell := r.job.Shell; shell != 0 && shell != os.Getpid() {
				outlive(ctx, "/proc", os.Getppid(), shell)
			}
		case <-timer.C:
			return true
		case <-ctx.Done():
		}
		return false
	}
}

// goOn starts the step again, here, when the job has not been requeued and its
// nodes are still there: burstd may have died in between. Only Slurm's word that
// this very attempt runs on counts; a node that is cut off does not get it.
func (r *runner) goOn(ctx context.Context, told <-chan time.Time) bool {
	err, said := r.runs(ctx), false
	for err != nil && !errors.Is(err, errNotRunning) && ctx.Err() == nil { // nobody has said that the job is over
		if !said {
			r.say("the job was not requeued in time, and Slurm does not answer (%v): it is waited for", err)
			said = true
		}
		select {
		case <-told:
			return false
		case <-time.After(askAgain/2 + rand.N(askAgain)):
		case <-ctx.Done():
		}
		err = r.runs(ctx)
	}
	if err != nil {
		r.say("the job was not requeued in time (%v): `scontrol requeue %d` restarts it from its checkpoint", err, r.job.ID)
		return false
	}
	if r.parts != nil { // the others need not start again
		r.say("the job was not requeued in time, and its steps restart together or not at all: `scontrol requeue %d` restarts them from their checkpoints", r.job.ID)
		return false
	}
	r.say("the job was not requeued in time, and runs on: so does the step")
	r.mu.Lock()
	r.stopped = time.Time{}
	r.mu.Unlock()
	if err := r.begin(ctx); err != nil {
		r.say("%v", err)
		return false
	}
	return true
}

// finish writes down the step's end and says the summary.
func (r *runner) finish(code int) {
	e := r.outcome(code)
	if r.over().IsZero() {
		r.note(e)
	}
	if r.cost != "" {
		r.say("%s", r.cost)
	}
	r.say("%s", summary(r.job, e, r.unsaved(code)))
}
