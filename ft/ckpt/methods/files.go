package methods

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/burst-hpc/burst/ft/ckpt"
)

// In a generation of the method signal, files/ has those that lie below the
// job's folder, and root/ those that files= names by an absolute path.
const (
	filesFolder = "files"
	rootFolder  = "root"
	// noteName is in a generation that has no files, because files= names none.
	noteName = "note.txt"
	// restorePrefix has what is put back, until it is in place.
	restorePrefix = ".burst-restore-"
)

// stored is where a generation has the file of that name.
func stored(generation, name string) string {
	if path.IsAbs(name) {
		return filepath.Join(generation, rootFolder, name)
	}
	return filepath.Join(generation, filesFolder, name)
}

// errChanged says that the application wrote a file while it was copied.
var errChanged = errors.New("was written while it was copied")

// keep copies the files into the generation. No hard links: an application that
// opens its file again and writes over it would write over the generation too,
// the very copy that is to survive a half-written file. Copying costs nothing
// where the file system shares blocks: copy_file_range, which the copy uses, does
// so on XFS, Btrfs and NFS 4.2.
func keep(ctx context.Context, dir, into string, files []seen) error {
	for _, f := range files {
		to := stored(into, f.name)
		if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
			return err
		}
		out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
		if err != nil {
			return err
		}
		was, err := copyTo(ctx, out, inPlace(dir, f.name))
		if err == nil && !f.same(was) {
			err = fmt.Errorf("%s %w", f.name, errChanged)
		}
		if errors.Is(err, fs.ErrNotExist) {
			err = fmt.Errorf("%s %w: %v", f.name, errChanged, err)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// empty deletes what an earlier try has copied.
func empty(folder string) error {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if err := os.RemoveAll(filepath.Join(folder, e.Name())); err != nil {
			return err
		}
	}
	return nil
}

// copyChunk is copied between two looks at ctx.
const copyChunk = 32 << 20

// copyTo copies the file at path with its mode and time to out, to disk, and
// closes out. It returns the state that was copied, whole.
func copyTo(ctx context.Context, out *os.File, path string) (was seen, err error) {
	defer func() { err = errors.Join(err, out.Close()) }()
	in, err := os.Open(path)
	if err != nil {
		return seen{}, err
	}
	defer in.Close()
	st, err := in.Stat()
	if err != nil {
		return seen{}, err
	}
	for {
		if err := ctx.Err(); err != nil {
			return seen{}, fmt.Errorf("copying %s: %w", path, err)
		}
		if _, err := io.CopyN(out, in, copyChunk); err == io.EOF {
			break
		} else if err != nil {
			return seen{}, fmt.Errorf("copying %s: %w", path, err)
		}
	}
	after, err := in.Stat()
	if err != nil {
		return seen{}, err
	}
	if !seenAs("", st).same(seenAs("", after)) {
		return seen{}, fmt.Errorf("%s %w", path, errChanged)
	}
	if err := errors.Join(out.Chmod(st.Mode().Perm()), os.Chtimes(out.Name(), time.Time{}, st.ModTime()), out.Sync()); err != nil {
		return seen{}, err
	}
	return seenAs("", after), nil
}

// putBack puts the generation's files in their places, each by rename, and
// leaves alone those that are the same. An application with one file that it
// replaces by rename (the generation tells) has a whole one in place at any time:
// if it is younger than the generation's, it holds more work, and stays. Of
// several files some may be of the next checkpoint, some not.
func (m *signalMethod) putBack(ctx context.Context, dir string, g *ckpt.Generation) error {
	names, err := storedFiles(g.Dir)
	if err != nil {
		return fmt.Errorf("reading generation %s: %w", g.Dir, err)
	}
	if _, err := os.Stat(filepath.Join(g.Dir, noteName)); len(names) == 0 && err != nil {
		return fmt.Errorf("generation %s holds no files of the method signal", g.Dir)
	}
	if !m.exact && g.Extra[extraWrites] == writesByRename && len(names) == 1 && younger(dir, g.Dir, names[0]) {
		return nil
	}
	for _, name := range names {
		if err := replace(ctx, stored(g.Dir, name), inPlace(dir, name)); err != nil {
			return fmt.Errorf("putting back %s from %s: %w", name, g.Dir, err)
		}
	}
	return nil
}

func storedFiles(generation string) ([]string, error) {
	var names []string
	for _, folder := range []string{filesFolder, rootFolder} {
		base := filepath.Join(generation, folder)
		err := filepath.WalkDir(base, func(p string, d fs.DirEntry, err error) error {
			if p == base && errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			if err != nil || !d.Type().IsRegular() {
				return err
			}
			name := strings.TrimPrefix(p, base+"/")
			if folder == rootFolder {
				name = "/" + name
			}
			names = append(names, name)
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return names, nil
}

// younger says whether the file in place has content and is younger than the
// generation's.
func younger(dir, generation, name string) bool {
	ours, err1 := os.Stat(stored(generation, name))
	place, err2 := os.Stat(inPlace(dir, name))
	return err1 == nil && err2 == nil && place.Mode().IsRegular() && place.Size() > 0 && place.ModTime().After(ours.ModTime())
}

// replace makes to a copy of from, unless it is one. A link at to stays one.
func replace(ctx context.Context, from, to string) error {
	if real, err := filepath.EvalSymlinks(to); err == nil {
		to = real
	}
	if same, err := sameContent(ctx, from, to); same || err != nil {
		return err
	}
	folder := filepath.Dir(to)
	if err := os.MkdirAll(folder, 0o777); err != nil {
		return err
	}
	prefix := restorePrefix + filepath.Base(to) + "-"
	left, _ := filepath.Glob(filepath.Join(folder, prefix+"*")) // of a restart that was killed; a name may be no pattern
	for _, name := range left {
		os.Remove(name)
	}
	temp, err := os.CreateTemp(folder, prefix)
	if err != nil {
		return err
	}
	if _, err = copyTo(ctx, temp, from); err == nil {
		err = os.Rename(temp.Name(), to)
	}
	if err != nil {
		os.Remove(temp.Name())
		return err
	}
	return syncFolder(folder)
}

// sameContent compares what two files hold where size and time are equal: an
// older write may have the time of a younger one. A file that cannot be read is
// another one.
func sameContent(ctx context.Context, a, b string) (bool, error) {
	x, err := os.Open(a)
	if err != nil {
		return false, err
	}
	defer x.Close()
	y, err := os.Open(b)
	if err != nil {
		return false, nil
	}
	defer y.Close()
	sx, err1 := x.Stat()
	sy, err2 := y.Stat()
	if err1 != nil || err2 != nil || sx.Size() != sy.Size() || !sx.ModTime().Equal(sy.ModTime()) {
		return false, nil
	}
	p, q := make([]byte, 1<<20), make([]byte, 1<<20)
	for {
		if err := ctx.Err(); err != nil {
			return false, err
		}
		n, errX := io.ReadFull(x, p)
		m, errY := io.ReadFull(y, q)
		if n != m || string(p[:n]) != string(q[:m]) {
			return false, nil
		}
		if errX != nil || errY != nil {
			ends := func(err error) bool { return err == io.EOF || err == io.ErrUnexpectedEOF }
			return ends(errX) && ends(errY), nil
		}
	}
}

// syncFolder makes a rename in the folder durable.
func syncFolder(folder string) error {
	d, err := os.Open(folder)
	if err != nil {
		return err
	}
	defer d.Close()
	if err := d.Sync(); err != nil && !errors.Is(err, syscall.EINVAL) && !errors.Is(err, syscall.ENOTSUP) {
		return err // but some file systems cannot
	}
	return nil
}
