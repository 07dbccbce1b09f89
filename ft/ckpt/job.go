package ckpt

import (
	"fmt"
	"os"
	"path/filepath"
)

// OpenJob makes the folder of a job in the checkpoint directory if need be, and
// opens it: its steps' folders lie in it, and what else is to be known of it. It is
// this user's own, and no link.
func OpenJob(dir, job string) (*os.Root, error) {
	if err := validWord("job", job); err != nil {
		return nil, fmt.Errorf("checkpoint folder: %w", err)
	}
	abs, err := filepath.Abs(dir)
	if err == nil {
		err = os.MkdirAll(abs, 0o700)
	}
	if err != nil {
		return nil, fmt.Errorf("checkpoint folder: %w", err)
	}
	root, err := os.OpenRoot(abs)
	if err != nil {
		return nil, fmt.Errorf("checkpoint folder: %w", err)
	}
	defer root.Close()
	r, err := enter(root, "job-"+job, true)
	if err != nil {
		return nil, fmt.Errorf("checkpoint folder: %w", err)
	}
	return r, nil
}

// ViewJob opens the folder of a job to look at it. Where there is none the error is
// fs.ErrNotExist.
func ViewJob(dir, job string) (*os.Root, error) {
	if err := validWord("job", job); err != nil {
		return nil, fmt.Errorf("checkpoint folder: %w", err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("checkpoint folder: %w", err)
	}
	defer root.Close()
	r, err := enter(root, "job-"+job, false)
	if err != nil {
		return nil, fmt.Errorf("checkpoint folder: %w", err)
	}
	return r, nil
}
