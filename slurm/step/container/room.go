package container

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// spare is what an image leaves free of the disk, as a share of it: 1/20.
const spare = 20

// elsewhere is what to do about a disk that is too small.
const elsewhere = "BURST_CONTAINER_CACHE=FOLDER names a folder of another disk; =none runs an image that is a file where it is"

// full says whether the disk was too small, by the kernel's word or by that of a tool.
func full(err error) bool {
	return err != nil && (errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) ||
		strings.Contains(err.Error(), "no space left on device") || strings.Contains(err.Error(), "disk quota exceeded"))
}

// room makes room for the image, and says if there is none. What a pull needs is a guess,
// by which none is refused.
func (c Cache) room(i Image) error {
	c.evict(i.Key, max(0, c.Max-i.Size))
	free, whole, err := space(c.Dir)
	if err != nil || i.Size == 0 || free-whole/spare >= i.Size {
		return nil // the write will say what is wrong
	}
	c.evict(i.Key, 0) // all that may go
	if free, whole, err = space(c.Dir); err != nil || i.Remote() || free-whole/spare >= i.Size {
		return nil
	}
	return fmt.Errorf("%s has %s, and the disk of %s has %s free and keeps 5 %% of it: %s", i, size(i.Size), c.Dir, size(free), elsewhere)
}

func space(dir string) (free, whole int64, err error) {
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err != nil {
		return 0, 0, err
	}
	return int64(st.Bavail) * st.Bsize, int64(st.Blocks) * st.Bsize, nil
}

// size is a number of bytes for people.
func size(n int64) string {
	if n < 10<<30 {
		return fmt.Sprintf("%d MB", n>>20)
	}
	return fmt.Sprintf("%d GB", n>>30)
}

// kept is an image of the cache.
type kept struct {
	key  string
	size int64
	used time.Time
}

// evict deletes images, those used longest ago first, until all have no more than most
// bytes; and what killed processes have left. One that was used a short time ago stays,
// and so does one that is being fetched. What cannot be deleted now is left for later.
func (c Cache) evict(but string, most int64) {
	entries, err := os.ReadDir(c.Dir)
	if err != nil {
		return
	}
	var all []kept
	total := int64(0)
	for _, e := range entries {
		key, isWork := workOf(e.Name())
		if isWork && e.IsDir() && key != but && !c.drop(key, e.Name()) {
			total += treeSize(filepath.Join(c.Dir, e.Name())) // it is being fetched
		}
		info, err := e.Info()
		if err != nil || !info.Mode().IsRegular() {
			continue
		}
		if key, ok := strings.CutSuffix(e.Name(), ".sif"); ok {
			all = append(all, kept{key, info.Size(), info.ModTime()})
			total += info.Size()
		}
	}
	slices.SortFunc(all, func(a, b kept) int { return a.used.Compare(b.used) })
	for _, k := range all {
		if total <= most || time.Since(k.used) < restFor {
			return
		}
		if k.key != but && c.drop(k.key, k.key+".sif") {
			total -= k.size
		}
	}
}

// drop deletes files of a key that nobody fetches.
func (c Cache) drop(key string, names ...string) bool {
	lock := filepath.Join(c.Dir, key+".lock")
	f, err := tryLock(lock)
	if err != nil || f == nil {
		return false
	}
	defer f.Close()
	for _, name := range names {
		if removedTree(filepath.Join(c.Dir, name)) != nil {
			return false
		}
	}
	if c.Has(key) {
		return true
	}
	notes, _ := filepath.Glob(filepath.Join(c.Dir, key+".*.json")) // the pattern is right
	for _, note := range notes {
		_ = removed(note) // of no use, and small
	}
	return removed(lock) == nil
}
