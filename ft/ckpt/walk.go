package ckpt

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"
)

// seen is what the walk of a folder found of a file.
type seen struct {
	File
	changed time.Time
}

// walkFiles lists the regular files below dir, sorted by name as a manifest has
// them, and the folders, dir itself last. Anything else is an error that names it.
func walkFiles(root *os.Root, dir string) (files []seen, dirs []string, err error) {
	err = fs.WalkDir(root.FS(), dir, func(name string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := root.Lstat(name)
		if err != nil {
			return err
		}
		if info.IsDir() {
			dirs = append(dirs, name)
			if len(dirs) > maxFiles {
				return fmt.Errorf("%s has over %d folders", absOf(root, dir), maxFiles)
			}
			return nil
		}
		rel := strings.TrimPrefix(name, dir+"/")
		if dir == "." {
			rel = name
		}
		switch {
		case !info.Mode().IsRegular():
			return fmt.Errorf("%s: %q is no regular file but %s: a checkpoint has only such", absOf(root, dir), rel, kindOf(info.Mode()))
		case len(files) == maxFiles:
			return fmt.Errorf("%s has over %d files", absOf(root, dir), maxFiles)
		}
		files = append(files, seen{File{Name: rel, Size: info.Size(), Mode: uint32(info.Mode().Perm())}, info.ModTime()})
		return nil
	})
	slices.SortFunc(files, func(a, b seen) int { return strings.Compare(a.Name, b.Name) })
	slices.Reverse(dirs) // children before parents
	return files, dirs, err
}

func kindOf(m fs.FileMode) string {
	switch {
	case m&fs.ModeSymlink != 0:
		return "a symbolic link"
	case m&fs.ModeNamedPipe != 0:
		return "a pipe"
	case m&fs.ModeSocket != 0:
		return "a socket"
	}
	return "a device"
}

// forEach calls do for 0 to n-1, a few at once, until one fails or ctx is over.
func forEach(ctx context.Context, n int, do func(ctx context.Context, i int) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	next := make(chan int)
	var wg sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), 4, n) {
		wg.Go(func() {
			for i := range next {
				if err := do(ctx, i); err != nil {
					cancel(err)
				}
			}
		})
	}
	for i := range n {
		select {
		case next <- i:
			continue
		case <-ctx.Done():
		}
		break
	}
	close(next)
	wg.Wait()
	return context.Cause(ctx)
}

// hashed reads an open file to its end and returns its size and sum.
func hashed(ctx context.Context, f *os.File) (size int64, sum string, err error) {
	h := sha256.New()
	size, err = io.CopyBuffer(h, ctxReader{ctx, f}, make([]byte, 1<<20))
	return size, hex.EncodeToString(h.Sum(nil)), err
}

// ctxReader ends with ctx.
type ctxReader struct {
	ctx context.Context
	r   io.Reader
}

func (c ctxReader) Read(b []byte) (int, error) {
	if c.ctx.Err() != nil {
		return 0, context.Cause(c.ctx)
	}
	return c.r.Read(b)
}

// seal hashes and syncs all files of dir, syncs its folders, and makes sure that
// nobody wrote meanwhile: some tools say that they are done before they are.
func seal(ctx context.Context, root *os.Root, dir string) ([]File, error) {
	before, dirs, err := walkFiles(root, dir)
	if err != nil {
		return nil, err
	}
	err = forEach(ctx, len(before), func(ctx context.Context, i int) error {
		if err := before[i].seal(ctx, root, path.Join(dir, before[i].Name)); err != nil {
			return fmt.Errorf("%s: %q: %w", absOf(root, dir), before[i].Name, err)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	for _, d := range dirs {
		if err := syncDir(root, d); err != nil {
			return nil, fmt.Errorf("syncing %s: %w", absOf(root, d), err)
		}
	}
	after, _, err := walkFiles(root, dir)
	if err != nil {
		return nil, err
	}
	if err := sameFiles(before, after); err != nil {
		return nil, fmt.Errorf("%s: %w", absOf(root, dir), err)
	}
	files := make([]File, len(before))
	for i, s := range before {
		files[i] = s.File
	}
	return files, nil
}

// seal hashes the file and brings it to disk. Its size and time are those that it
// had when it was opened: what a walk sees of files that other nodes wrote may be old on
// NFS, and opening asks the server.
func (s *seen) seal(ctx context.Context, root *os.Root, name string) error {
	f, err := openRegular(root, name)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	size, sum, err := hashed(ctx, f)
	if err == nil {
		err = fsync(f)
	}
	if err == nil && size != info.Size() {
		err = fmt.Errorf("%w: %d bytes, then %d", errWritten, info.Size(), size)
	}
	s.Size, s.SHA256, s.changed = size, sum, info.ModTime()
	return err
}

var errWritten = errors.New("it is still being written")

// sameFiles compares what was read with a walk after it.
func sameFiles(before, after []seen) error {
	was := map[string]seen{}
	for _, s := range before {
		was[s.Name] = s
	}
	for _, s := range after {
		w, ok := was[s.Name]
		if !ok || w.Size != s.Size || !w.changed.Equal(s.changed) {
			return fmt.Errorf("%q: %w", s.Name, errWritten)
		}
		delete(was, s.Name)
	}
	for name := range was {
		return fmt.Errorf("%q: it went while the checkpoint was being sealed", name)
	}
	return nil
}
