package ckpt

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// A step's folder, of which every attempt of the job writes only its own part:
//
//	DIR/job-17/step-0/            0700, as all below
//	  attempt-0/
//	    begun.json                what of earlier attempts counted when this one began
//	    .lock                     held (flock) while a generation is written
//	    scratch-<pid>-<time>/     a process's, which holds the .lock in it while it lives
//	    gen-1/                    whole: manifest.json is there, and the name has no suffix
//	    gen-2.part/               being written, or left by one that died
//	    gen-3.bad/                set aside; why.txt says why
//	    .trash-gen-1/             being deleted
//	  attempt-1/…
//
// Everything becomes what it is by one rename, so that a kill between any two
// lines leaves a generation whole, or nothing that counts.

// Options say which step's checkpoints are meant.
type Options struct {
	// Dir is the site's or user's checkpoint directory, on shared storage; two
	// clusters that share it must not share job ids.
	Dir     string
	Cluster string // for the manifest; generations of another one are not used
	Job     string // "17", "17_3"
	Step    string // "0", or a name
	Attempt int    // the job's restarts
	// Keep is how many good generations Prune leaves; 0: 2.
	Keep int
	// Reserve is left free of the file system beside what a checkpoint needs, in
	// bytes; 0: 64 MiB.
	Reserve int64
	// Blessed is the last generation that burstd has on record, which may not be to
	// be seen here yet. Nil: not known. The zero ID: there is none.
	Blessed *ID
	// Identity tells the job from an earlier one of the same id, what is left of
	// which is moved out of the way.
	Identity Identity
}

const (
	defaultKeep    = 2
	defaultReserve = 64 << 20
)

// ErrSuperseded says that a later attempt of the job has begun: this one is cut
// off, and nothing that it writes counts.
var ErrSuperseded = errors.New("a later attempt of the job has begun")

// Folder keeps the generations of one step. It is for one goroutine at a time.
type Folder struct {
	o    Options
	root *os.Root   // of the step
	cuts map[int]ID // by attempt: what counted of earlier ones when it began
	view bool
	good map[ID]bool // verified by this process
	// used is the generation that the step started from, and its lock.
	used ID
	// only is what Only was asked for: of those that are to be used together, the one
	// that counts. Nil: it was not asked.
	only    *ID
	useLock *os.File
	scratch *os.File // its lock; nil: none was made
	later   bool     // what is deleted loses its name alone, and is in rest
	rest    []string
	moved   string // where what an earlier job left is; empty: there was nothing
	// fault is asked after each step that a kill may follow, and read before a
	// generation is read: tests kill or fail there.
	fault func(at string) error
	read  func(ID) error
	free  func(*os.Root) (space, error)
}

// Open makes the step's folder if need be, notes what counts of earlier attempts,
// and tidies what dead ones have left. The caller closes it.
func Open(ctx context.Context, o Options) (*Folder, error) {
	f, err := open(o, true)
	if err != nil {
		return nil, fmt.Errorf("checkpoint folder: %w", err)
	}
	if err := f.begin(ctx); err != nil {
		f.Close()
		return nil, fmt.Errorf("checkpoint folder %s: %w", f.root.Name(), err)
	}
	return f, nil
}

// View opens a step's folder to list, verify and prune: nothing is written for an
// attempt. The newest attempt that is there takes the place of o.Attempt.
func View(o Options) (*Folder, error) {
	f, err := open(o, false)
	if err == nil {
		f.view = true
		if err = f.asNewest(); err != nil {
			f.Close()
		}
	}
	if err != nil {
		return nil, fmt.Errorf("checkpoint folder: %w", err)
	}
	return f, nil
}

// asNewest makes the newest attempt the view's own.
func (f *Folder) asNewest() error {
	attempts, err := f.attempts()
	if err != nil {
		return err
	}
	f.o.Attempt = 0
	if n := len(attempts); n > 0 {
		f.o.Attempt = attempts[n-1]
	}
	if b := f.o.Blessed; b != nil {
		f.o.Attempt = max(f.o.Attempt, b.Attempt)
	}
	return f.readCuts()
}

func open(o Options, create bool) (*Folder, error) {
	if o.Keep == 0 {
		o.Keep = defaultKeep
	}
	if o.Reserve == 0 {
		o.Reserve = defaultReserve
	}
	if err := o.validate(); err != nil {
		return nil, err
	}
	dir, err := filepath.Abs(o.Dir)
	if err != nil {
		return nil, err
	}
	if create {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, err
		}
	}
	root, err := os.OpenRoot(dir)
	for _, name := range []string{"job-" + o.Job, "step-" + o.Step} {
		if err != nil {
			return nil, err
		}
		parent := root
		root, err = enter(parent, name, create)
		parent.Close()
	}
	if err != nil {
		return nil, err
	}
	f := &Folder{o: o, root: root, good: map[ID]bool{}, fault: func(string) error { return nil }, read: func(ID) error { return nil }, free: freeSpace}
	return f, nil
}

