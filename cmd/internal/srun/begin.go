package srun

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/burst-hpc/burst/cmd/internal/steprecord"
	"github.com/burst-hpc/burst/ft/ckpt"
)

// plainError says that the method does not start the step, of which there is no
// checkpoint: srun may.
type plainError struct{ error }

func (e plainError) Unwrap() error { return e.error }

// begin starts the step from the newest good generation, else an older one, else
// from the beginning.
func (r *runner) begin(ctx context.Context) error {
	r.slot <- struct{}{} // an order that comes meanwhile waits
	defer func() { <-r.slot }()
	if r.parts != nil {
		return r.beginTogether(ctx)
	}
	if err := r.await(ctx); err != nil {
		return err
	}
	choice, err := r.folder.Newest(ctx)
	if err != nil {
		return r.isCut(err)
	}
	r.tell(choice)
	from, none := choice.From, choice.From == nil
	seen := slices.ContainsFunc(choice.Passed, func(e ckpt.Entry) bool { return !e.ID.Before(r.recorded) })
	if none && r.recorded != (ckpt.ID{}) && !seen && r.step == nil && !r.folder.Cleared() {
		return fmt.Errorf("%v is on record, and not in %s: is the folder's file system mounted here? The step is not begun anew for that; %s", r.recorded, r.folder.Path(), anew(r.job))
	}
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
		if none {
			return plainError{err}
		}
		r.say("the step does not start from %v: %v", from.ID(), err)
		failed := err
		if choice, err = r.folder.Older(ctx, from.ID()); err != nil {
			return err
		}
		r.tell(choice)
		if from = choice.From; from == nil {
			return fmt.Errorf("the step starts from none of its checkpoints, and is not begun anew for that: they stay in %s: %w; %s", r.folder.Path(), failed, anew(r.job))
		}
	}
}

// isCut notes that the step cannot begin because a later attempt has.
func (r *runner) isCut(err error) error {
	if errors.Is(err, ckpt.ErrSuperseded) {
		r.mu.Lock()
		r.cut = true
		r.mu.Unlock()
	}
	return err
}

// tell says which generations were passed over.
func (r *runner) tell(c ckpt.Choice) {
	for _, e := range c.Passed {
		r.say("%v (%s) is not used: %v", e.ID, e.State, e.Why)
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

const (
	// seenTime is how long a generation that burstd has on record is waited for: a
	// network file system may not show at once what another node has written.
	seenTime = 90 * time.Second
	seenLook = 3 * time.Second
)

// await waits until the generation that burstd had on record before this attempt
// is to be seen, in whatever state.
func (r *runner) await(ctx context.Context) error {
	said := false
	for end := time.Now().Add(seenTime); r.recorded != (ckpt.ID{}); {
		all, err := r.folder.List(ctx)
		if err != nil || r.folder.Cleared() || slices.ContainsFunc(all, func(e ckpt.Entry) bool { return !e.ID.Before(r.recorded) }) {
			return err
		}
		if time.Now().After(end) {
			r.say("%v is on record, but not there", r.recorded)
			return nil
		}
		if !said {
			r.say("%v is on record, and not to be seen on this node yet: it is waited for", r.recorded)
			said = true
		}
		if !pause(ctx, seenLook) {
			return context.Cause(ctx)
		}
	}
	return nil
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
	r.step, r.from, r.started, r.ended, r.halted = s, from, time.Now(), make(chan struct{}), time.Time{}
	if from != nil && r.took == 0 && from.Took < patience {
		r.took = max(0, from.Took) // until there is one of this attempt
	}
	if again {
		r.stats.Restarts++
		r.stats.Lost += lostWork(was, from)
		r.stats.LostIterations += was.Behind
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
func lostWork(was steprecord.Step, from *ckpt.Generation) time.Duration {
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
