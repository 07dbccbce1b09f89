package srun

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/burst-hpc/burst/ft/ckpt"
)

// plainError says that the method does not start the step, though from the
// beginning: srun may.
type plainError struct{ error }

func (e plainError) Unwrap() error { return e.error }

// begin starts the step from the newest good generation, else an older one, else
// from the beginning.
func (r *runner) begin(ctx context.Context) error {
	r.slot <- struct{}{} // an order that comes meanwhile waits
	defer func() { <-r.slot }()
	choice, err := r.folder.Newest(ctx)
	if errors.Is(err, ckpt.ErrSuperseded) {
		r.mu.Lock()
		r.cut = true
		r.mu.Unlock()
	}
	if err != nil {
		return err
	}
	for _, e := range choice.Passed {
		r.say("%v (%s) is not used: %v", e.ID, e.State, e.Why)
	}
	from := choice.From
	for {
		if err := r.fits(from); err != nil {
			return err
		}
		l := r.launch
		l.From = from
		s, err := r.method.Start(ctx, l)
		if err == nil {
			r.began(s, from)
			return nil
		}
		if ctx.Err() != nil {
			return err
		}
		if from == nil {
			return plainError{err}
		}
		r.say("the step does not start from %v: %v", from.ID(), err)
		if from, err = r.older(ctx, from.ID()); err != nil {
			return err
		}
	}
}

// fits says why a generation cannot be used here. It is no reason to begin anew.
func (r *runner) fits(from *ckpt.Generation) error {
	if from == nil {
		return nil
	}
	if from.Method != r.merged.Method {
		return fmt.Errorf("%v was made by ckpt=%s, and ckpt=%s is asked for now: ask for that again, or delete %s", from.ID(), from.Method, r.merged.Method, r.folder.Path())
	}
	if err := from.Machine.Fits(r.machine); err != nil {
		return fmt.Errorf("%v cannot be restarted on this node: %w", from.ID(), err)
	}
	return nil
}

// older is the newest good generation before id; nil: there is none.
func (r *runner) older(ctx context.Context, id ckpt.ID) (*ckpt.Generation, error) {
	all, err := r.folder.List(ctx)
	if err != nil {
		return nil, err
	}
	for _, e := range all {
		if e.State != ckpt.Good || !e.Before(id) {
			continue
		}
		g, err := r.folder.Verify(ctx, e.ID)
		if err == nil {
			return &g, nil
		}
		if ctx.Err() != nil {
			return nil, err
		}
		r.say("%v is not used: %v", e.ID, err)
	}
	return nil, nil
}

// began notes that the step runs, and says from what.
func (r *runner) began(s ckpt.Step, from *ckpt.Generation) {
	r.mu.Lock()
	again := r.step != nil || r.was.Name != ""
	was := r.was
	if r.step != nil { // it ended a moment ago, here
		was = r.entry
		was.Ended = r.halted
	}
	r.step, r.ended, r.halted = s, make(chan struct{}), time.Time{}
	if again {
		r.stats.Restarts++
		r.stats.Lost += lostWork(was, from)
	}
	r.mu.Unlock()
	switch {
	case from == nil && again:
		r.say("there is no checkpoint: step %s starts from its beginning", r.name)
	case from != nil:
		at := ""
		if from.Iteration >= 0 {
			at = fmt.Sprintf(", iteration %d", from.Iteration)
		}
		r.say("step %s restarts from %v (%s old%s)", r.name, from.ID(), shortly(time.Since(from.Began)), at)
	}
}

// lostWork is what the life before had done after the generation: work that is
// done again. An attempt that was ended without a word is counted elsewhere.
func lostWork(was entry, from *ckpt.Generation) time.Duration {
	if was.Ended.IsZero() {
		return 0
	}
	if from != nil && from.Stopped && from.Attempt == was.Attempt && was.Ended.Before(from.Began.Add(from.Took+sealTime)) {
		return 0 // else it went on after it had been stopped
	}
	since := was.Began
	if from != nil && from.Began.After(since) {
		since = from.Began
	}
	return max(0, was.Ended.Sub(since))
}
