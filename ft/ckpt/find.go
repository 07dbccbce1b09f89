package ckpt

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
)

// Find lists the steps that have checkpoints in dir, for View. Folders that this
// user may not read are passed over; what else could not be read is the error, beside
// what was found.
func Find(dir string) ([]Options, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("checkpoint directory: %w", err)
	}
	defer root.Close()
	jobs, err := foldersOf(root, ".", "job-")
	if err != nil {
		return nil, fmt.Errorf("checkpoint directory: %w", err)
	}
	var found []Options
	var errs []error
	for _, job := range jobs {
		steps, err := foldersOf(root, "job-"+job, "step-")
		if err != nil && !errors.Is(err, fs.ErrPermission) && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, fmt.Errorf("checkpoint directory: %w", err))
		}
		for _, step := range steps {
			found = append(found, Options{Dir: dir, Job: job, Step: step})
		}
	}
	return found, errors.Join(errs...)
}

// foldersOf lists what follows prefix in the names of a folder's folders, sorted.
func foldersOf(root *os.Root, dir, prefix string) ([]string, error) {
	names, err := namesIn(root, dir)
	if err != nil {
		return nil, err
	}
	var found []string
	for _, name := range names {
		word, ok := strings.CutPrefix(name, prefix)
		if !ok || validWord(prefix, word) != nil {
			continue
		}
		if info, err := root.Lstat(path.Join(dir, name)); err == nil && info.IsDir() {
			found = append(found, word)
		}
	}
	slices.Sort(found)
	return found, nil
}
