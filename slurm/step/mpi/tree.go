package mpi

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// tree is a tree of files that paths are looked up in: this host's, or one below a folder,
// whose absolute links stay within it.
type tree struct{ root string }

// maxLinks is how many symbolic links a path may lead through, as for the kernel.
const maxLinks = 40

// real is the host's name of a path of the tree; links are followed below a root, and left
// to the kernel on the host itself.
func (t tree) real(path string) (string, error) {
	if t.root == "" {
		return path, nil
	}
	at, links := "/", 0
	for left := strings.Split(path, "/"); len(left) > 0; {
		word := left[0]
		left = left[1:]
		switch word {
		case "", ".":
			continue
		case "..":
			at = filepath.Dir(at)
			continue
		}
		next := filepath.Join(at, word)
		to, err := os.Readlink(t.root + next)
		if err != nil {
			at = next // no link, or nothing at all: who opens it will see
			continue
		}
		if links++; links > maxLinks {
			return "", &fs.PathError{Op: "open", Path: path, Err: syscall.ELOOP}
		}
		if filepath.IsAbs(to) {
			at = "/"
		}
		left = append(strings.Split(to, "/"), left...)
	}
	return t.root + at, nil
}

// itself is the path of a program behind all links, which ld.so takes for its $ORIGIN; of a
// library it takes the path by which it was found.
func (t tree) itself(path string) string {
	if t.root == "" {
		if to, err := filepath.EvalSymlinks(path); err == nil {
			return to
		}
		return path
	}
	name, err := t.real(path)
	if err != nil {
		return path
	}
	return strings.TrimPrefix(name, t.root)
}

// open opens a regular file of the tree.
func (t tree) open(path string) (*os.File, error) {
	name, err := t.real(path)
	if err != nil {
		return nil, err
	}
	// A named pipe in a folder of libraries must not hang us.
	f, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	st, err := f.Stat()
	if err == nil && !st.Mode().IsRegular() {
		err = &fs.PathError{Op: "read", Path: path, Err: fs.ErrInvalid}
	}
	if err != nil {
		_ = f.Close() // it was only read
		return nil, err
	}
	return f, nil
}

// stat looks at a path of the tree.
func (t tree) stat(path string) (fs.FileInfo, error) {
	name, err := t.real(path)
	if err != nil {
		return nil, err
	}
	return os.Stat(name)
}

// program is the path of a program, as a shell finds it.
func (t tree) program(name string, env func(string) string) (string, error) {
	if strings.Contains(name, "/") {
		if _, err := t.stat(name); err != nil {
			return "", err
		}
		return name, nil
	}
	for _, dir := range filepath.SplitList(env("PATH")) {
		if !filepath.IsAbs(dir) {
			continue // another folder for each task
		}
		path := filepath.Join(dir, name)
		if st, err := t.stat(path); err == nil && st.Mode().IsRegular() && st.Mode()&0o111 != 0 {
			return path, nil
		}
	}
	return "", fmt.Errorf("%s is not on PATH: %w", name, fs.ErrNotExist)
}
