package ckpt

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// DamageError says that a generation is not what was written. Another error of
// Verify says only that it could not be read now.
type DamageError struct {
	Dir  string // the generation's folder
	File string // in it
	What string
}

func (e *DamageError) Error() string {
	return fmt.Sprintf("checkpoint %s is damaged: %q: %s", e.Dir, e.File, e.What)
}

// damagedIfMissing: that a file is not there, or is none, is damage.
func damagedIfMissing(err error, root *os.Root, dir, file string) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return &DamageError{absOf(root, dir), file, "is missing"}
	case errors.Is(err, errNotRegular) || errors.Is(err, errTooLong):
		return &DamageError{absOf(root, dir), file, err.Error()}
	}
	return err
}

var errNotRegular = errors.New("it is not a regular file")

// openRegular opens a file to read that is regular, and not by way of a link; a
// pipe does not block it.
func openRegular(root *os.Root, name string) (*os.File, error) {
	before, err := root.Lstat(name)
	if err != nil {
		return nil, err
	}
	if !before.Mode().IsRegular() {
		return nil, errNotRegular
	}
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	after, err := f.Stat()
	if err == nil && !os.SameFile(before, after) {
		err = errNotRegular
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

func absOf(root *os.Root, name string) string {
	return filepath.Join(root.Name(), filepath.FromSlash(name))
}

// openDir opens a folder, and nothing else: a pipe would block.
func openDir(root *os.Root, name string) (*os.File, error) {
	return root.OpenFile(name, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NONBLOCK, 0)
}

// fsync is a variable for the tests of what is brought to disk, and when.
var fsync = (*os.File).Sync

// syncDir makes a folder's names durable, where the file system can.
func syncDir(root *os.Root, name string) error {
	d, err := openDir(root, name)
	if err != nil {
		return err
	}
	err = fsync(d)
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.ENOTSUP) {
		err = nil // CIFS and some FUSE ones cannot
	}
	return errors.Join(err, d.Close())
}

// tempSuffix is of a file that is not whole yet.
const tempSuffix = ".tmp"

// writeSynced writes a file that is whole or not there.
func writeSynced(root *os.Root, name string, text []byte) error {
	temp := name + tempSuffix
	if err := writeTemp(root, temp, text); err != nil {
		return err
	}
	return root.Rename(temp, name)
}

func writeTemp(root *os.Root, temp string, text []byte) error {
	f, err := root.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err == nil {
		err = fsync(f)
	}
	return errors.Join(err, f.Close())
}
