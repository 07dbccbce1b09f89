package local

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/burst-hpc/burst/cloud"
)

// Folders that are being made, or removed, under instances/.
const (
	newPrefix = ".new-"
	oldPrefix = ".old-"
)

// prune forgets the launches whose instances have all ended long ago. The
// launch goes first: its token must not bring back instances that are gone.
func (s store) prune(ctx context.Context) error {
	unlock, err := s.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	inUse, err := s.pruneLaunches()
	if err != nil {
		return err
	}
	entries, err := os.ReadDir(filepath.Join(s.dir, "instances"))
	if err != nil {
		return err
	}
	for _, e := range entries {
		id := e.Name()
		if strings.HasPrefix(id, newPrefix) || strings.HasPrefix(id, oldPrefix) {
			if err := os.RemoveAll(s.path(id, "")); err != nil {
				return err
			}
			continue
		}
		old, err := s.allOld([]string{id})
		if err != nil {
			return err
		}
		if inUse[id] || !old {
			continue
		}
		for _, kind := range []cloud.NoticeKind{cloud.SpotInterruption, cloud.StateChange} {
			if err := os.Remove(s.noticePath(cloud.Notice{Instance: id, Kind: kind})); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
		// Renamed first: a half removed folder is none.
		if err := os.Rename(s.path(id, ""), s.path(oldPrefix+id, "")); err != nil {
			return err
		}
		if err := os.RemoveAll(s.path(oldPrefix+id, "")); err != nil {
			return err
		}
	}
	return nil
}

// pruneLaunches forgets launches and returns the instances of the others.
func (s store) pruneLaunches() (inUse map[string]bool, err error) {
	dir := filepath.Join(s.dir, "launches")
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	inUse = map[string]bool{}
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".json") {
			continue
		}
		path := filepath.Join(dir, e.Name())
		var l launch
		if _, err := readJSON(path, &l); err != nil {
			return nil, err
		}
		old, err := s.allOld(l.IDs)
		if err != nil {
			return nil, err
		}
		if old {
			if err := os.Remove(path); err != nil {
				return nil, err
			}
			continue
		}
		for _, id := range l.IDs {
			inUse[id] = true
		}
	}
	return inUse, nil
}

// allOld says whether all instances ended longer than keep ago.
func (s store) allOld(ids []string) (bool, error) {
	for _, id := range ids {
		var e end
		ok, err := readJSON(s.path(id, endedFile), &e)
		if err != nil || !ok || time.Since(e.Time) <= keep {
			return false, err
		}
	}
	return true, nil
}
