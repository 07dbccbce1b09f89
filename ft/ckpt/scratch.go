package ckpt

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const scratchPrefix = "scratch-"

// Scratch makes a folder for what a method needs while the step runs
// (Launch.Scratch): images may be written there before they are a generation's. It is
// this process's own, and deleted by a later Open or Prune when this one has ended.
func (f *Folder) Scratch() (string, error) {
	name := path.Join(attemptName(f.o.Attempt), fmt.Sprintf("%s%d-%d-%s", scratchPrefix, os.Getpid(), time.Now().UnixNano(), hostname()))
	err := f.root.Mkdir(name, 0o700)
	if err == nil {
		err = f.fault("scratch made")
	}
	if err == nil {
		if f.scratch != nil {
			f.scratch.Close()
		}
		f.scratch, err = takeLock(f.root, path.Join(name, lockName))
	}
	if err != nil {
		return "", fmt.Errorf("checkpoint folder: %w", f.explain(err, 0))
	}
	return absOf(f.root, name), nil
}

// tidyScratch deletes the scratch folder of a process that has ended.
func (f *Folder) tidyScratch(attempt int, name string) error {
	dir := path.Join(attemptName(attempt), name)
	lockFile := path.Join(dir, lockName)
	if attempt == f.o.Attempt {
		// Its own attempt's may be a live step's on another host, where locks do not
		// reach, that seldom writes there.
		text, err := readBounded(f.root, lockFile, maxWord)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		host, _, _ := strings.Cut(string(text), " ")
		switch {
		case host == "" && madeByDead(name): // killed before it had the lock, or its word in it
			return f.discard(dir)
		case host == "" || host != hostname():
			return nil
		}
	}
	return f.discardIfDead(attempt, lockFile, dir)
}

// madeByDead says whether a scratch folder's name is of a process of this host that is
// not there any more.
func madeByDead(name string) bool {
	pid, rest, _ := strings.Cut(strings.TrimPrefix(name, scratchPrefix), "-")
	_, host, _ := strings.Cut(rest, "-")
	n, err := strconv.Atoi(pid)
	return err == nil && n > 0 && host != "" && host == hostname() && errors.Is(syscall.Kill(n, 0), syscall.ESRCH)
}
