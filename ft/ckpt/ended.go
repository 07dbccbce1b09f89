package ckpt

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"time"
)

// clearedName is a file in a step's folder: its generations were deleted because it
// is done, and are not merely not to be seen.
const clearedName = "cleared"

// Finish leaves one good generation of a step that has ended well, and that a later
// attempt of its job would start again. The others lose their names: Rest deletes them.
func (f *Folder) Finish(ctx context.Context) error {
	f.o.Keep, f.later = 1, true
	_, err := f.Prune(ctx)
	return err
}

// Clear leaves no generation of a step that has ended well, and is not started again by
// any attempt of its job. Those of a later Burst, or of another cluster, stay. They lose
// their names: Rest deletes them.
func (f *Folder) Clear(ctx context.Context) error {
	if err := f.superseded(); err != nil {
		return err
	}
	marked := f.mark()
	f.Release()
	f.later = true
	all, err := f.List(ctx)
	if err != nil {
		return err
	}
	var errs []error
	for _, e := range all {
		if e.State == Foreign || e.State == Unfinished || errors.Is(e.Why, ErrLater) {
			continue
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err := f.delete(e); !errors.Is(err, errHeld) {
			errs = append(errs, err)
		}
	}
	errs = append(errs, f.tidy(ctx))
	if marked != nil {
		errs = append(errs, f.Rest()())
		marked = f.mark() // there is room now
	}
	return errors.Join(errors.Join(errs...), marked)
}

// Later has what is deleted from now on only lose its name: Rest deletes it.
func (f *Folder) Later() { f.later = true }

// Rest returns what deletes what has lost its name since Later, or in Finish or Clear. It
// may take long, and go on beside any use of the folder; RemoveTrash deletes what it has not.
func (f *Folder) Rest() func() error {
	root, rest := f.root, f.rest
	f.rest, f.later = nil, false
	return func() error {
		var errs []error
		for _, dir := range rest {
			errs = append(errs, removeAll(root, dir))
		}
		return errors.Join(errs...)
	}
}

// RemoveTrash deletes what has lost its name in the folder of a job, which is this
// user's own, and was not deleted before its process ended.
func RemoveTrash(ctx context.Context, dir, job string) error {
	root, err := ViewJob(dir, job)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer root.Close()
	steps, err := foldersOf(root, ".", "step-")
	errs := []error{err}
	for _, step := range steps {
		step = "step-" + step
		attempts, err := foldersOf(root, step, "attempt-")
		errs = append(errs, err)
		for _, attempt := range attempts {
			attempt = path.Join(step, "attempt-"+attempt)
			names, err := namesIn(root, attempt)
			errs = append(errs, err)
			for _, name := range names {
				if ctx.Err() != nil {
					return context.Cause(ctx)
				}
				if strings.HasPrefix(name, trashPrefix) {
					errs = append(errs, removeAll(root, path.Join(attempt, name)))
				}
			}
		}
	}
	return errors.Join(errs...)
}

func (f *Folder) mark() error {
	err := writeTemp(f.root, clearedName, nil)
	if err == nil {
		err = syncDir(f.root, ".")
	}
	return err
}

// Cleared says whether Clear has been here.
func (f *Folder) Cleared() bool {
	info, err := f.root.Lstat(clearedName)
	return err == nil && info.Mode().IsRegular()
}

const (
	jobPrefix = "job-"
	goneTrash = trashPrefix + jobPrefix
)

// RemoveJob deletes the folder of a job, with all that is in it, once Slurm does not
// know the job any more: nothing starts its steps again. It must be this user's own,
// except for root. What a later Burst wrote is not deleted: ErrLater.
func RemoveJob(ctx context.Context, dir, job string) error {
	if err := validWord("job", job); err != nil {
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return fmt.Errorf("checkpoint directory: %w", err)
	}
	defer root.Close()
	if err := mayRemove(ctx, root, job); err != nil {
		return fmt.Errorf("checkpoint directory: %w", err)
	}
	trash := fmt.Sprintf("%s%s-%d", goneTrash, job, time.Now().UnixNano())
	switch err := root.Rename(jobPrefix+job, trash); {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("deleting the checkpoints of job %s: %w", job, err)
	}
	return removeAll(root, trash)
}

// mayRemove says why a job's folder may not be deleted.
func mayRemove(ctx context.Context, root *os.Root, job string) error {
	name := jobPrefix + job
	info, err := root.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case !info.IsDir():
		return fmt.Errorf("%s is not a folder", absOf(root, name))
	}
	if os.Geteuid() != 0 {
		if err := owned(root, name, info); err != nil {
			return err
		}
	}
	steps, err := foldersOf(root, name, "step-")
	if err != nil {
		return err
	}
	for _, step := range steps {
		f, err := View(Options{Dir: root.Name(), Job: job, Step: step})
		if err != nil {
			return err
		}
		all, err := f.List(ctx)
		if err = errors.Join(err, f.Close()); err != nil {
			return err
		}
		if slices.ContainsFunc(all, func(e Entry) bool { return errors.Is(e.Why, ErrLater) }) {
			return fmt.Errorf("%s: %w: delete the folder by hand", absOf(root, name), ErrLater)
		}
	}
	return nil
}

// RemoveRest deletes what a RemoveJob that was killed has left in a directory. What
// is another user's stays.
func RemoveRest(dir string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return fmt.Errorf("checkpoint directory: %w", err)
	}
	defer root.Close()
	names, err := namesIn(root, ".")
	if err != nil {
		return fmt.Errorf("checkpoint directory: %w", err)
	}
	var errs []error
	for _, name := range names {
		if !strings.HasPrefix(name, goneTrash) {
			continue
		}
		if err := removeAll(root, name); err != nil && !errors.Is(err, fs.ErrPermission) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
