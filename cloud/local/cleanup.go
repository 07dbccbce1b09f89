package local

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/burst-hpc/burst/slurm/slurmd"
)

// Cleanup ends all instances and removes all that New and Launch have made.
// Nothing may launch meanwhile.
func Cleanup(cfg Config) error {
	if err := cfg.Validate(); err != nil {
		return err
	}
	s := store{cfg.Dir}
	ids, err := s.ids()
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, id := range ids {
		if err := s.terminate(id, "cleaned up"); err != nil {
			return err
		}
	}
	for _, id := range ids {
		if err := s.awaitEnd(id); err != nil {
			return err
		}
		// The machine itself may be on its last steps, or have a rival on its first.
		if err := slurmd.KillMarked(instanceEnv+"="+id, s.path(id, "")); err != nil {
			return err
		}
	}
	if cfg.Network == NetNS {
		if err := cfg.removeBridge(); err != nil {
			return err
		}
	}
	for _, name := range []string{"instances", "launches", "notices", "control", accountFile, lockFile} {
		if err := os.RemoveAll(filepath.Join(cfg.Dir, name)); err != nil {
			return err
		}
	}
	if err := os.Remove(cfg.Dir); err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrExist) {
		return err // fs.ErrExist: others' files are in it
	}
	return nil
}
