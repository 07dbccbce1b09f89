package ckpt

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
)

// State of what lies in a step's folder.
type State string

const (
	// Good: the manifest is whole, and its files are there in their sizes. Verify
	// reads them.
	Good State = "good"
	// Late: of an attempt that had been cut off when it was written; never used,
	// whole or not.
	Late State = "late"
	// Foreign: of another cluster's job; never used, never deleted.
	Foreign State = "foreign"
	// Damaged: not what was written.
	Damaged State = "damaged"
	// Aside: damaged, and set aside when a restart found it so.
	Aside State = "aside"
	// Unfinished: being written, or left by a writer that died.
	Unfinished State = "unfinished"
	// Unreadable: it could not be read now, or by this version of Burst; that says
	// nothing of what it is.
	Unreadable State = "unreadable"
)

// Entry is one generation, or what might have become one.
type Entry struct {
	ID
	Dir      string // absolute
	State    State
	Why      error    // nil if State is Good
	Manifest Manifest // without its Files; zero if it is not known
	Files    int
	Bytes    int64
}

// maxGenerations is more than a step ever has at once.
const maxGenerations = 10_000

// List says what is in the step's folder, newest first. It looks at the files'
// sizes, not into them.
func (f *Folder) List(ctx context.Context) ([]Entry, error) {
	attempts, err := f.attempts()
	if err != nil {
		return nil, fmt.Errorf("listing checkpoints: %w", err)
	}
	var all []Entry
	for _, a := range attempts {
		c, err := f.contents(a)
		if err != nil {
			return nil, fmt.Errorf("listing checkpoints: %w", err)
		}
		if len(all)+c.count() > maxGenerations {
			return nil, fmt.Errorf("checkpoint folder %s has over %d generations", f.root.Name(), maxGenerations)
		}
		for _, n := range c.whole {
			id := ID{a, n}
			e, err := f.look(ctx, id)
			if err != nil {
				return nil, err
			}
			if e.State != "" {
				all = append(all, e)
			}
		}
		for _, n := range c.bad {
			all = append(all, f.aside(ID{a, n}))
		}
		for _, n := range c.part {
			id := ID{a, n}
			all = append(all, Entry{ID: id, Dir: absOf(f.root, dirOf(id)+partSuffix), State: Unfinished, Why: errors.New("it is being written, or its writer has died")})
		}
	}
	slices.SortStableFunc(all, func(a, b Entry) int { return newestFirst(a.ID, b.ID) })
	return all, nil
}

// look says what a generation is; no State: it has gone meanwhile. An error is
// ctx's alone.
func (f *Folder) look(ctx context.Context, id ID) (Entry, error) {
	e := Entry{ID: id, Dir: absOf(f.root, dirOf(id))}
	g, err := f.Check(ctx, id)
	if ctx.Err() != nil {
		return e, context.Cause(ctx)
	}
	e.Bytes, e.Files, e.Manifest = g.Bytes(), len(g.Files), g.Manifest
	e.Manifest.Files = nil
	e.State, e.Why = StateOf(err), err
	if errors.Is(err, errGone) {
		return Entry{}, nil
	}
	if e.State != Foreign && f.late(id) { // whatever else it is
		e.State = Late
		if e.Why = errLate; errors.Is(err, ErrLater) {
			e.Why = fmt.Errorf("%w; %w", errLate, err)
		}
	}
	return e, nil
}

// StateOf is the state of a generation of which Check or Verify say err.
func StateOf(err error) State {
	var damage *DamageError
	switch {
	case err == nil:
		return Good
	case errors.As(err, &damage):
		return Damaged
	case errors.Is(err, errForeign):
		return Foreign
	}
	return Unreadable
}

// aside is the entry of one that was set aside.
func (f *Folder) aside(id ID) Entry {
	dir := dirOf(id) + badSuffix
	e := Entry{ID: id, Dir: absOf(f.root, dir), State: Aside, Why: errors.New("it was damaged, and set aside")}
	if why, err := readBounded(f.root, path.Join(dir, whyName), maxWord); err == nil && len(why) > 0 {
		e.Why = fmt.Errorf("set aside: %q", why)
	}
	if m, err := readManifest(f.root, dir); err == nil {
		e.Files, e.Bytes = len(m.Files), Generation{Manifest: m}.Bytes()
		m.Files = nil
		e.Manifest = m
	}
	return e
}

var (
	// errGone: the generation was there a moment ago, and another process has
	// deleted it or set it aside.
	errGone    = errors.New("it is not there any more")
	errForeign = errors.New("it is of another cluster's job")
	errLate    = errors.New("its attempt had been cut off when it was written")
)

// Check reads a generation's manifest and looks at its files' sizes. A
// *DamageError says that it is not what was written; any other error, that it could
// not be read now, or is of another cluster.
func (f *Folder) Check(ctx context.Context, id ID) (Generation, error) {
	g, err := f.manifest(id)
	if err == nil {
		err = f.sizes(ctx, dirOf(id), g.Files)
	}
	return g, f.unlessGone(dirOf(id), err)
}

// manifest reads a generation's manifest.
func (f *Folder) manifest(id ID) (Generation, error) {
	dir := dirOf(id)
	g := Generation{Dir: absOf(f.root, dir)}
	if err := f.isFolder(dir); err != nil {
		return g, err
	}
	m, err := readManifest(f.root, dir)
	if err != nil {
		return g, err
	}
	g.Manifest = m
	return g, f.belongs(m, id)
}

func (f *Folder) isFolder(dir string) error {
	if info, err := f.root.Lstat(dir); err == nil && !info.IsDir() {
		return &DamageError{absOf(f.root, dir), ".", "it is not a folder"}
	}
	return nil
}

// unlessGone makes errGone of what was found of a generation that is being deleted.
func (f *Folder) unlessGone(dir string, err error) error {
	if err == nil {
		return nil
	}
	if _, lerr := f.root.Lstat(dir); errors.Is(lerr, fs.ErrNotExist) {
		return fmt.Errorf("checkpoint %s: %w", absOf(f.root, dir), errGone)
	}
	return err
}

// belongs says whether a manifest is of the place where it lies.
func (f *Folder) belongs(m Manifest, id ID) error {
	if f.o.Cluster != "" && m.Cluster != "" && m.Cluster != f.o.Cluster {
		return fmt.Errorf("checkpoint %s: %w: cluster %s, job %s", absOf(f.root, dirOf(id)), errForeign, m.Cluster, m.Job)
	}
	if m.Attempt != id.Attempt || m.N != id.N || m.Job != f.o.Job || m.Step != f.o.Step {
		return &DamageError{absOf(f.root, dirOf(id)), manifestName, fmt.Sprintf(
			"it is %s of job %s step %s, which does not belong here", ID{m.Attempt, m.N}, m.Job, m.Step)}
	}
	return nil
}

// sizes compares files with a manifest.
func (f *Folder) sizes(ctx context.Context, dir string, files []File) error {
	return forEach(ctx, len(files), func(_ context.Context, i int) error {
		want := files[i]
		info, err := f.root.Lstat(path.Join(dir, want.Name))
		switch {
		case err != nil:
			return damagedIfMissing(err, f.root, dir, want.Name)
		case !info.Mode().IsRegular():
			return damagedIfMissing(errNotRegular, f.root, dir, want.Name)
		case info.Size() != want.Size:
			return &DamageError{absOf(f.root, dir), want.Name, fmt.Sprintf("it has %d bytes and had %d", info.Size(), want.Size)}
		}
		return nil
	})
}
