package methods

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
)

// iterationSource says where the application tells how far it is: the last match
// in the end of a file or of the step's own output.
type iterationSource struct {
	file    string // a pattern; empty: the output
	pattern *regexp.Regexp
}

// defaultIteration finds "checkpoint at iteration 400", and no other number.
const defaultIteration = `(?i)\bcheckpoint[^\n]*?\b(?:iteration|step)[ =:]+([0-9]+)`

func newIterationSource(o Options) (iterationSource, error) {
	text := o.IterationPattern
	if text == "" {
		text = defaultIteration
	}
	re, err := regexp.Compile(text)
	if err != nil {
		return iterationSource{}, fmt.Errorf("the pattern of the iteration: %w", err)
	}
	if re.NumSubexp() < 1 {
		return iterationSource{}, fmt.Errorf("the pattern of the iteration, %s, has no (group) that is the number", text)
	}
	if _, err := filepath.Match(o.Iteration, ""); err != nil {
		return iterationSource{}, fmt.Errorf("the iteration's file %s: not a pattern of file names", o.Iteration)
	}
	return iterationSource{o.Iteration, re}, nil
}

// iterationTail is how much of a file's end is searched.
const iterationTail = 64 << 10

// read returns the iteration, -1 if it is not known: a checkpoint is good without.
func (s iterationSource) read(dir string, stdout io.Writer) int64 {
	path := ""
	if s.file == "" {
		f, ok := stdout.(*os.File)
		if !ok {
			return -1
		}
		path = fmt.Sprintf("/proc/self/fd/%d", f.Fd())
	} else {
		l, err := lookAt(dir, []string{s.file})
		if err != nil {
			return -1
		}
		var newest seen
		for _, f := range l.files() {
			if path == "" || f.mtime.After(newest.mtime) {
				newest, path = f, inPlace(dir, f.name)
			}
		}
	}
	return lastNumber(path, s)
}

func lastNumber(path string, s iterationSource) int64 {
	if st, err := os.Stat(path); err != nil || !st.Mode().IsRegular() {
		return -1 // a pipe or a terminal would be waited for
	}
	f, err := os.Open(path)
	if err != nil {
		return -1
	}
	defer f.Close()
	if st, err := f.Stat(); err == nil && st.Size() > iterationTail {
		f.Seek(-iterationTail, io.SeekEnd) // else all of it is read, and cut off
	}
	text, err := io.ReadAll(io.LimitReader(f, 2*iterationTail))
	if err != nil {
		return -1
	}
	all := s.pattern.FindAllSubmatch(text, -1)
	if len(all) == 0 {
		return -1
	}
	n, err := strconv.ParseInt(string(all[len(all)-1][1]), 10, 64)
	if err != nil || n < 0 {
		return -1
	}
	return n
}
