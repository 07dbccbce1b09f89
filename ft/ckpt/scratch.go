package ckpt

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"
	"time"
)

const scratchPrefix = "scratch-"

// Scratch makes a folder for what a method needs while the step runs
// (Launch.Scratch): images may be written there before they are a generation's. It is
// this process's own, and deleted by a later Open or Prune when this one has ended.
func (f *Folder) Scratch() (string, error) {
	name := path.Join(attemptName(f.o.Attempt), fmt.Sprintf("%s%d-%d", scratchPrefix, os.Getpid(), time.Now().UnixNano()))
	err := f.root.Mkdir(name, 0o700)
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
		if here, err := f.holderIsHere(lockFile); !here || err != nil {
			return err
		}
	}
	return f.discardIfDead(attempt, lockFile, dir)
}

// holderIsHere says whether a lock is, or was last, held by this host.
func (f *Folder) holderIsHere(lockFile string) (bool, error) {
	text, err := readBounded(f.root, lockFile, maxWord)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	host, _, _ := strings.Cut(string(text), " ")
	return host != "" && host == hostname(), err
}
