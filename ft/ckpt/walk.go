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

// hashed reads a file to its end and returns its size and sum; with sync it is on
// disk afterwards.
func hashed(ctx context.Context, root *os.Root, name string, sync bool) (size int64, sum string, err error) {
	f, err := openRegular(root, name)
	if err != nil {
		return 0, "", err
	}
	defer f.Close()
	h := sha256.New()
	size, err = io.CopyBuffer(h, ctxReader{ctx, f}, make([]byte, 1<<20))
	if err == nil && sync {
		err = f.Sync()
	}
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
	files := make([]File, len(before))
	err = forEach(ctx, len(before), func(ctx context.Context, i int) error {
		f := before[i].File
		size, sum, err := hashed(ctx, root, path.Join(dir, f.Name), true)
		if err != nil {
			return fmt.Errorf("%s: %q: %w", absOf(root, dir), f.Name, err)
		}
		f.Size, f.SHA256 = size, sum
		files[i] = f
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
	return files, sameFiles(before, after, files)
}

var errWritten = errors.New("it is still being written")

// sameFiles compares two walks, and what was read between them.
func sameFiles(before, after []seen, read []File) error {
	was := map[string]seen{}
	for i, s := range before {
		if read[i].Size != s.Size {
			return fmt.Errorf("%q: %w: %d bytes, then %d", s.Name, errWritten, s.Size, read[i].Size)
		}
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
