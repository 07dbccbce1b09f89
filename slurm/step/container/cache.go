package container

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// Cache is a user's folder of images on a node's disk. Of several processes that want one
// image one fetches it, and the others wait.
//
// An image is there under its key or it is not: who holds the lock of KEY.lock writes it in
// a folder of its own, KEY.*.tmp, and it gets its name when all of it is on the disk. What a
// killed process leaves is such a folder, in which its children may still write: the next
// ones delete it, and never use it.
type Cache struct {
	Dir string
	// Max is how many bytes the images may have; those used longest ago go first.
	Max int64
	// Say tells of a fetch that takes long.
	Say func(format string, args ...any)
}

const (
	// sayAfter is how long a fetch or a wait may take before a line says so, and how often.
	sayAfter = 10 * time.Second
	// lockPause is between two tries of a lock that another process has.
	lockPause = 50 * time.Millisecond
	// touchAfter is how old the note of an image's last use may be.
	touchAfter = time.Minute
	// restFor is how long after its last use an image is not deleted: a step that is
	// about to begin has been told that it is there.
	restFor = time.Hour
	// DefaultMax is of a Cache whose site says nothing.
	DefaultMax = 50 << 30
)

// Path is where the image of a key is once it is ready.
func (c Cache) Path(key string) string { return filepath.Join(c.Dir, key+".sif") }

// Has says whether the image is there.
func (c Cache) Has(key string) bool {
	st, err := os.Lstat(c.Path(key))
	return err == nil && st.Mode().IsRegular()
}

// Fill writes an image to a file that may be there, half written.
type Fill func(ctx context.Context, part string) error

// Ready has the image of the key there, by fill if it is not, and returns its path. size
// is how many bytes it has, 0 if that is not known.
func (c Cache) Ready(ctx context.Context, i Image, fill Fill) (path string, err error) {
	path = c.Path(i.Key)
	if c.Has(i.Key) {
		c.used(path)
		return path, c.owned()
	}
	if err := os.MkdirAll(c.Dir, 0o700); err != nil {
		return "", fmt.Errorf("making the folder of images: %w", err)
	}
	if err := c.owned(); err != nil {
		return "", err
	}
	unlock, err := c.lock(ctx, i)
	if err != nil {
		return "", err
	}
	defer unlock()
	if c.Has(i.Key) {
		c.used(path)
		return path, nil
	}
	if err := c.room(i); err != nil {
		return "", err
	}
	err = c.make(ctx, i, fill)
	if full(err) && ctx.Err() == nil {
		c.evict(i.Key, 0) // all that may go
		err = c.make(ctx, i, fill)
	}
	if full(err) {
		err = fmt.Errorf("%w: %s", err, elsewhere)
	}
	if err != nil {
		return "", err
	}
	c.evict(i.Key, c.Max)
	return path, nil
}

// make writes the image, and gives it its name. The lock is held.
func (c Cache) make(ctx context.Context, i Image, fill Fill) error {
	for _, old := range c.works(i.Key) {
		_ = removedTree(old) // what still writes in it may add to it: the next one deletes that
	}
	work, err := os.MkdirTemp(c.Dir, i.Key+".*"+workSuffix)
	if err != nil {
		return fmt.Errorf("making the image's folder: %w", err)
	}
	part := filepath.Join(work, "image")
	stop := c.telling(i, part)
	err = fill(ctx, part)
	stop()
	if err == nil {
		err = settle(part, c.Path(i.Key))
	}
	_ = removedTree(work) // or the next one does
	return err
}

