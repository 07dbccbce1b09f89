package rehearse

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// room is the folder of a rehearsal:
//
//	report/       what burst-srun says
//	work/         where the job runs
//	killed/       work/ as it was when the job was killed: the second restart
//	              begins from it, and not from what the first one left
//	restart-1/    work/ after the first restart
//	checkpoints/  of a job that names no absolute folder
//	job.out job.err  with --chdir; else they are in work/
type room struct {
	dir  string
	work string // where the job runs
	own  bool   // work is ours
}

// makeRoom makes the folder, with a copy of what the job needs.
func makeRoom(o Options) (r room, err error) {
	base, err := filepath.Abs(o.Dir)
	if err == nil {
		err = os.MkdirAll(base, 0o700)
	}
	if err != nil {
		return r, err
	}
	name := strings.TrimSuffix(filepath.Base(o.Script), filepath.Ext(o.Script))
	r.dir, err = os.MkdirTemp(base, strings.ReplaceAll(name, "*", "_")+"-"+time.Now().Local().Format("20060102T150405")+"-*")
	if err != nil {
		return r, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(r.dir))
		}
	}()
	if err := os.Mkdir(r.reports(), 0o700); err != nil {
		return r, err
	}
	if o.Chdir != "" {
		if r.work, err = filepath.Abs(o.Chdir); err != nil {
			return r, err
		}
		if st, err := os.Stat(r.work); err != nil || !st.IsDir() {
			return r, errors.Join(fmt.Errorf("--chdir %s: not a folder", o.Chdir), err)
		}
		return r, nil
	}
	r.work, r.own = filepath.Join(r.dir, "work"), true
	if err := os.Mkdir(r.work, 0o700); err != nil {
		return r, err
	}
	for _, path := range o.Copy {
		if err := r.bring(path, base); err != nil {
			return r, fmt.Errorf("--copy %s: %w", path, err)
		}
	}
	return r, nil
}

func (r room) reports() string { return filepath.Join(r.dir, "report") }

// output is a file of the job's own output.
func (r room) output(name string) string {
	if r.own {
		return filepath.Join(r.work, name)
	}
	return filepath.Join(r.dir, name)
}

// bring copies a file or folder of the user's to the same place below work.
func (r room) bring(path, base string) error {
	from, err := filepath.EvalSymlinks(path)
	if err != nil {
		return err
	}
	to := filepath.Clean(path)
	if !filepath.IsLocal(to) {
		to = filepath.Base(to)
	}
	to = filepath.Join(r.work, to)
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		return err
	}
	// Through a link the rehearsal could write to what the user has.
	return tree{follow: true, skip: func(path string) bool {
		abs, err := filepath.Abs(path)
		return err == nil && abs == base || filepath.Base(path) == "burst-checkpoints"
	}}.copy(from, to)
}

// refresh has a network file system look at a folder anew: what a node has written
// may else be missed for a minute. A change of our own tells it that others were made.
func refresh(dir string) error {
	f, err := os.CreateTemp(dir, ".look-")
	if err != nil {
		return err
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}

// kept is the copy of work as it was when the job was killed.
func (r room) kept() string { return filepath.Join(r.dir, "killed") }

// keep copies work.
func (r room) keep() error {
	if !r.own {
		return nil
	}
	return tree{skip: func(string) bool { return false }}.copy(r.work, r.kept())
}

// restore puts the copy in the place of work.
func (r room) restore() error {
	if !r.own {
		return nil
	}
	if err := os.Rename(r.work, filepath.Join(r.dir, "restart-1")); err != nil {
		return err
	}
	return os.Rename(r.kept(), r.work)
}

// tree is a way to copy files, folders and links, with modes and times; what is
// neither is left out.
type tree struct {
	skip   func(path string) bool
	follow bool // a link to a file becomes a copy of the file
}

func (t tree) copy(from, to string) error {
	if t.skip(from) {
		return nil
	}
	st, err := os.Lstat(from)
	if err == nil && t.follow && st.Mode()&fs.ModeSymlink != 0 {
		if st, err = os.Stat(from); err == nil && !st.Mode().IsRegular() {
			err = fmt.Errorf("%s is a link to no plain file, and what it leads to would not be protected: copy the rest by name", from)
		}
	}
	if err != nil {
		return err
	}
	switch {
	case st.Mode()&fs.ModeSymlink != 0:
		target, err := os.Readlink(from)
		if err != nil {
			return err
		}
		return os.Symlink(target, to)
	case st.IsDir():
		if err := os.MkdirAll(to, 0o700); err != nil {
			return err
		}
		entries, err := os.ReadDir(from)
		if err != nil {
			return err
		}
		for _, e := range entries {
			if err := t.copy(filepath.Join(from, e.Name()), filepath.Join(to, e.Name())); err != nil {
				return err
			}
		}
	case st.Mode().IsRegular():
		if err := copyFile(from, to); err != nil {
			return err
		}
	default:
		return nil
	}
	if err := os.Chmod(to, st.Mode().Perm()); err != nil {
		return err
	}
	return os.Chtimes(to, st.ModTime(), st.ModTime())
}

func copyFile(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}
