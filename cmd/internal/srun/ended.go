package srun

import (
	"context"
	"slices"
	"sync"
)

// notes returns what writes down how far a step is. That it cannot is said once.
func (b book) notes(ctx context.Context, say func(string, ...any)) func(entry) {
	var told sync.Once
	return func(e entry) {
		err := b.change(context.WithoutCancel(ctx), func(r *record) error {
			if i := slices.IndexFunc(r.Steps, func(s entry) bool { return s.Name == e.Name }); i >= 0 {
				r.Steps[i] = e
			}
			return nil
		})
		if err != nil {
			told.Do(func() { say("what became of step %s is not recorded: %v", e.Name, err) })
		}
	}
}

// ended deletes what the generations of a step are not needed for any more that has
// ended well: all, if it is not run again; else a requeue of its job starts it again, and
// one stays until Slurm does not know the job any more.
func (p *program) ended(ctx context.Context, k known, r *runner) {
	if r.final == nil || !r.final.Done || !r.over().IsZero() || r.merged.KeepAfter || k.trial != nil {
		return
	}
	var err error
	if k.once != "" && k.isDone(r.name) {
		err = r.folder.Clear(ctx)
	} else {
		err = r.folder.Finish(ctx)
	}
	if err != nil {
		p.say("checkpoints that are not needed any more are not deleted: %v", err)
	}
}

// isDone says whether it is on disk that a step has ended well.
func (k known) isDone(name string) bool {
	r, _, err := k.book(k.dir).peek()
	return err == nil && slices.ContainsFunc(r.Steps, func(e entry) bool { return e.Name == name && e.Done })
}
