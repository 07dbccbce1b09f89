package rehearse

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Program is a step's program. It is known by its bytes: one that has been built
// anew is another.
type Program struct {
	Path   string `json:"path"`             // absolute, if it is known
	SHA256 string `json:"sha256,omitempty"` // in hex; empty: it cannot be read
}

// Identify finds a program as a shell in the folder dir would, with PATH as given.
func Identify(name, dir, path string) Program {
	p := Program{Path: name}
	switch {
	case name == "":
		return p
	case filepath.IsAbs(name):
	case strings.Contains(name, "/"):
		p.Path = filepath.Join(dir, name)
	default:
		for _, d := range filepath.SplitList(path) {
			if found, err := exec.LookPath(filepath.Join(d, name)); err == nil && filepath.IsAbs(found) {
				p.Path = found
				break
			}
		}
	}
	if abs, err := filepath.Abs(p.Path); err == nil && strings.Contains(p.Path, "/") {
		p.Path = abs
	}
	if sum, err := sumOf(p.Path); err == nil {
		p.SHA256 = sum
	}
	return p
}

func sumOf(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	switch st, err := f.Stat(); {
	case err != nil:
		return "", err
	case !st.Mode().IsRegular():
		return "", fmt.Errorf("%s is no plain file", path)
	}
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
