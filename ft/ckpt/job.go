package ckpt

import (
	"fmt"
	"io/fs"
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

// ViewJob opens the folder of a job to look at it. It is this user's own, as that of
// OpenJob: another's is fs.ErrPermission. Where there is none the error is
// fs.ErrNotExist.
func ViewJob(dir, job string) (*os.Root, error) { return viewJob(dir, job, owned) }

// ViewAnyJob is ViewJob for root, who looks at what any user has left.
func ViewAnyJob(dir, job string) (*os.Root, error) { return viewJob(dir, job, closed) }

func viewJob(dir, job string, may func(parent *os.Root, name string, info fs.FileInfo) error) (*os.Root, error) {
	if err := validWord("job", job); err != nil {
		return nil, fmt.Errorf("checkpoint folder: %w", err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("checkpoint folder: %w", err)
	}
	defer root.Close()
	r, err := enter(root, jobPrefix+job, false)
	if err != nil {
		return nil, fmt.Errorf("checkpoint folder: %w", err)
	}
	info, err := r.Stat(".")
	if err == nil {
		if err = may(root, jobPrefix+job, info); err != nil {
			err = fmt.Errorf("%w: %w", fs.ErrPermission, err)
		}
	}
	if err != nil {
		r.Close()
		return nil, fmt.Errorf("checkpoint folder: %w", err)
	}
	return r, nil
}

// ReadOwn reads a file of a job's folder, of up to limit bytes: a regular one of the
// folder's owner, or of root. Nothing else is waited for.
func ReadOwn(root *os.Root, name string, limit int64) ([]byte, error) {
	folder, err := root.Stat(".")
	if err != nil {
		return nil, err
	}
	f, err := openRegular(root, name)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", absOf(root, name), err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if owner := ownerOf(info); owner != ownerOf(folder) && owner != 0 {
		return nil, fmt.Errorf("%s belongs to user %d, and its folder to user %d", absOf(root, name), owner, ownerOf(folder))
	}
	text, err := readOpen(f, limit)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", absOf(root, name), err)
	}
	return text, nil
}

// OwnerIn is whom the files belong to that this user makes in a directory: servers may
// map users.
func OwnerIn(dir string) (int, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return 0, fmt.Errorf("checkpoint directory: %w", err)
	}
	defer root.Close()
	return ownerIn(root)
}
