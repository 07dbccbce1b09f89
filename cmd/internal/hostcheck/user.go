package hostcheck

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
)

// User is one whose rights are looked at.
type User struct {
	Name   string
	UID    int
	Groups []int
}

// Opens says why the user may not read (0o4), write (0o2) or run (0o1) a file of the host, or
// several of these, by its mode and those of its folders up to root; where it or a folder is a
// symbolic link, by those of what that names too.
func (u User) Opens(root, path string, want fs.FileMode) error {
	root = filepath.Clean(root)
	return u.opens(root, filepath.Join(root, path), want)
}

func (u User) opens(root, at string, want fs.FileMode) error {
	for ; ; at = filepath.Dir(at) {
		info, err := os.Stat(at)
		if err != nil {
			return err
		}
		target, err := os.Readlink(at)
		switch {
		case err != nil: // no link
			err = u.may(root, at, info, want)
		case !filepath.IsAbs(target):
			var dir string // of the link itself, from which ".." goes up
			if dir, err = filepath.EvalSymlinks(filepath.Dir(at)); err == nil {
				err = u.opens(root, filepath.Join(dir, target), want)
			}
		default: // Stat has found that it ends
			err = u.opens(root, filepath.Clean(target), want)
		}
		if err != nil {
			return err
		}
		if want = 0o1; at == root || at == "/" || at == "." {
			return nil
		}
	}
}

// may looks at the mode of the file alone.
func (u User) may(root, at string, info fs.FileInfo, want fs.FileMode) error {
	s, mode := info.Sys().(*syscall.Stat_t), info.Mode().Perm()
	switch {
	case u.UID == 0 && (want&0o1 == 0 || info.IsDir() || mode&0o111 != 0):
		mode = 0o7
	case int(s.Uid) == u.UID:
		mode >>= 6
	case slices.Contains(u.Groups, int(s.Gid)):
		mode >>= 3
	}
	if mode&want != want {
		return &Closed{User: u, Path: "/" + relative(root, at), UID: int(s.Uid), Mode: info.Mode().Perm()}
	}
	return nil
}

func relative(root, path string) string {
	if rel, err := filepath.Rel(root, path); err == nil && rel != "." {
		return rel
	}
	return ""
}

// Closed is a file or folder that keeps a user out.
type Closed struct {
	User User
	Path string
	UID  int // its owner
	Mode fs.FileMode
}

func (c *Closed) Error() string {
	return fmt.Sprintf("%s may not open %s: it is uid %d's, with mode %04o", c.User.Name, c.Path, c.UID, c.Mode)
}
