package container

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// workSuffix ends the names of folders in which images are made.
const workSuffix = ".tmp"

// works are the folders in which an image was being made.
func (c Cache) works(key string) []string {
	all, _ := filepath.Glob(filepath.Join(c.Dir, key+".*"+workSuffix)) // the pattern is right
	return all
}

// workOf is the key of the image that is made in the folder of the name.
func workOf(name string) (key string, is bool) {
	key, _, _ = strings.Cut(name, ".") // a key has none
	return key, strings.HasSuffix(name, workSuffix) && name != key+workSuffix
}

// removedTree deletes a file, or a folder with all that is in it: those of an image may be
// closed to their own user.
func removedTree(path string) error {
	if os.RemoveAll(path) == nil {
		return nil
	}
	_ = filepath.WalkDir(path, func(p string, e fs.DirEntry, err error) error { // RemoveAll says what is wrong
		if err == nil && e.IsDir() {
			_ = os.Chmod(p, 0o700)
		}
		return nil
	})
	return os.RemoveAll(path)
}

// treeSize is about how many bytes the files of a folder have.
func treeSize(dir string) (n int64) {
	_ = filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error { // who makes the image deletes them meanwhile
		if err == nil && e.Type().IsRegular() {
			if info, err := e.Info(); err == nil {
				n += info.Size()
			}
		}
		return nil
	})
	return n
}
