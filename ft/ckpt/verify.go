package ckpt

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
)

// Verify reads a generation whole and compares it with its manifest. A
// *DamageError says that it is not what was written; any other error, that it could
// not be read now, or is of another cluster. Files that the manifest does not name
// are passed over.
func (f *Folder) Verify(ctx context.Context, id ID) (Generation, error) {
	dir := dirOf(id)
	g, err := f.manifest(id)
	if err == nil {
		err = f.read(id)
	}
	if err == nil {
		if !f.view {
			f.putModes(dir, g.Files)
		}
		err = forEach(ctx, len(g.Files), func(ctx context.Context, i int) error {
			return verifyFile(ctx, f.root, dir, g.Files[i])
		})
	}
	if err = f.unlessGone(dir, err); err == nil {
		f.good[id] = true
	} else {
		delete(f.good, id)
	}
	return g, err
}

// verifyFile compares one file with what the manifest says of it.
func verifyFile(ctx context.Context, root *os.Root, dir string, want File) error {
	file, err := openRegular(root, path.Join(dir, want.Name))
	if err != nil {
		return damagedIfMissing(err, root, dir, want.Name)
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	size, sum := info.Size(), ""
	if size == want.Size {
		size, sum, err = hashed(ctx, file)
	}
	switch {
	case err != nil:
		return fmt.Errorf("%s: %w", absOf(root, path.Join(dir, want.Name)), err)
	case size != want.Size:
		return &DamageError{absOf(root, dir), want.Name, fmt.Sprintf("it has %d bytes and had %d", size, want.Size)}
	case sum != want.SHA256:
		return &DamageError{absOf(root, dir), want.Name, "its SHA-256 is not the one that was written"}
	}
	return nil
}

// putModes gives files the permission bits that they were written with. Some file
// systems have none; a file that cannot be read for its mode is found when it is read.
func (f *Folder) putModes(dir string, files []File) {
	for _, want := range files {
		name := path.Join(dir, want.Name)
		if info, err := f.root.Lstat(name); err == nil && info.Mode().IsRegular() && uint32(info.Mode().Perm()) != want.Mode {
			_ = f.root.Chmod(name, info.Mode()&^0o777|fs.FileMode(want.Mode))
		}
	}
}

// Choice is what a step restarts from.
type Choice struct {
	From *Generation // nil: there is none, and the step starts from its beginning
	// Passed are newer ones that were not taken, each with Why.
	Passed []Entry
}

// Newest chooses the generation that this attempt restarts from: the newest of
// those that count which is whole to its last byte. Damaged ones are set aside. It
// is held against every Prune until Release or Close. If none is whole, but some
// could not be read now, that is an error: the step is not begun anew for it. So is one
// of a later version of Burst that is newer than all of these: to go on from an older one
// would undo what was done by it.
func (f *Folder) Newest(ctx context.Context) (Choice, error) {
	return f.choose(ctx, func(ID) bool { return true })
}

// Older is Newest among those before a generation from which the step did not
// start. That one is let go.
func (f *Folder) Older(ctx context.Context, than ID) (Choice, error) {
	f.Release()
	return f.choose(ctx, func(id ID) bool { return id.Before(than) })
}

// Only is Newest for a step that restarts together with others, which have all chosen
// this one. The zero ID: none. No other is taken in its place: if it is not whole, that
// is an error. From now on Prune leaves it, and deletes what is newer of earlier attempts.
func (f *Folder) Only(ctx context.Context, id ID) (Choice, error) {
	c, err := f.choose(ctx, func(i ID) bool { return i == id })
	switch {
	case err != nil:
		return c, err
	case c.From == nil && id != ID{}:
		why := errGone
		for _, e := range c.Passed {
			why = e.Why
		}
		return c, fmt.Errorf("%v, from which the other parts of the job start too, cannot be used: %w", id, why)
	}
	f.only = &id
	return c, nil
}

func (f *Folder) choose(ctx context.Context, may func(ID) bool) (Choice, error) {
	var c Choice
	if err := f.superseded(); err != nil {
		return c, err
	}
	all, err := f.List(ctx)
	if err != nil {
		return c, err
	}
	var unread []error
	for _, e := range all {
		if !may(e.ID) {
			continue
		}
		if e.State == Good || e.State == Damaged { // what the list saw of it may be old
			g, err := f.take(ctx, e.ID)
			if err == nil {
				c.From = &g
				return c, nil
			}
			if ctx.Err() != nil {
				return c, context.Cause(ctx)
			}
			if errors.Is(err, errGone) {
				continue
			}
			e.State, e.Why = StateOf(err), err
		}
		switch e.State {
		case Damaged:
			e.Why = errors.Join(e.Why, f.setAside(e.ID, e.Why))
		case Unreadable:
			if errors.Is(e.Why, ErrLater) {
				return c, fmt.Errorf("%w: start the step with that version, or delete the folder to do without it", e.Why)
			}
			unread = append(unread, e.Why)
		case Late, Foreign:
		default:
			continue // it was told when it was set aside, or never was one
		}
		c.Passed = append(c.Passed, e)
	}
	if len(unread) > 0 {
		return c, fmt.Errorf("no checkpoint can be read now, and the step is not begun anew for that: %w", errors.Join(unread...))
	}
	return c, nil
}

// take holds and verifies a generation.
func (f *Folder) take(ctx context.Context, id ID) (Generation, error) {
	if err := f.hold(id); err != nil {
		return Generation{}, err
	}
	g, err := f.Verify(ctx, id)
	if err != nil {
		f.Release()
	}
	return g, err
}

// setAside renames a damaged generation, so that it is never chosen, and says why
// in it. It stays for its user until there are enough newer good ones.
func (f *Folder) setAside(id ID, why error) error {
	if f.view {
		return nil
	}
	dir := dirOf(id) + badSuffix
	if err := f.root.Rename(dirOf(id), dir); err != nil {
		return fmt.Errorf("setting it aside: %w", err)
	}
	if err := f.fault("set aside"); err != nil {
		return err
	}
	// The reason is for people: a full disk must not end a restart here.
	_ = writeTemp(f.root, path.Join(dir, whyName), fmt.Appendf(nil, "%.*s\n", maxWord-1, why))
	return syncDir(f.root, attemptName(id.Attempt))
}
