package srun

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"github.com/burst-hpc/burst/cmd/internal/steprecord"
	"github.com/burst-hpc/burst/ft/ckpt"
)

// members are the parts whose generations make up the set of an attempt, by the record
// of it. Those that had ended before the others began are none, nor those that are not run
// again. An error says why it has no set; none and no error: it ran no part.
func members(r steprecord.Record, size int, isDone func(string) bool) (names []string, err error) {
	ran := func(e steprecord.Step) bool { return len(e.Components) > 0 && e.Attempt == r.Attempt }
	var began time.Time // the first of those that have not ended well
	for _, e := range r.Steps {
		if ran(e) && !e.Done && (began.IsZero() || e.Began.Before(began)) {
			began = e.Began
		}
	}
	covered := map[int]bool{}
	for _, e := range r.Steps {
		forGood := steprecord.Named(e) && isDone(e.Name)
		if !ran(e) && !forGood {
			continue
		}
		for _, c := range e.Components {
			covered[c] = true
		}
		switch {
		case forGood, len(e.Components) >= size, e.Done && !e.Ended.After(began):
		case e.Done:
			err = fmt.Errorf("step %s has ended, and would begin anew (--once NAME keeps it from that)", e.Name)
		default:
			names = append(names, e.Name)
		}
	}
	for c := range size {
		if !covered[c] && err == nil && len(names) > 0 {
			err = fmt.Errorf("component %d runs in no step that is protected", c)
		}
	}
	return names, err
}

// newest is the newest set that is whole. What an attempt has passed over, no later
// one takes: it may have come late. unseen is what burstd has on record of an attempt
// that had none, and that is not there.
func (s *parts) newest(ctx context.Context, pass func(why string)) (c steprecord.Choice, unseen string, err error) {
	c = steprecord.Choice{Attempt: s.book.Attempt, From: -1}
	now, _, err := s.book.Peek()
	if err != nil {
		return c, "", err
	}
	if have, ok := now.Chosen(); ok {
		return have, "", nil
	}
	for a := s.book.Attempt - 1; a >= 0; a-- {
		if slices.ContainsFunc(now.Sets, func(c steprecord.Choice) bool { return c.From < a && a < c.Attempt }) {
			continue
		}
		set, why, err := s.set(ctx, now, a)
		switch {
		case err != nil:
			return c, "", err
		case why == nil && len(set) > 0:
			c.From, c.Set = a, set
			return c, unseen, nil
		case why != nil:
			pass(fmt.Sprintf("the checkpoints of attempt %d are not used, for the job's components restart together or not at all: %v", a, why))
		}
		for step, id := range s.blest {
			if id.Attempt == a && !s.seen(ctx, step, id) {
				unseen = fmt.Sprintf("%v of step %s", id, step)
			}
		}
	}
	return c, unseen, nil
}

// set is what an attempt's parts were stopped with, by step; why says why it is not
// whole. An error says that this is not known.
func (s *parts) set(ctx context.Context, now steprecord.Record, attempt int) (set map[string]int, why, err error) {
	r, there, err := s.book.At(attempt)
	if err != nil || !there {
		return nil, nil, err
	}
	names, why := members(r, s.size, isDoneIn(now))
	set = map[string]int{}
	for _, name := range names {
		if why != nil {
			break
		}
		var n int
		if n, why, err = s.member(ctx, name, attempt); err != nil {
			return nil, nil, err
		}
		set[name] = n
	}
	return set, why, nil
}

// member is the generation that a step was stopped with in an attempt, whole to its last
// byte.
func (s *parts) member(ctx context.Context, step string, attempt int) (n int, why, err error) {
	why = fmt.Errorf("step %s has none", step)
	f, err := s.view(step)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, why, nil
	}
	if err != nil {
		return 0, nil, err
	}
	defer f.Close()
	all, err := f.List(ctx)
	if err != nil {
		return 0, nil, err
	}
	for _, e := range all {
		if e.Attempt != attempt {
			continue
		}
		if e.State == ckpt.Good && e.Manifest.Stopped && e.Manifest.Together {
			if _, e.Why = f.Verify(ctx, e.ID); e.Why == nil {
				return e.N, nil, nil
			}
			e.State = ckpt.StateOf(e.Why)
		}
		switch e.State {
		case ckpt.Unreadable:
			return 0, nil, fmt.Errorf("whether the job's components restart from attempt %d cannot be known now, and they are not begun anew for that: %w", attempt, e.Why)
		case ckpt.Damaged, ckpt.Aside, ckpt.Late, ckpt.Foreign:
			why = fmt.Errorf("%v of step %s (%s): %w", e.ID, step, e.State, e.Why)
		}
	}
	return 0, why, nil
}

func (s *parts) view(step string) (*ckpt.Folder, error) {
	o := s.onDisk
	o.Step = step
	return ckpt.View(o)
}

// seen says whether a generation is there, in whatever state, or a newer one, or was
// deleted because the step is done.
func (s *parts) seen(ctx context.Context, step string, id ckpt.ID) bool {
	f, err := s.view(step)
	if err != nil {
		return false
	}
	defer f.Close()
	all, err := f.List(ctx)
	return f.Cleared() || err == nil && slices.ContainsFunc(all, func(e ckpt.Entry) bool { return !e.ID.Before(id) })
}
