// Package spool keeps orders as files while burstd does not answer. Each file
// is whole or not there; names sort by the time the order was made, then by its ID.
// An order may also have reached burstd by the socket: its ID makes the two one.
//
// burstd empties the spool when it starts, before it serves the socket, and
// again and again while it runs, because a program that found it too busy spools too.
package spool

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/burst-hpc/burst/cmd/internal/api"
)

const (
	orderSuffix = ".order"
	badSuffix   = ".bad"
	tempPrefix  = ".tmp-"
)

// Put writes the order into dir, which it makes if need be; the order is
// durable when Put returns nil. The same order again replaces its file by an equal one.
func Put(dir string, o api.Order) error {
	err := o.Validate()
	var text []byte
	if err == nil {
		text, err = json.Marshal(o)
	}
	if err == nil {
		err = put(dir, name(o), append(text, '\n'), func(string) {})
	}
	if err != nil {
		return fmt.Errorf("spooling order %s: %w", o.ID, err)
	}
	return nil
}

// name has the time in UTC and in fixed width, so that names sort by it.
func name(o api.Order) string {
	return o.Made.UTC().Format("20060102T150405.000000000Z") + "-" + o.ID + orderSuffix
}

// put calls step with the name of each step when it is done: tests end the process there.
func put(dir, name string, text []byte, step func(string)) error {
	f, err := create(dir)
	if err != nil {
		return err
	}
	step("created")
	_, err = f.Write(text)
	if err == nil {
		step("written")
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		step("synced")
		err = os.Rename(f.Name(), filepath.Join(dir, name))
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	step("renamed")
	return syncDir(dir)
}

func create(dir string) (*os.File, error) {
	f, err := os.CreateTemp(dir, tempPrefix+"*") // mode 0600
	if !errors.Is(err, fs.ErrNotExist) {
		return f, err
	}
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return nil, err
	}
	if err := syncDir(filepath.Dir(dir)); err != nil {
		return nil, err
	}
	return os.CreateTemp(dir, tempPrefix+"*")
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// Entry is one order of the spool.
type Entry struct {
	Path  string
	Order api.Order
}

// Remove deletes the order's file: the journal has it. If a crash undoes the
// removal the order comes again, under its ID.
func (e Entry) Remove() error {
	if err := os.Remove(e.Path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("removing from the spool: %w", err)
	}
	return nil
}

// List returns the orders in dir, oldest first. Files that hold no order do
// not hinder it: Sweep tells of them. A dir that does not exist is empty.
func List(dir string) ([]Entry, error) {
	var entries []Entry
	err := each(dir, orderSuffix, func(path string) error {
		if o, err := read(path); err == nil {
			entries = append(entries, Entry{path, o})
		}
		return nil
	})
	return entries, err
}

// Count is the number of orders in dir, unread: cheap enough for a status.
func Count(dir string) (int, error) {
	n := 0
	err := each(dir, orderSuffix, func(string) error { n++; return nil })
	return n, err
}

// each calls do for the files with the suffix, in order of name, and joins its errors.
func each(dir, suffix string, do func(path string) error) error {
	files, err := os.ReadDir(dir) // sorted by name
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading the spool: %w", err)
	}
	var errs []error
	for _, f := range files {
		if strings.HasSuffix(f.Name(), suffix) {
			errs = append(errs, do(filepath.Join(dir, f.Name())))
		}
	}
	return errors.Join(errs...)
}
