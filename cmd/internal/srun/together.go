package srun

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/burst-hpc/burst/cmd/internal/steprecord"
	"github.com/burst-hpc/burst/ft/ckpt"
	"github.com/burst-hpc/burst/ft/session"
)

// Where the components of a heterogeneous job run in steps of their own, these are
// checkpointed together or not at all: all are stopped by one order, and what they
// were stopped with in one attempt is a set. They restart from the newest set that is
// whole, or all from the beginning. The job's folder alone decides; the first part of an
// attempt to know it writes it into the attempt's record, and the others follow.

// components of the heterogeneous job that the step runs on; nil: it is none.
func (f facts) components() []int {
	if f.job.Components == 0 || f.garbled != nil {
		return nil
	}
	all, err := f.call.Components()
	if err != nil {
		return nil // srun says what is wrong
	}
	return all
}

// isPart says that other components of the job run in other steps.
func (f facts) isPart() bool {
	n := len(f.components())
	return n > 0 && n < f.job.Components
}

// parts are what a part knows of the others.
type parts struct {
	book   steprecord.Book
	size   int
	onDisk ckpt.Options       // of a step, but for its name
	blest  map[string]ckpt.ID // what burstd has on record: it may not be to be seen yet
	retry  func(look func() error) error
	say    func(format string, args ...any)
}

func (p *program) parts(ctx context.Context, k known) *parts {
	s := &parts{book: k.book(k.dir), size: k.job.Components, blest: map[string]ckpt.ID{}, say: p.say,
		onDisk: ckpt.Options{Dir: k.dir, Cluster: k.job.Cluster, Job: k.job.Folder()},
		retry:  func(look func() error) error { return p.patiently(ctx, k, look) }}
	for name := range k.word.Blessed {
		if id := k.onRecord(name); id != (ckpt.ID{}) {
			s.blest[name] = id
		}
	}
	return s
}

// whole says why a checkpoint of this and the other parts is worth nothing now.
func (s *parts) whole(kind session.Kind) error {
	if s == nil {
		return nil
	}
	if kind != session.Stop {
		return errors.New("the steps of a heterogeneous job are checkpointed only when it is to be requeued")
	}
	r, _, err := s.book.Peek()
	if err == nil {
		var names []string
		names, err = members(r, s.size, isDoneIn(r))
		for _, e := range r.Steps {
			if err == nil && slices.Contains(names, e.Name) && !e.Runs {
				err = fmt.Errorf("step %s has not begun, or has failed", e.Name)
			}
		}
	}
	if err != nil {
		return fmt.Errorf("the job's components are checkpointed together or not at all: %w", err)
	}
	return nil
}

func isDoneIn(r steprecord.Record) func(string) bool {
	return func(name string) bool {
		return slices.ContainsFunc(r.Steps, func(e steprecord.Step) bool { return e.Name == name && e.Done })
	}
}

// choose is the generation of a step that it restarts from in this attempt; zero: it
// begins anew.
func (s *parts) choose(ctx context.Context, step string) (ckpt.ID, error) {
	if s.book.Attempt == 0 {
		return ckpt.ID{}, nil
	}
	said := false
	for end := time.Now().Add(seenTime); ; {
		var c steprecord.Choice
		var passed []string
		var unseen string
		err := s.retry(func() (err error) {
			passed = nil
			c, unseen, err = s.newest(ctx, func(why string) { passed = append(passed, why) })
			return err
		})
		late := time.Now().After(end)
		switch {
		case err != nil:
			return ckpt.ID{}, err
		case unseen != "" && late && c.From < 0:
			return ckpt.ID{}, fmt.Errorf("%s is on record, and not in %s: is the folder's file system mounted here? The step is not begun anew for that", unseen, s.book.Dir)
		case unseen == "" || late:
			if c, err = s.agree(ctx, c, func() {
				for _, why := range passed {
					s.say("%s", why)
				}
			}); err != nil {
				return ckpt.ID{}, err
			}
			if n := c.Set[step]; n > 0 {
				return ckpt.ID{Attempt: c.From, N: n}, nil
			}
			return ckpt.ID{}, nil
		case !said:
			s.say("%s is on record, and not to be seen on this node yet: it is waited for", unseen)
			said = true
		}
		if !pause(ctx, seenLook) {
			return ckpt.ID{}, context.Cause(ctx)
		}
	}
}

// agree makes c the attempt's choice and tells of it, unless another part was first.
func (s *parts) agree(ctx context.Context, c steprecord.Choice, tell func()) (steprecord.Choice, error) {
	first := false
	err := s.book.Change(ctx, func(r *steprecord.Record) error {
		have, ok := r.Chosen()
		if first = !ok; ok {
			c = have
			return nil
		}
		r.Sets = append(r.Sets, c)
		return nil
	})
	if err == nil && first {
		tell()
	}
	return c, err
}

// beginTogether is begin for a part: it starts from what all parts have chosen, or not.
func (r *runner) beginTogether(ctx context.Context) error {
	id, err := r.parts.choose(ctx, r.name)
	if err != nil {
		return fmt.Errorf("%w; %s", err, anew(r.job))
	}
	choice, err := r.folder.Only(ctx, id)
	if err != nil {
		return r.isCut(err)
	}
	if err := r.fits(choice.From); err != nil {
		return err
	}
	l := r.launch
	l.From = choice.From
	s, err := r.method.Start(ctx, l)
	switch {
	case err == nil:
	case ctx.Err() != nil:
		return err
	case choice.From == nil && r.job.Attempt == 0:
		return plainError{err}
	case choice.From == nil:
		return err
	default:
		return fmt.Errorf("the step does not start from %v, from which the job's other components go on, and takes no other for that: %w; %s", id, err, anew(r.job))
	}
	r.began(s, choice.From)
	r.mu.Lock()
	r.entry.Runs = true
	e := r.entry
	r.mu.Unlock()
	r.note(e)
	if _, err := r.folder.Prune(ctx); err != nil && ctx.Err() == nil {
		r.complain(notDeleted, err)
	}
	return nil
}