// owned says whether the folder is the user's alone: what another can write there would
// be run. It may be a link of the user's.
func (c Cache) owned() error {
	for _, stat := range []func(string) (os.FileInfo, error){os.Lstat, os.Stat} {
		st, err := stat(c.Dir)
		if err != nil {
			return fmt.Errorf("the folder of images: %w", err)
		}
		sys, ok := st.Sys().(*syscall.Stat_t)
		link := st.Mode().Type() == fs.ModeSymlink
		switch {
		case !link && !st.IsDir():
			return fmt.Errorf("%s, where images are to lie, is no folder: BURST_CONTAINER_CACHE names another", c.Dir)
		case !ok || int(sys.Uid) != os.Geteuid():
			return fmt.Errorf("the folder of images %s is another user's: BURST_CONTAINER_CACHE names another", c.Dir)
		case !link && st.Mode().Perm()&0o022 != 0:
			return fmt.Errorf("others can write to the folder of images %s: chmod go-w it, or BURST_CONTAINER_CACHE names another", c.Dir)
		}
	}
	return nil
}

// lock takes the image's lock.
func (c Cache) lock(ctx context.Context, i Image) (unlock func(), err error) {
	name := filepath.Join(c.Dir, i.Key+".lock")
	said := time.Now()
	tick := time.NewTicker(lockPause)
	defer tick.Stop()
	for {
		f, err := tryLock(name)
		if err != nil {
			return nil, fmt.Errorf("locking %s: %w", i, err)
		}
		if f != nil {
			return func() { _ = f.Close() }, nil // the lock goes with it
		}
		if time.Since(said) > sayAfter {
			c.say("waits for another process of this node, which fetches %s", i)
			said = time.Now()
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("waiting for another process of this node, which fetches %s: %w", i, ctx.Err())
		case <-tick.C:
		}
	}
}

// tryLock takes a lock that nobody has; nil: somebody has it.
func tryLock(name string) (*os.File, error) {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if err == nil {
		// Who deletes an image deletes its lock, which another may have opened before.
		mine, merr := f.Stat()
		now, nerr := os.Lstat(name)
		if merr == nil && nerr == nil && os.SameFile(mine, now) {
			return f, nil
		}
		err = syscall.EWOULDBLOCK
	}
	_ = f.Close() // nothing was written
	if errors.Is(err, syscall.EWOULDBLOCK) || errors.Is(err, syscall.EINTR) {
		return nil, nil
	}
	return nil, err
}

// telling tells how a long fetch goes, until it is stopped.
func (c Cache) telling(i Image, part string) (stop func()) {
	done := make(chan struct{})
	began := time.Now()
	go func() {
		tick := time.NewTicker(sayAfter)
		defer tick.Stop()
		for {
			select {
			case <-done:
				return
			case <-tick.C:
				c.say("fetches %s to this node's disk since %v%s", i, time.Since(began).Round(time.Second), share(part, i))
			}
		}
	}()
	return func() { close(done) }
}

// share is how much of the image is there, ", 40 %", if that is known.
func share(part string, i Image) string {
	st, err := os.Stat(part)
	if err != nil || i.Size == 0 || i.Remote() {
		return ""
	}
	return fmt.Sprintf(", %d %%", 100*st.Size()/i.Size)
}

func (c Cache) say(format string, args ...any) {
	if c.Say != nil {
		c.Say(format, args...)
	}
}

// used notes that the image is used now.
func (c Cache) used(path string) {
	if st, err := os.Stat(path); err == nil && time.Since(st.ModTime()) > touchAfter {
		now := time.Now()
		_ = os.Chtimes(path, now, now) // it goes earlier than it might
	}
}

// settle gives a file that is written its name, when its bytes are on the disk.
func settle(part, path string) error {
	f, err := os.OpenFile(part, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	_, _, err = identity(f) // what a tool has written is an image
	err = errors.Join(err, f.Chmod(0o700), f.Sync(), f.Close())
	if err != nil {
		return err
	}
	// Its times are those of its use, not those of where it comes from.
	now := time.Now()
	if err := os.Chtimes(part, now, now); err != nil {
		return err
	}
	if err := os.Rename(part, path); err != nil {
		return err
	}
	dir, err := os.Open(filepath.Dir(path)) // the name lasts
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

func removed(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
