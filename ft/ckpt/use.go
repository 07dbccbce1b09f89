package ckpt

import (
	"errors"
	"fmt"
	"os"
	"path"
	"syscall"
)

// hold keeps a generation from every Prune, on all nodes, while the step starts
// from it: a shared flock of its manifest.
func (f *Folder) hold(id ID) error {
	f.Release()
	dir := dirOf(id)
	if err := f.isFolder(dir); err != nil {
		return err
	}
	file, err := openRegular(f.root, path.Join(dir, manifestName))
	if err != nil {
		return f.unlessGone(dir, damagedIfMissing(err, f.root, dir, manifestName))
	}
	switch err := tryLock(file, syscall.LOCK_SH); {
	case errors.Is(err, errHeld):
		file.Close()
		return fmt.Errorf("checkpoint %s is being deleted: %w", absOf(f.root, dir), errGone)
	case err != nil && !errors.Is(err, errNoLocks):
		file.Close()
		return err
	}
	f.used, f.useLock = id, file
	return nil
}

// Release lets Prune have the generation that Newest chose: the step runs, and
// needs its files no more.
func (f *Folder) Release() {
	if f.useLock != nil {
		f.useLock.Close()
	}
	f.used, f.useLock = ID{}, nil
}

// lockWhole takes a manifest's lock to delete its generation: errHeld while a step
// starts from it.
func lockWhole(manifest *os.File) error {
	if err := tryLock(manifest, syscall.LOCK_EX); !errors.Is(err, errNoLocks) {
		return err
	}
	return nil
}
