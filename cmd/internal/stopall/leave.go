package stopall

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// Wish is what the red button leaves behind for a burstd that does not answer:
// that it launches nothing until somebody resumes.
type Wish struct {
	By  string `json:"by"`
	Why string `json:"why"`
}

// maxWish bounds what is read of a wish, in bytes.
const maxWish = 4 << 10

// Leave writes the wish so that it is whole, or not there, and durable when
// Leave returns nil. The folder must exist.
func Leave(path string, w Wish) error {
	text, err := json.Marshal(w)
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".new-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // gone already when the rename has succeeded
	_, err = f.Write(append(text, '\n'))
	if err = errors.Join(err, f.Chmod(0o644), f.Sync(), f.Close()); err != nil { // burstd's user reads what root has left
		return err
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return err
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// Left reads the wish; ok is false if there is none. That it is there is what
// counts: of one that cannot be read, By and Why say so.
func Left(path string) (w Wish, ok bool) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return Wish{}, false
	}
	if err == nil {
		defer f.Close()
		err = json.NewDecoder(io.LimitReader(f, maxWish)).Decode(&w)
	}
	if err != nil || w.By == "" || w.Why == "" {
		return Wish{By: "unknown", Why: fmt.Sprintf("the file %s is there", path)}, true
	}
	return w, true
}
