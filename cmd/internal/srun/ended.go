package srun

import (
	"context"
	"errors"
	"os"
	"slices"
	"syscall"
	"time"

	"github.com/burst-hpc/burst/cmd/internal/steprecord"
)

// endTime bounds what is done between the end of a step and that of burst-srun: the
// job's nodes are idle.
const endTime = 5 * time.Second

// ended deletes what the generations of a step are not needed for any more that has
// ended well: all, if it is not run again; else a requeue of its job starts it again, and
// one stays until Slurm does not know the job any more. They lose their names here; what
// of their files there is no time for is deleted by a later step of the job, or a sweep.
// A signal, which srun would have been ended by, ends the wait.
func (p *program) ended(ctx context.Context, k known, r *runner, signals <-chan os.Signal) {
	if r.final == nil || !r.final.Done || !r.over().IsZero() || r.merged.KeepAfter || k.trial != nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, endTime)
	defer cancel()
	go untilSignal(ctx, cancel, signals)
	finish := r.folder.Finish
	if k.once != "" && k.isDone(r.name) {
		finish = r.folder.Clear
	}
	err := finish(ctx)
	gone := make(chan error, 1)
	rest := r.folder.Rest()
	go func() { gone <- rest() }()
	select {
	case rerr := <-gone:
		err = errors.Join(err, rerr)
	case <-ctx.Done():
	}
	if err != nil {
		p.say("checkpoints that are not needed any more are not deleted: %v", err)
	}
}

// untilSignal calls stop at the first signal that ends a process.
func untilSignal(ctx context.Context, stop func(), signals <-chan os.Signal) {
	for {
		select {
		case <-ctx.Done():
			return
		case s := <-signals:
			if s != syscall.SIGPIPE && s != syscall.SIGCONT {
				stop()
				return
			}
		}
	}
}

// isDone says whether it is on disk that a step has ended well.
func (k known) isDone(name string) bool {
	r, _, err := k.book(k.dir).Peek()
	return err == nil && slices.ContainsFunc(r.Steps, func(e steprecord.Step) bool { return e.Name == name && e.Done })
}
