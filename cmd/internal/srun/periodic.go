package srun

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/burst-hpc/burst/ft/ckpt"
)

const (
	// patience is how long a periodic checkpoint may take.
	patience = 30 * time.Minute
	// firstAuto is when the first checkpoint of interval=auto is taken at the latest:
	// what it costs decides on the others, and on whether one fits before a deadline.
	firstAuto = 10 * time.Minute
)

// periodic takes checkpoints until ctx ends.
func (r *runner) periodic(ctx context.Context) {
	for {
		every, last := r.patient(r.interval()), r.latest()
		timer := time.NewTimer(time.Until(ckpt.Next(last, every, rand.Float64())))
		if every <= 0 {
			timer.Stop() // none pays: unless the advice changes
		}
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-r.advice:
			timer.Stop()
			continue
		case <-timer.C:
		}
		if !r.regularly(ctx) {
			return
		}
	}
}

// wishes takes those checkpoints that the application asks for, until ctx ends. The next
// periodic one is the later for it.
func (r *runner) wishes(ctx context.Context, asked <-chan struct{}) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-asked:
		}
		if !r.regularly(ctx) {
			return
		}
		r.lookAgain()
	}
}

// regularly takes a checkpoint after which the step goes on, of which nobody waits for
// word. False: ctx has ended.
func (r *runner) regularly(ctx context.Context) bool {
	if r.young(ctx) != nil {
		return false
	}
	began := time.Now()
	limit, cancel := context.WithTimeout(ctx, patience)
	g, err := r.take(limit, false)
	cancel()
	ended := time.Now()
	r.mu.Lock()
	r.regular = ended
	if err == nil {
		r.early = 0
	}
	r.mu.Unlock()
	switch {
	case err == nil && r.burstd != nil:
		r.burstd.Report(answerOf(g))
	case err == nil, ctx.Err() != nil, errors.Is(err, ckpt.ErrFinishing), errors.Is(err, ckpt.ErrSuperseded), errors.Is(err, ckpt.ErrYielded):
	default:
		r.complain("checkpoint", err)
		r.mu.Lock()
		r.failed, r.vain = r.failed+1, ended.Sub(began)
		r.mu.Unlock()
	}
	return true
}

// latest is when the last such checkpoint ended, or the step began.
func (r *runner) latest() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.regular
}

// patient is twice the interval for each time that the step, before it had made a
// checkpoint, died of the signal for one: it takes longer to begin.
func (r *runner) patient(every time.Duration) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return every << r.early
}

// interval is the time between periodic checkpoints now; 0: none.
func (r *runner) interval() time.Duration {
	if r.merged.Interval > 0 {
		return r.merged.Interval
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	every, between := r.advised, ckpt.Rate{}.Between(r.job.Nodes)
	if every <= 0 {
		every = ckpt.Interval(cmp.Or(r.took, ckpt.GuessedCost), between, 0)
	}
	if r.took == 0 && every > 0 {
		every = min(every, firstAuto)
	}
	return ckpt.Again(every, r.vain, between, r.failed)
}

// youngest is how old a step is at its first checkpoint by a method that freezes its
// processes: MPI hangs that is frozen while its ranks find each other. A restarted one
// has that behind it.
const youngest = 20 * time.Second

// young waits until the step is old enough for a checkpoint. An error: not before ctx
// ends.
func (r *runner) young(ctx context.Context) error {
	if !freezes(r.merged) {
		return nil
	}
	r.mu.Lock()
	from, ended, age := r.from, r.ended, time.Since(r.started)
	r.mu.Unlock()
	if from != nil {
		return nil
	}
	timer := time.NewTimer(youngest - age)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ended: // which whoever takes one is told
	case <-ctx.Done():
		return fmt.Errorf("the step has not run for %s, before which ckpt=%s takes no checkpoint: %w", youngest, r.merged.Method, context.Cause(ctx))
	}
	return nil
}

// advise has burstd's word on the interval.
func (r *runner) advise(every time.Duration) {
	r.mu.Lock()
	r.advised = every
	r.mu.Unlock()
	r.lookAgain()
}

// lookAgain has periodic reckon anew when the next one is due.
func (r *runner) lookAgain() {
	select {
	case r.advice <- struct{}{}:
	default: // it is looked at anyway
	}
}
