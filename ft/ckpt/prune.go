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

// Surplus says what Prune would delete now, newest first.
func (f *Folder) Surplus(ctx context.Context) ([]Entry, error) {
	return f.surplusBy(ctx, time.Now())
}

// surplusBy is Surplus where good ones that were not whole by then keep no older one
// from staying.
func (f *Folder) surplusBy(ctx context.Context, then time.Time) ([]Entry, error) {
	all, err := f.List(ctx)
	if err != nil {
		return nil, err
	}
	for {
		gone := f.surplus(all, then)
		bad, err := f.backed(ctx, all, gone)
		if err != nil || bad < 0 {
			return gone, err
		}
		all[bad].State = Damaged
	}
}

// surplus of entries, newest first: good ones beyond the kept number, and what never
// counts once it has so many good ones after it. The blessed one stays, and the one
// that the step restarted from.
func (f *Folder) surplus(all []Entry, then time.Time) []Entry {
	var gone []Entry
	good := 0
	for _, e := range all {
		keep := good < f.o.Keep
		switch e.State {
		case Good:
			keep = keep || f.only == nil && e.Manifest.Together // whether the others are whole is not known
			if f.passed(e.ID) {
				keep = false
			} else if m := e.Manifest; !m.Began.Add(m.Took).After(then) {
				good++
			}
		case Late:
			keep = false
		case Damaged, Aside:
		default:
			keep = true // Unfinished ones are tidy's
		}
		if !keep && e.ID != f.used && (f.only == nil || e.ID != *f.only) && (f.o.Blessed == nil || e.ID != *f.o.Blessed) && !errors.Is(e.Why, ErrLater) {
			gone = append(gone, e)
		}
	}
	return gone
}

// passed says that the step has restarted from an older generation, since others that
// restart with it had none to go with this one.
func (f *Folder) passed(id ID) bool {
	return f.only != nil && *f.only != ID{} && id.Attempt < f.o.Attempt && f.only.Before(id)
}

// backed makes sure that there is one that is whole to its last byte when good ones
// are to be deleted: sizes alone prove little. It returns the index of one that looked
// good and is not, or -1.
func (f *Folder) backed(ctx context.Context, all, gone []Entry) (int, error) {
	going := map[ID]bool{}
	deletes := false
	for _, e := range gone {
		going[e.ID] = true
		deletes = deletes || e.State == Good
	}
	if !deletes {
		return -1, nil
	}
	for i, e := range all {
		if e.State != Good || going[e.ID] {
			continue
		}
		if f.good[e.ID] {
			return -1, nil
		}
		_, err := f.Verify(ctx, e.ID)
		var damage *DamageError
		switch {
		case err == nil:
			return -1, nil
		case errors.As(err, &damage):
			return i, nil
		}
		return -1, fmt.Errorf("nothing is pruned while the newest checkpoint cannot be read: %w", err)
	}
	return -1, nil
}

// Prune deletes what is surplus, and what dead writers have left, and returns what
// it deleted, with what it could not delete as the error. Its place is after Bless:
// the generation that burstd has on record must not go before the next one is.
func (f *Folder) Prune(ctx context.Context) ([]Entry, error) {
	return f.prune(ctx, time.Now(), func(Entry) bool { return true })
}

// seenEverywhere is after how long other nodes see what one has written: file systems
// have them believe for up to a minute or so what they saw before.
const seenEverywhere = 5 * time.Minute

// PruneAlone is Prune while burstd does not answer. This node may be cut off, and a
// later attempt begin from the newest generation of this moment, before its folder is to
// be seen here: so only those go that have enough good ones after them which have been
// there for some minutes.
func (f *Folder) PruneAlone(ctx context.Context) ([]Entry, error) {
	return f.prune(ctx, time.Now().Add(-seenEverywhere), func(Entry) bool { return true })
}

// makeRoom prunes before there is a newer generation. burstd may have on record
// any good one since the last that it is known to have: those stay, but for what
// PruneAlone deletes.
func (f *Folder) makeRoom(ctx context.Context) error {
	_, _ = f.PruneAlone(ctx) // what fails there fails again
	_, err := f.prune(ctx, time.Now(), func(e Entry) bool {
		return e.State != Good || f.o.Blessed != nil && e.Before(*f.o.Blessed)
	})
	return err
}

func (f *Folder) prune(ctx context.Context, then time.Time, may func(Entry) bool) ([]Entry, error) {
	if err := f.superseded(); err != nil {
		return nil, err
	}
	untidy := f.tidy(ctx)
	gone, err := f.surplusBy(ctx, then)
	if err != nil {
		return nil, errors.Join(err, untidy)
	}
	var done []Entry
	errs := []error{untidy}
	for _, e := range gone {
		if !may(e) {
			continue
		}
		if ctx.Err() != nil {
			errs = append(errs, context.Cause(ctx))
			break
		}
		// An attempt that is cut off must not delete what the next one starts from.
		if err := f.superseded(); err != nil {
			errs = append(errs, err)
			break
		}
		switch err := f.delete(e); {
		case err == nil:
			done = append(done, e)
		case !errors.Is(err, errHeld):
			errs = append(errs, err)
		}
	}
	return done, errors.Join(errs...)
}

// delete deletes one generation: errHeld if a step restarts from it.
func (f *Folder) delete(e Entry) error {
	dir := dirOf(e.ID)
	if e.State == Aside {
		return f.discard(dir + badSuffix)
	}
	name := path.Join(dir, manifestName)
	if info, err := f.root.Lstat(name); errors.Is(err, fs.ErrNotExist) || err == nil && !info.Mode().IsRegular() {
		return f.discard(dir) // no step restarts from it
	}
	lock, err := f.root.OpenFile(name, os.O_RDWR|syscall.O_NONBLOCK, 0)
	if err != nil {
		return fmt.Errorf("deleting a checkpoint: %w", err)
	}
	if err := lockWhole(lock); err != nil {
		return errors.Join(err, lock.Close())
	}
	return errors.Join(f.discard(dir), lock.Close())
}

// Bless says that burstd has this generation on record as the last good one.
func (f *Folder) Bless(id ID) {
	if f.o.Blessed == nil || f.o.Blessed.Before(id) {
		f.o.Blessed = &id
	}
}
