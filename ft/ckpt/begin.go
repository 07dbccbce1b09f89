package ckpt

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"syscall"
	"time"
)

// What counts of earlier attempts.
//
// A node that is cut off goes on computing, and its attempt's generations may
// appear long after the next attempt has begun. So each attempt, when it begins and
// before it restarts anything, writes down its cut: the newest generation of earlier
// attempts that counts from now on: the newest whole one on disk, or the one that
// burstd has on record if that is newer and not to be seen yet. Generations of an
// attempt a that are after the cut of any later attempt b are late, and not used by
// b or by any attempt after b:
//
//	attempt 0:  1  2  3 [4] 5  6      4 was the newest; 5 and 6 come late
//	attempt 1:          cut=(0,4)  5  6 [7]
//	attempt 2:                       cut=(1,7)  8
//
// A generation that burstd has not on record counts too: while burstd is away a step
// goes on writing them. The record of an attempt is never changed.

// begun is an attempt's record of its beginning.
type begun struct {
	Cut     ID        `json:"cut"`
	Blessed bool      `json:"blessed"` // by burstd's word, not by what was on disk
	At      time.Time `json:"at"`
	Host    string    `json:"host"`
	Origin
}

// begin makes the attempt's folder and its record.
func (f *Folder) begin(ctx context.Context) error {
	if err := f.clearEarlierJob(); err != nil {
		return err
	}
	if err := f.superseded(); err != nil {
		return err
	}
	// makeRoom must know what is late, in a folder without room for a new attempt.
	if err := f.readCuts(); err != nil {
		return err
	}
	// What cannot be deleted now does not keep a step from running: Prune tries
	// again, and returns the error.
	_ = f.tidy(ctx)
	err := f.beginAttempt(ctx)
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		// A step must be able to restart in a full folder.
		if perr := f.makeRoom(ctx); perr != nil {
			return errors.Join(f.explain(err, 0), perr)
		}
		err = f.beginAttempt(ctx)
	}
	return f.explain(err, 0)
}

func (f *Folder) beginAttempt(ctx context.Context) error {
	switch err := f.root.Mkdir(attemptName(f.o.Attempt), 0o700); {
	case err == nil:
		if err := syncDir(f.root, "."); err != nil {
			return err
		}
	case !errors.Is(err, fs.ErrExist):
		return err
	}
	if err := f.fault("attempt made"); err != nil {
		return err
	}
	if err := f.readCuts(); err != nil {
		return err
	}
	if _, ok := f.cuts[f.o.Attempt]; ok {
		return nil
	}
	cut, err := f.newestEarlier(ctx)
	if err != nil {
		return err
	}
	if err := f.record(begun{cut, f.o.Blessed != nil, time.Now().UTC(), hostname(), f.o.Identity.Origin}); err != nil {
		return err
	}
	if err := f.fault("begun"); err != nil {
		return err
	}
	return f.readCuts()
}

// superseded returns ErrSuperseded when a later attempt is known.
func (f *Folder) superseded() error {
	if b := f.o.Blessed; b != nil && b.Attempt > f.o.Attempt {
		return fmt.Errorf("this is attempt %d: %w: %s is the last good one", f.o.Attempt, ErrSuperseded, *b)
	}
	attempts, err := f.attempts()
	if err != nil {
		return err
	}
	if n := len(attempts); n > 0 && attempts[n-1] > f.o.Attempt {
		return fmt.Errorf("this is attempt %d: %w: %s is there", f.o.Attempt, ErrSuperseded, attemptName(attempts[n-1]))
	}
	return nil
}

// newestEarlier is the cut of an attempt that begins now.
func (f *Folder) newestEarlier(ctx context.Context) (ID, error) {
	disk, err := f.newestOnDisk(ctx)
	if b := f.o.Blessed; err == nil && b != nil && b.Attempt < f.o.Attempt && disk.Before(*b) {
		return *b, nil // a network file system shows it in a while
	}
	return disk, err
}

