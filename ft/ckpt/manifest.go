package ckpt

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	// manifestName is the file that makes a folder a generation; it is written last.
	manifestName = "manifest.json"
	// sumName has the manifest's own SHA-256, as sha256sum -c reads it.
	sumName = "manifest.sha256"
	// manifestFormat is what this version writes and reads.
	manifestFormat = 1

	// Nobody's checkpoint has more; a manifest that does is garbage or hostile.
	maxManifest = 64 << 20 // bytes
	maxFiles    = 100_000
	maxName     = 4096 // bytes, as Linux's PATH_MAX
	maxWord     = 1024 // bytes of a word such as the method's name
	maxExtra    = 64 << 10
	maxCount    = 1_000_000_000
)

// encode returns the manifest's text and that of its sum, or why it would not
// be read again.
func (m *Manifest) encode() (text, sum []byte, err error) {
	if err := m.validate(); err != nil {
		return nil, nil, err
	}
	if text, err = json.MarshalIndent(m, "", "  "); err != nil {
		return nil, nil, err
	}
	text = append(text, '\n')
	if len(text) > maxManifest {
		return nil, nil, fmt.Errorf("the manifest would be over %d bytes long", maxManifest)
	}
	return text, []byte(sumText(text)), nil
}

// sumText is what sumName has for a manifest.
func sumText(text []byte) string {
	return fmt.Sprintf("%x  %s\n", sha256.Sum256(text), manifestName)
}

// parseManifest reads a manifest that anybody may have written. Keys that it
// does not know are a later version's, and are passed over.
func parseManifest(text []byte) (Manifest, error) {
	var m Manifest
	if len(text) > maxManifest {
		return m, fmt.Errorf("it is over %d bytes long", maxManifest)
	}
	d := json.NewDecoder(bytes.NewReader(text))
	if err := d.Decode(&m); err != nil {
		return Manifest{}, fmt.Errorf("it is not a manifest: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return Manifest{}, errors.New("there is more after the manifest's end")
	}
	if err := m.validate(); err != nil {
		return Manifest{}, err
	}
	return m, nil
}

func (m *Manifest) validate() error {
	switch {
	case m.Format != manifestFormat:
		return fmt.Errorf("its format is %d, this version of Burst reads %d", m.Format, manifestFormat)
	case m.N < 1 || m.N > maxCount:
		return fmt.Errorf("it says that it is generation %d", m.N)
	case m.Attempt < 0 || m.Attempt > maxCount:
		return fmt.Errorf("it says that it is of attempt %d", m.Attempt)
	case m.Ranks < 0 || m.Nodes < 0 || m.Took < 0 || m.Iteration < -1:
		return errors.New("it has a number below zero")
	case m.Method == "":
		return errors.New("it names no method")
	}
	words := []string{m.Cluster, m.Job, m.Step, m.Method, m.Tool, m.Machine.Arch, m.Machine.Glibc, m.Machine.Kernel}
	for _, w := range append(words, m.Machine.Features...) {
		if len(w) > maxWord || !printable(w) {
			return fmt.Errorf("%.40q is too long or cannot be printed", w)
		}
	}
	extra := 0
	for k, v := range m.Extra {
		if extra += len(k) + len(v); extra > maxExtra || !printable(k) {
			return fmt.Errorf("extra %.40q: too long, or cannot be printed", k)
		}
	}
	return validateFiles(m.Files)
}

// validateFiles wants files in order, each once, all below the folder.
func validateFiles(files []File) error {
	if len(files) > maxFiles {
		return fmt.Errorf("it has over %d files", maxFiles)
	}
	var sum int64
	for i, f := range files {
		if err := validName(f.Name); err != nil {
			return err
		}
		sum += f.Size
		switch {
		case i > 0 && f.Name <= files[i-1].Name:
			return fmt.Errorf("file %.200q: not in order, or twice", f.Name)
		case f.Size < 0 || sum < 0:
			return fmt.Errorf("file %.200q: no file has a size of %d bytes", f.Name, f.Size)
		case len(f.SHA256) != 2*sha256.Size || strings.Trim(f.SHA256, "0123456789abcdef") != "":
			return fmt.Errorf("file %.200q: its SHA-256 is none", f.Name)
		case f.Mode&^uint32(fs.ModePerm) != 0:
			return fmt.Errorf("file %.200q: its mode is none", f.Name)
		}
	}
	return nil
}

// validName says why a generation cannot have a file of that name.
func validName(name string) error {
	switch {
	case name == manifestName || name == sumName:
		return fmt.Errorf("file %s: that name is kept for Burst's own", name)
	case !utf8.ValidString(name):
		return fmt.Errorf("file %.200q: the name is not UTF-8", name)
	case !fs.ValidPath(name) || name == "." || len(name) > maxName || strings.ContainsRune(name, 0):
		return fmt.Errorf("file %.200q: the name is empty, too long, or leads out of the folder", name)
	}
	return nil
}

// printable: what a terminal shows as it is.
func printable(s string) bool {
	return utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) })
}

// ErrLater is wrapped by what is said of a generation that a later version of Burst
// wrote in a way of its own: this one cannot read it, and leaves it alone.
var ErrLater = errors.New("a later version of Burst wrote it")

// formatOf is the format that a manifest says it has; 0: it says none.
func formatOf(text []byte) int {
	var m struct {
		Format int `json:"format"`
	}
	if json.Unmarshal(text, &m) != nil {
		return 0
	}
	return m.Format
}

// readManifest reads the manifest of the folder dir of root. A *DamageError says
// that it is not what was written; any other error that it could not be read.
func readManifest(root *os.Root, dir string) (Manifest, error) {
	text, err := readBounded(root, path.Join(dir, manifestName), maxManifest)
	if err != nil {
		return Manifest{}, damagedIfMissing(err, root, dir, manifestName)
	}
	damaged := func(what string) (Manifest, error) {
		return Manifest{}, &DamageError{Dir: absOf(root, dir), File: manifestName, What: what}
	}
	sum, err := readBounded(root, path.Join(dir, sumName), 1024)
	switch want := sumText(text); {
	case err == nil && len(sum) == len(want) && string(sum) != want:
		return damaged("its SHA-256 is not the one in " + sumName)
	case formatOf(text) > manifestFormat: // which may have its sum elsewhere
		return Manifest{}, fmt.Errorf("checkpoint %s: %w: its format is %d, and this version reads %d", absOf(root, dir), ErrLater, formatOf(text), manifestFormat)
	case err != nil:
		return Manifest{}, damagedIfMissing(err, root, dir, sumName)
	case string(sum) != want:
		return damaged("there is no SHA-256 of it in " + sumName)
	}
	m, err := parseManifest(text)
	if err != nil {
		return damaged(err.Error())
	}
	return m, nil
}

var errTooLong = errors.New("it is too long")

// readBounded returns a regular file of up to limit bytes.
func readBounded(root *os.Root, name string, limit int64) ([]byte, error) {
	f, err := openRegular(root, name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return readOpen(f, limit)
}

func readOpen(f *os.File, limit int64) ([]byte, error) {
	info, err := f.Stat()
	if err == nil && info.Size() > limit {
		err = fmt.Errorf("%w: %d bytes, at most %d", errTooLong, info.Size(), limit)
	}
	if err != nil {
		return nil, err
	}
	return io.ReadAll(io.LimitReader(f, limit))
}
