package methods

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// How the method signal knows that a file was written after the signal, on file
// systems that count time in whole seconds and by another host's clock: no clock
// of ours is compared. Before the signal all files are looked at; a file whose
// inode, size and time are of that look is old, under whatever name. So that a
// later write cannot have the same time as an earlier one, the signal waits until
// the file system's own clock, read off a probe file, has passed the files' times.

// seen is one regular file at one look.
type seen struct {
	name     string // as files= has it, slashes: "run/heat.ckpt", or absolute
	dev, ino uint64
	size     int64
	mtime    time.Time
	ctime    time.Time // later than mtime once the file was renamed
}

// same says whether both are one state of one file, whatever it is called.
func (s seen) same(o seen) bool {
	return s.dev == o.dev && s.ino == o.ino && s.size == o.size && s.mtime.Equal(o.mtime)
}

// look is what each pattern matches, sorted by name.
type look map[string][]seen

func (l look) equal(o look) bool {
	for pattern := range l {
		if !slices.EqualFunc(l[pattern], o[pattern], func(a, b seen) bool { return a.name == b.name && a.same(b) }) {
			return false
		}
	}
	return len(l) == len(o)
}

// files are those of all patterns, each once.
func (l look) files() []seen {
	var all []seen
	for _, files := range l {
		all = append(all, files...)
	}
	slices.SortFunc(all, func(a, b seen) int { return strings.Compare(a.name, b.name) })
	return slices.CompactFunc(all, func(a, b seen) bool { return a.name == b.name })
}

const probeName = ".burst-probe-"

// lookAt finds the files of the patterns; those that are relative lie below dir.
// A folder stands for all files below it.
func lookAt(dir string, patterns []string) (look, error) {
	l := look{}
	for _, pattern := range patterns {
		root, rest := dir, pattern
		if path.IsAbs(pattern) {
			root, rest = "/", pattern[1:]
		}
		names, err := fs.Glob(os.DirFS(root), rest)
		if err != nil {
			return nil, fmt.Errorf("files=%s: %w", pattern, err)
		}
		l[pattern] = []seen{}
		for _, name := range names {
			if l[pattern], err = addFiles(l[pattern], root, name); err != nil {
				return nil, err
			}
		}
		if root == "/" {
			for i := range l[pattern] {
				l[pattern][i].name = "/" + l[pattern][i].name
			}
		}
	}
	return l, nil
}

func addFiles(to []seen, root, name string) ([]seen, error) {
	st, err := os.Stat(filepath.Join(root, name))
	switch {
	case err != nil && errors.Is(err, fs.ErrNotExist):
		return to, nil // it went between the two
	case err != nil:
		return nil, err
	case st.Mode().IsRegular():
		if base := path.Base(name); strings.HasPrefix(base, probeName) || strings.HasPrefix(base, restorePrefix) {
			return to, nil
		}
		s, err := seeFile(root, name)
		if errors.Is(err, fs.ErrNotExist) {
			return to, nil
		}
		return append(to, s), err
	case !st.IsDir():
		return to, nil
	}
	entries, err := os.ReadDir(filepath.Join(root, name))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for _, e := range entries {
		if e.Type()&fs.ModeSymlink != 0 {
			continue // it may lead back
		}
		if to, err = addFiles(to, root, path.Join(name, e.Name())); err != nil {
			return nil, err
		}
	}
	return to, nil
}

// seeFile opens the file: on NFS only that asks the server for its state.
func seeFile(root, name string) (seen, error) {
	f, err := os.Open(filepath.Join(root, name))
	if err != nil {
		return seen{}, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return seen{}, err
	}
	return seenAs(name, st), nil
}

func seenAs(name string, st fs.FileInfo) seen {
	s := seen{name: name, size: st.Size(), mtime: st.ModTime()}
	if sys, ok := st.Sys().(*syscall.Stat_t); ok {
		s.dev, s.ino = uint64(sys.Dev), sys.Ino
		s.ctime = time.Unix(sys.Ctim.Unix())
	}
	return s
}

// missing says what of a checkpoint is not there yet; "" if nothing is. Each
// pattern needs a file of a state that before has not, and no older in time than
// what it had: that is no copy of an older file. None that is new may be empty.
func missing(before, now look) string {
	var old []seen
	for _, files := range before {
		old = append(old, files...)
	}
	for _, pattern := range slices.Sorted(maps.Keys(now)) {
		if len(now[pattern]) == 0 {
			return "no file matches " + pattern
		}
		var newest time.Time
		for _, f := range before[pattern] {
			if f.mtime.After(newest) {
				newest = f.mtime
			}
		}
		proved := false
		for _, f := range now[pattern] {
			if slices.ContainsFunc(old, f.same) {
				continue
			}
			if f.size == 0 {
				return f.name + " is empty"
			}
			proved = proved || !f.mtime.Before(newest)
		}
		if !proved {
			return pattern + " was not written since the signal"
		}
	}
	return ""
}

// absent says which pattern has no file, or only empty ones; "" if none.
func absent(now look) string {
	for _, pattern := range slices.Sorted(maps.Keys(now)) {
		if !slices.ContainsFunc(now[pattern], func(f seen) bool { return f.size > 0 }) {
			return "no file with content matches " + pattern
		}
	}
	return ""
}

// renamed says whether the application puts its files in place by rename: all
// that are new have replaced a file of their name, none is that same inode, and
// each was touched after its last write. One that is deleted and written anew
// was not.
func renamed(before, now look) bool {
	was := map[string]seen{}
	for _, f := range before.files() {
		was[f.name] = f
	}
	n := 0
	for _, f := range now.files() {
		b, had := was[f.name]
		if had && f.same(b) {
			continue
		}
		if !had || f.dev == b.dev && f.ino == b.ino || !f.ctime.After(f.mtime) {
			return false
		}
		n++
	}
	return n > 0
}

// maxTick is the coarsest time of a file system: FAT's and some NFS servers' 2 s.
const maxTick = 3 * time.Second

// nextTick looks at the files when their file system's clock has passed all of
// their times. It waits no longer than maxTick: times in the future never pass.
func nextTick(ctx context.Context, dir string, patterns []string) (look, error) {
	for began := time.Now(); ; {
		l, err := lookAt(dir, patterns)
		if err != nil || time.Since(began) > maxTick || l.passed(dir) {
			return l, err
		}
		if !pause(ctx, 50*time.Millisecond) {
			return nil, ctx.Err()
		}
	}
}

// passed says whether a file written now would be younger than all of l.
func (l look) passed(dir string) bool {
	clocks := map[string]time.Time{}
	for _, f := range l.files() {
		folder := filepath.Dir(inPlace(dir, f.name))
		if _, ok := clocks[folder]; !ok {
			clocks[folder] = clockOf(folder)
		}
		if now := clocks[folder]; !now.IsZero() && !f.mtime.Before(now) {
			return false
		}
	}
	return true
}

// clockOf reads the clock that gives files of the folder their times; zero if
// nothing can be written there.
func clockOf(folder string) time.Time {
	f, err := os.CreateTemp(folder, probeName)
	if err != nil {
		return time.Time{}
	}
	defer os.Remove(f.Name())
	defer f.Close()
	if _, err := f.WriteString("x"); err != nil {
		return time.Time{}
	}
	st, err := f.Stat()
	if err != nil {
		return time.Time{}
	}
	return st.ModTime()
}

// inPlace is where a file of files= lies.
func inPlace(dir, name string) string {
	if path.IsAbs(name) {
		return name
	}
	return filepath.Join(dir, name)
}
