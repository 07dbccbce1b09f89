package methods

import (
	"fmt"
	"io"
	"os"
	"regexp"
	"strconv"
)

// checkpointLine finds "checkpoint at iteration 400", and no other number.
var checkpointLine = regexp.MustCompile(`(?i)\bcheckpoint[^\n]*?\b(?:iteration|step)[ =:]+([0-9]+)`)

// iterationTail is how much of an output's end is searched.
const iterationTail = 64 << 10

// saidLast is the iteration of the last checkpoint that the step's output tells of,
// where that is a file; -1 if it is not known: a checkpoint is good without.
func saidLast(stdout io.Writer) int64 {
	f, ok := stdout.(*os.File)
	if !ok {
		return -1
	}
	return lastNumber(fmt.Sprintf("/proc/self/fd/%d", f.Fd()))
}

func lastNumber(path string) int64 {
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
	all := checkpointLine.FindAllSubmatch(text, -1)
	if len(all) == 0 {
		return -1
	}
	n, err := strconv.ParseInt(string(all[len(all)-1][1]), 10, 64)
	if err != nil || n < 0 {
		return -1
	}
	return n
}
