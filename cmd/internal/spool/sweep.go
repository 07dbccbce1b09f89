package spool

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/burst-hpc/burst/cmd/internal/api"
)

const (
	// tempAge is when a temporary file has lost its writer, which lives for seconds.
	tempAge = time.Hour
	// maxFile bounds what is read, in bytes: twice what the socket takes.
	maxFile = 128 << 20
)

// errBroken is wrapped when a file can never be an order; any other error of
// read may be gone the next time.
var errBroken = errors.New("no order")

func read(path string) (api.Order, error) {
	// O_NOFOLLOW and O_NONBLOCK: neither a link nor a pipe may lead or hold us.
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if errors.Is(err, syscall.ELOOP) || errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.ENXIO) {
		return api.Order{}, fmt.Errorf("%w: %w", errBroken, err)
	}
	if err != nil {
		return api.Order{}, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return api.Order{}, err
	}
	if !info.Mode().IsRegular() {
		return api.Order{}, fmt.Errorf("%w: %v is no regular file", errBroken, info.Mode())
	}
	if info.Size() > maxFile {
		return api.Order{}, fmt.Errorf("%w: %d bytes, at most %d are read", errBroken, info.Size(), maxFile)
	}
	text := make([]byte, info.Size())
	if _, err := f.ReadAt(text, 0); err != nil && info.Size() > 0 {
		return api.Order{}, err
	}
	var o api.Order
	if err := json.Unmarshal(text, &o); err != nil {
		return api.Order{}, fmt.Errorf("%w: %w", errBroken, err)
	}
	if err := o.Validate(); err != nil {
		return api.Order{}, fmt.Errorf("%w: %w", errBroken, err)
	}
	return o, nil
}

// Sweep sets files that hold no order aside as *.bad, once each and never
// deleting them, and removes temporary files that a crash left in Put: their
// orders were never acknowledged. Its error names all that is wrong; orders are
// listed all the same.
func Sweep(dir string) error {
	return each(dir, "", func(path string) error {
		base := filepath.Base(path)
		switch {
		case strings.HasPrefix(base, tempPrefix):
			return removeOld(path)
		case strings.HasSuffix(base, orderSuffix):
			return setAside(path)
		}
		return nil
	})
}

func setAside(path string) error {
	_, err := read(path)
	switch {
	case err == nil, errors.Is(err, fs.ErrNotExist):
		return nil
	case !errors.Is(err, errBroken):
		return fmt.Errorf("spool file %s cannot be read now: %w", path, err)
	}
	if moved := os.Rename(path, path+badSuffix); moved != nil {
		return fmt.Errorf("spool file %s: %w; setting it aside: %w", path, err, moved)
	}
	return fmt.Errorf("spool file %s set aside as %s: %w", path, filepath.Base(path)+badSuffix, err)
}

func removeOld(path string) error {
	info, err := os.Lstat(path)
	if err == nil && time.Since(info.ModTime()) > tempAge {
		err = os.Remove(path)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("old temporary file in the spool: %w", err)
	}
	return nil
}
