package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// outFile is a file to be written as a whole or not at all.
type outFile struct {
	path    string
	text    string
	mode    fs.FileMode
	replace bool // else an existing file is an error: fs.ErrExist
}

func (o outFile) write() (err error) {
	dir := filepath.Dir(o.path)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("making the folder of %s: %w", o.path, err)
	}
	tmp, err := os.CreateTemp(dir, "."+filepath.Base(o.path)+".*")
	if err != nil {
		return fmt.Errorf("writing %s: %w", o.path, err)
	}
	defer func() {
		// Gone if it was renamed.
		if e := os.Remove(tmp.Name()); e != nil && !errors.Is(e, fs.ErrNotExist) && err == nil {
			err = fmt.Errorf("writing %s: %w", o.path, e)
		}
	}()
	_, err = tmp.WriteString(o.text)
	err = errors.Join(err, tmp.Chmod(o.mode), tmp.Sync(), tmp.Close())
	if err == nil && o.replace {
		err = os.Rename(tmp.Name(), o.path)
	} else if err == nil {
		err = os.Link(tmp.Name(), o.path) // unlike rename, never over another file
		if errors.Is(err, fs.ErrExist) {
			err = fs.ErrExist // without the temporary name
		}
	}
	if err == nil {
		err = syncDir(dir)
	}
	if err != nil {
		return fmt.Errorf("writing %s: %w", o.path, err)
	}
	return nil
}

// syncDir makes a name in dir durable.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
