//go:build linux

// Command enter runs a program of a tree of Debian's, with the files of this host where
// the tree has none of its own: it is what stands in build/containers/bin, under the
// program's name. It is for tests; root starts it.
package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"syscall"
)

func main() {
	runtime.LockOSThread() // the namespace is this thread's, and exec keeps it
	program := filepath.Base(os.Args[0])
	err := enter()
	if err == nil {
		path := filepath.Join("/usr/bin", program)
		err = fmt.Errorf("starting %s: %w", path, syscall.Exec(path, os.Args, os.Environ()))
	}
	fmt.Fprintf(os.Stderr, "%s: error: entering the tree of build/containers: %v\n", program, err)
	os.Exit(1)
}

// own are the top folders that the tree has of its own.
var own = []string{"bin", "sbin", "lib", "lib32", "lib64", "libx32", "usr", "etc", "var", "boot", "lost+found"}

// shared are files of the host that say who is who and what is where.
var shared = []string{"etc/passwd", "etc/group", "etc/hosts", "etc/hostname", "etc/resolv.conf", "etc/localtime"}

// enter makes the tree the root of a mount namespace of this process's own.
func enter() error {
	self, err := os.Executable() // the file, not the link that it was called by
	if err != nil {
		return err
	}
	tree := filepath.Join(filepath.Dir(self), "tree")
	here, err := os.Getwd()
	if err != nil {
		return err
	}
	if err := syscall.Unshare(syscall.CLONE_NEWNS); err != nil {
		return fmt.Errorf("a mount namespace: %w: it needs root", err)
	}
	if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("making mounts private: %w", err)
	}
	// pivot_root wants a mount for its new root.
	if err := bind(tree, tree); err != nil {
		return err
	}
	if err := furnish(tree); err != nil {
		return err
	}
	if err := os.Chdir(tree); err != nil {
		return err
	}
	if err := syscall.PivotRoot(".", "."); err != nil {
		return fmt.Errorf("pivot_root: %w", err)
	}
	if err := syscall.Unmount(".", syscall.MNT_DETACH); err != nil { // the old root lies on the new one
		return fmt.Errorf("leaving the host's root: %w", err)
	}
	if err := os.Chdir(here); err != nil {
		return fmt.Errorf("%w: the tree has its own /usr, /etc and /var", err)
	}
	// What the program calls is the tree's too.
	return os.Setenv("PATH", os.Getenv("PATH")+":/usr/sbin:/usr/bin:/sbin:/bin")
}

// furnish puts what is the host's into the tree.
func furnish(tree string) error {
	tops, err := os.ReadDir("/")
	if err != nil {
		return err
	}
	for _, top := range tops {
		to := filepath.Join(tree, top.Name())
		if !top.IsDir() || slices.Contains(own, top.Name()) {
			continue
		}
		if err := os.MkdirAll(to, 0o755); err != nil {
			return err
		}
		if err := bind("/"+top.Name(), to); err != nil {
			return err
		}
	}
	if err := bind("/var/tmp", filepath.Join(tree, "var/tmp")); err != nil {
		return err
	}
	for _, file := range shared {
		to := filepath.Join(tree, file)
		if st, err := os.Stat("/" + file); err != nil || !st.Mode().IsRegular() {
			continue // a host need not have all of them
		}
		f, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY, 0o644)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			continue // a link in the tree, to where nothing is: it is not needed
		case err != nil:
			return err
		}
		_ = f.Close() // nothing was written
		if err := bind("/"+file, to); err != nil {
			return err
		}
	}
	return nil
}

func bind(from, to string) error {
	if err := syscall.Mount(from, to, "", syscall.MS_BIND|syscall.MS_REC, ""); err != nil {
		return fmt.Errorf("binding %s: %w", from, err)
	}
	return nil
}
