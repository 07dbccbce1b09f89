package steprecord

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"syscall"

	"github.com/burst-hpc/burst/ft/ckpt"
)

const (
	// ballastName is a file in the job's folder that holds room: what a later attempt
	// writes before its step starts, where everything else is full by then.
	ballastName = ".ballast"
	ballastSize = 256 << 10
	// ballastShare of what is free, at most, is taken for it.
	ballastShare = 16
)

// Open is the change that a step begins with. In a full folder a later attempt
// sheds the ballast for it, and for what is written next.
func (b Book) Open(ctx context.Context, with func(*Record) error) error {
	err := b.Change(ctx, with)
	switch {
	case err == nil:
		b.load()
	case isFull(err) && b.Attempt > 0:
		if err = b.shed(err); err == nil {
			err = b.Change(ctx, with)
		}
	}
	return err
}

// load makes the ballast if it is not there and there is plenty of room. Without
// it a restart in a full folder fails, and nothing else.
func (b Book) load() {
	root, err := ckpt.OpenJob(b.Dir, b.Job)
	if err != nil {
		return
	}
	defer root.Close()
	var s syscall.Statfs_t
	if _, err := root.Lstat(ballastName); err == nil || syscall.Statfs(root.Name(), &s) != nil || s.Bavail < ballastShare*ballastSize/uint64(max(s.Bsize, 1)) {
		return
	}
	text := make([]byte, ballastSize) // random: some file systems give zeros no room
	rand.Read(text)                   // never fails
	if root.WriteFile(ballastName, text, 0o600) != nil {
		_ = root.Remove(ballastName) // what is left of it is no worse
	}
}

// isFull says that there is no room, on the file system or in a quota.
func isFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

// shed deletes the ballast, because of an error that says that all is full. It
// returns that error if there is none.
func (b Book) shed(full error) error {
	root, err := ckpt.OpenJob(b.Dir, b.Job)
	if err != nil {
		return errors.Join(full, err)
	}
	defer root.Close()
	if err := root.Remove(ballastName); err != nil && !errors.Is(err, os.ErrNotExist) {
		return errors.Join(full, err)
	} else if err != nil {
		return fmt.Errorf("%w: make room, or name another folder with dir=", full)
	}
	return nil
}
