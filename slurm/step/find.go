package step

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// ErrNoSrun: srun is not on PATH.
var ErrNoSrun = errors.New("srun is not on PATH")

// FindSrun looks for srun on path, a PATH, and passes over self, the program
// that is called srun in its place, under whatever names and links.
func FindSrun(path string, self fs.FileInfo) (string, error) {
	for _, dir := range filepath.SplitList(path) {
		if !filepath.IsAbs(dir) {
			continue // a relative one would be another folder for the job's tasks
		}
		name := filepath.Join(dir, "srun")
		st, err := os.Stat(name)
		if err != nil || !st.Mode().IsRegular() || st.Mode()&0o111 == 0 || self != nil && os.SameFile(st, self) {
			continue
		}
		return name, nil
	}
	return "", ErrNoSrun
}