func (f *Folder) newestOnDisk(ctx context.Context) (ID, error) {
	all, err := f.List(ctx)
	if err != nil {
		return ID{}, err
	}
	for _, e := range all {
		// What cannot be read now may be good: it must not become late for that.
		if (e.State == Good || e.State == Unreadable) && e.Attempt < f.o.Attempt {
			return e.ID, nil
		}
	}
	return ID{}, nil
}

// record writes the attempt's record, once: of two processes that open the same
// attempt the first one's stands.
func (f *Folder) record(b begun) error {
	text, err := json.MarshalIndent(b, "", "  ")
	if err != nil {
		return err
	}
	own := attemptName(f.o.Attempt)
	temp := path.Join(own, fmt.Sprintf(".%s-%d-%d", begunName, os.Getpid(), time.Now().UnixNano()))
	name := path.Join(own, begunName)
	if err := writeTemp(f.root, temp, append(text, '\n')); err != nil {
		return errors.Join(err, f.root.Remove(temp))
	}
	err = f.root.Link(temp, name)
	switch {
	case err == nil || errors.Is(err, fs.ErrExist):
		err = f.root.Remove(temp)
	case errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.ENOTSUP) || errors.Is(err, syscall.ENOSYS) || errors.Is(err, syscall.EMLINK):
		err = f.root.Rename(temp, name) // no hard links here
	}
	if err != nil {
		return err
	}
	return syncDir(f.root, own)
}

// readCuts reads the records of the attempts up to this one. An attempt without
// one died before it began anything.
func (f *Folder) readCuts() error {
	attempts, err := f.attempts()
	if err != nil {
		return err
	}
	f.cuts = map[int]ID{}
	for _, a := range attempts {
		if a > f.o.Attempt {
			break
		}
		b, err := f.readBegun(a)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		f.cuts[a] = b.Cut
	}
	return nil
}

func (f *Folder) readBegun(attempt int) (begun, error) {
	name := path.Join(attemptName(attempt), begunName)
	text, err := readBounded(f.root, name, maxWord)
	if err != nil {
		return begun{}, err
	}
	var b begun
	if err = json.Unmarshal(text, &b); err == nil && (b.Cut.Attempt < 0 || b.Cut.N < 0 || b.Cut.Attempt >= attempt && b.Cut != ID{}) {
		err = fmt.Errorf("it says that %s came before it", b.Cut)
	}
	if err != nil {
		return begun{}, fmt.Errorf("%s: %w: delete it to use all that is there of earlier attempts", absOf(f.root, name), err)
	}
	return b, nil
}

// late says whether a generation came after a later attempt's cut.
func (f *Folder) late(id ID) bool {
	if id.Attempt >= f.o.Attempt {
		return false
	}
	for attempt, cut := range f.cuts {
		if id.Attempt < attempt && cut.Before(id) {
			return true
		}
	}
	return false
}

// clearEarlierJob moves the step's attempts out of the way if the last of them is
// of an earlier job. They stay for their user, as step-0 is renamed to
// old-<time>-step-0.
func (f *Folder) clearEarlierJob() error {
	attempts, err := f.attempts()
	if err != nil {
		return err
	}
	for _, a := range slices.Backward(attempts) {
		b, err := f.readBegun(a)
		if errors.Is(err, fs.ErrNotExist) {
			continue // it died before it began anything
		}
		if err == nil && f.o.Identity.Earlier(b.Origin, b.At) {
			err = f.renew()
		}
		return err
	}
	return nil
}

// renew renames the step's folder and makes it anew.
func (f *Folder) renew() error {
	job, err := os.OpenRoot(path.Dir(f.root.Name()))
	if err != nil {
		return err
	}
	defer job.Close()
	name := path.Base(f.root.Name())
	old := "old-" + time.Now().UTC().Format("20060102T150405.000") + "-" + name
	if err := job.Rename(name, old); err != nil {
		return err
	}
	f.moved = absOf(job, old)
	root, err := enter(job, name, true)
	if err != nil {
		return err
	}
	f.root.Close()
	f.root = root
	return nil
}

// hostname is for people, and for telling this host's dead from another's.
func hostname() string {
	h, err := os.Hostname()
	if err != nil {
		return ""
	}
	return h
}
