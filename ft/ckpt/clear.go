package ckpt

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"syscall"
	"time"
)

// tidy deletes what dead writers and dead deleters of this attempt and of earlier
// ones have left.
func (f *Folder) tidy(ctx context.Context) error {
	attempts, err := f.attempts()
	if err != nil {
		return err
	}
	var errs []error
	for _, a := range attempts {
		if a > f.o.Attempt {
			break
		}
		errs = append(errs, f.tidyAttempt(ctx, a))
	}
	return errors.Join(errs...)
}

func (f *Folder) tidyAttempt(ctx context.Context, attempt int) error {
	c, err := f.contents(attempt)
	if err != nil {
		return err
	}
	var errs []error
	for _, name := range c.trash {
		errs = append(errs, f.remove(path.Join(attemptName(attempt), name)))
	}
	for _, name := range c.records {
		name = path.Join(attemptName(attempt), name)
		if info, err := f.root.Lstat(name); err == nil && time.Since(info.ModTime()) > quietFree {
			errs = append(errs, f.root.Remove(name))
		}
	}
	for _, name := range c.scratch {
		errs = append(errs, f.tidyScratch(attempt, name))
	}
	for _, n := range c.part {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		errs = append(errs, f.discardIfDead(attempt, path.Join(attemptName(attempt), lockName), dirOf(ID{attempt, n})+partSuffix))
	}
	return errors.Join(errs...)
}

// discard deletes a generation's folder: first its name, in one step, so that no
// part of it is ever taken for the whole.
func (f *Folder) discard(dir string) error {
	trash, err := f.trash(dir)
	if err != nil || trash == "" {
		return err
	}
	return f.remove(trash)
}

// trash renames a folder for removeAll; empty: another process was first.
func (f *Folder) trash(dir string) (string, error) {
	trash := path.Join(path.Dir(dir), fmt.Sprintf("%s%s-%d", trashPrefix, path.Base(dir), time.Now().UnixNano()))
	switch err := f.root.Rename(dir, trash); {
	case errors.Is(err, fs.ErrNotExist):
		return "", nil
	case errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT):
		// A full file system that has no room for a name either.
		if err := f.root.Remove(path.Join(dir, manifestName)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", fmt.Errorf("deleting a checkpoint: %w", err)
		}
		return dir, nil
	case err != nil:
		return "", fmt.Errorf("deleting a checkpoint: %w", err)
	}
	return trash, f.fault("trash")
}

// discardIfDead deletes what lies in an attempt's dir if nobody writes on it. The
// lock is not held while files are deleted: a writer that begins waits only so long.
func (f *Folder) discardIfDead(attempt int, lockFile, dir string) error {
	lock, dead, err := f.abandoned(attempt, lockFile, dir)
	trash := ""
	if err == nil && dead {
		trash, err = f.trash(dir)
	}
	if lock != nil {
		err = errors.Join(err, lock.Close())
	}
	if err != nil || trash == "" {
		return err
	}
	return f.remove(trash)
}

// remove deletes what has lost its name, now or later.
func (f *Folder) remove(dir string) error {
	if f.later {
		f.rest = append(f.rest, dir)
		return nil
	}
	return removeAll(f.root, dir)
}

// removeAll deletes a folder, with folders in it that were made read-only.
func removeAll(root *os.Root, dir string) error {
	err := root.RemoveAll(dir)
	if errors.Is(err, fs.ErrPermission) {
		// What cannot be changed is told by the second try.
		_ = fs.WalkDir(root.FS(), dir, func(name string, d fs.DirEntry, err error) error {
			if err == nil && d.IsDir() {
				err = root.Chmod(name, 0o700)
			}
			return err
		})
		err = root.RemoveAll(dir)
	}
	if err != nil {
		return fmt.Errorf("deleting %s: %w", absOf(root, dir), err)
	}
	return nil
}
