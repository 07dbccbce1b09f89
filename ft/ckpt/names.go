package ckpt

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
)

const (
	partSuffix  = ".part"
	badSuffix   = ".bad"
	trashPrefix = ".trash-"
	lockName    = ".lock"
	begunName   = "begun.json"
	whyName     = "why.txt"
)

func attemptName(attempt int) string { return fmt.Sprintf("attempt-%d", attempt) }

// dirOf is the generation's folder, in the step's.
func dirOf(id ID) string { return path.Join(attemptName(id.Attempt), fmt.Sprintf("gen-%d", id.N)) }

// number reads a number as we write it: no sign, no zeros before it.
func number(s string) (int, bool) {
	n, err := strconv.Atoi(s)
	return n, err == nil && n >= 0 && n <= maxCount && strconv.Itoa(n) == s
}

// numbered reads prefix-<n>.
func numbered(prefix, name string) (int, bool) {
	s, ok := strings.CutPrefix(name, prefix)
	if !ok {
		return 0, false
	}
	return number(s)
}

// attempts that have a folder, sorted.
func (f *Folder) attempts() ([]int, error) {
	names, err := namesIn(f.root, ".")
	if err != nil {
		return nil, err
	}
	var all []int
	for _, name := range names {
		n, ok := numbered("attempt-", name)
		if !ok {
			continue
		}
		switch info, err := f.root.Lstat(name); {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return nil, err // to pass it over would be to begin the step anew
		case info.IsDir():
			all = append(all, n)
		}
	}
	slices.Sort(all)
	return all, nil
}

// contents of an attempt's folder.
type contents struct {
	whole, part, bad []int
	trash, scratch   []string
	records          []string // of a beginning, half written
}

func (c contents) count() int { return len(c.whole) + len(c.part) + len(c.bad) }

// contents of an attempt; one without a folder has none.
func (f *Folder) contents(attempt int) (contents, error) {
	var c contents
	names, err := namesIn(f.root, attemptName(attempt))
	if errors.Is(err, fs.ErrNotExist) {
		return c, nil
	}
	if err != nil {
		return c, err
	}
	for _, name := range names {
		switch {
		case strings.HasPrefix(name, trashPrefix):
			c.trash = append(c.trash, name)
			continue
		case strings.HasPrefix(name, scratchPrefix):
			c.scratch = append(c.scratch, name)
			continue
		case strings.HasPrefix(name, "."+begunName+"-"):
			c.records = append(c.records, name)
			continue
		}
		base, part := strings.CutSuffix(name, partSuffix)
		base, bad := strings.CutSuffix(base, badSuffix)
		n, ok := numbered("gen-", base)
		switch {
		case !ok || n == 0 || part && bad:
		case part:
			c.part = append(c.part, n)
		case bad:
			c.bad = append(c.bad, n)
		default:
			c.whole = append(c.whole, n)
		}
	}
	return c, nil
}

// maxNames is more than a folder of ours ever has.
const maxNames = 1_000_000

// namesIn lists a folder, in no order.
func namesIn(root *os.Root, dir string) ([]string, error) {
	d, err := openDir(root, dir)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	names, err := d.Readdirnames(maxNames)
	if errors.Is(err, io.EOF) {
		err = nil // it is empty
	}
	if err == nil && len(names) == maxNames {
		err = fmt.Errorf("%s has %d names or more", absOf(root, dir), maxNames)
	}
	return names, err
}
