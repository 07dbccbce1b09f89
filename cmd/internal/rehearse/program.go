package rehearse

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// Program is a step's program. It is known by its bytes: one that has been built
// anew is another.
type Program struct {
	Name   string `json:"name"`             // as the script has it
	SHA256 string `json:"sha256,omitempty"` // in hex; empty: it cannot be read
}

// Identify finds a program as a shell in this process's folder would, with PATH as
// given.
func Identify(name, path string) Program {
	p := Program{Name: name}
	if name == "" {
		return p
	}
	places := []string{name}
	if !strings.Contains(name, "/") {
		places = nil
		for _, dir := range filepath.SplitList(path) {
			places = append(places, filepath.Join(dir, name))
		}
	}
	for _, file := range places {
		if st, err := os.Stat(file); err != nil || !st.Mode().IsRegular() || st.Mode()&0o111 == 0 {
			continue
		}
		if sum, err := sumOf(file); err == nil {
			p.SHA256 = sum
		}
		break
	}
	return p
}

func sumOf(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