func (o Options) validate() error {
	switch {
	case o.Dir == "" || strings.ContainsRune(o.Dir, 0):
		return fmt.Errorf("its directory is %q", o.Dir)
	case o.Attempt < 0 || o.Attempt > maxCount:
		return fmt.Errorf("attempt %d", o.Attempt)
	case o.Keep < 1:
		return fmt.Errorf("keep=%d: at least 1", o.Keep)
	case o.Reserve < 0:
		return fmt.Errorf("a reserve of %d bytes", o.Reserve)
	case o.Blessed != nil && (o.Blessed.Attempt < 0 || o.Blessed.N < 0):
		return fmt.Errorf("the last good one is said to be %s", *o.Blessed)
	}
	if err := validWord("job", o.Job); err != nil {
		return err
	}
	return validWord("step", o.Step)
}

// validWord: a word that is part of a folder's name.
func validWord(what, w string) error {
	const ok = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._+-"
	if w == "" || len(w) > 100 || strings.Trim(w, ok) != "" || strings.Contains(w, "..") {
		return fmt.Errorf("%s %.110q: at most 100 letters, digits and . _ + -, without two dots in a row", what, w)
	}
	return nil
}

// enter opens the folder name of parent, which is no link. To write in, it must be
// this user's own: in a directory that all may write to, another could have made it.
func enter(parent *os.Root, name string, create bool) (*os.Root, error) {
	if create {
		switch err := parent.Mkdir(name, 0o700); {
		case err == nil:
			if err := syncDir(parent, "."); err != nil {
				return nil, err
			}
		case !errors.Is(err, fs.ErrExist):
			return nil, err
		}
	}
	before, err := parent.Lstat(name)
	if err != nil {
		return nil, err
	}
	if !before.IsDir() {
		return nil, fmt.Errorf("%s is not a folder", absOf(parent, name))
	}
	root, err := parent.OpenRoot(name)
	if err != nil {
		return nil, err
	}
	after, err := root.Stat(".")
	switch {
	case err != nil:
	case !os.SameFile(before, after):
		err = fmt.Errorf("%s changed while it was opened", absOf(parent, name))
	case create:
		err = owned(parent, name, after)
	}
	if err != nil {
		root.Close()
		return nil, err
	}
	return root, nil
}

// owned says whether a folder is this user's. Servers that map users (root_squash,
// an EFS access point) give files another owner: a new file shows which.
func owned(parent *os.Root, name string, info fs.FileInfo) error {
	if err := closed(parent, name, info); err != nil {
		return err
	}
	owner := ownerOf(info)
	if owner == os.Geteuid() {
		return nil
	}
	mine, err := ownerIn(parent)
	if err == nil && mine == owner {
		return nil
	}
	return errors.Join(fmt.Errorf("%s belongs to user %d", absOf(parent, name), owner), err)
}

// closed says whether a folder is its owner's alone to write to.
func closed(parent *os.Root, name string, info fs.FileInfo) error {
	if info.Mode().Perm()&0o022 != 0 {
		return fmt.Errorf("others may write to %s: chmod 700 it", absOf(parent, name))
	}
	return nil
}

// ownerIn is whom a new file belongs to there.
func ownerIn(dir *os.Root) (int, error) {
	probe := fmt.Sprintf(".owner-%d-%d", os.Getpid(), time.Now().UnixNano())
	f, err := dir.OpenFile(probe, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return 0, err
	}
	info, err := f.Stat()
	if err = errors.Join(err, f.Close(), dir.Remove(probe)); err != nil {
		return 0, err
	}
	return ownerOf(info), nil
}

func ownerOf(info fs.FileInfo) int {
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		return int(s.Uid)
	}
	return -1
}

// Moved is the folder in which Open has put what an earlier job of the same id left;
// empty: there was nothing.
func (f *Folder) Moved() string { return f.moved }

// Path is the step's folder.
func (f *Folder) Path() string { return f.root.Name() }

// Close lets go of the folder. What was written stays.
func (f *Folder) Close() error {
	f.Release()
	if f.scratch != nil {
		f.scratch.Close()
	}
	return f.root.Close()
}
