package rig

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// maxLog is how much of a file SaveLogs copies.
const maxLog = 64 << 20

// SaveLogs copies logs, configuration and the jobs' output to another folder,
// with the paths that they have in the site's.
func (s *Site) SaveLogs(to string) error {
	err := filepath.WalkDir(s.Dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return ignoreGone(err)
		}
		switch filepath.Ext(path) {
		case ".log", ".out", ".conf", ".toml", ".json", ".sbatch":
		default:
			return nil
		}
		if !e.Type().IsRegular() {
			return nil
		}
		rel, err := filepath.Rel(s.Dir, path)
		if err != nil {
			return err
		}
		return ignoreGone(copyFile(path, filepath.Join(to, rel)))
	})
	if err != nil {
		return fmt.Errorf("saving the logs to %s: %w", to, err)
	}
	return nil
}

// ignoreGone drops the error of a file that was removed while we looked.
func ignoreGone(err error) error {
	if os.IsNotExist(err) {
		return nil
	}
	return err
}

func copyFile(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	out, err := os.Create(to)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, io.LimitReader(in, maxLog))
	if e := out.Close(); err == nil {
		err = e
	}
	return err
}
