package methods

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"regexp"
	"strconv"
)

// Output is what a step writes, as far as it can be read while it runs: a file.
type Output struct {
	path string // empty: it cannot
	from int64  // what is before it is not of this start of the step
}

// Follow is the output from now on.
func Follow(stdout io.Writer) Output {
	f, ok := stdout.(*os.File)
	if !ok {
		return Output{}
	}
	st, err := f.Stat()
	if err != nil || !st.Mode().IsRegular() {
		return Output{} // a pipe or a terminal would be waited for
	}
	return Output{fmt.Sprintf("/proc/self/fd/%d", f.Fd()), st.Size()}
}

// telling finds "iteration 400", "iter: 400/1000", "timestep 7 of 90", "Epoch 3" and, as
// other things are called steps too, "step 7/90".
var telling = regexp.MustCompile(`(?i)\b(?:(?:iteration|iter|time ?step|epoch)[ .:=#]*([0-9]+)(?:\s*(?:/|of)\s*([0-9]+))?|step[ .:=#]*([0-9]+)\s*(?:/|of)\s*([0-9]+))`)

// notTelling are lines that tell of something else: of a checkpoint, which says what is
// safe, not how far the step is, and of those who speak on its output.
var notTelling = regexp.MustCompile(`(?i)checkpoint|^burst-srun:|^slurmstepd:|^srun:`)

// Iteration is how far the step says that it is, in the last line that does, and of how
// many iterations, 0 if it does not say; now is -1 if there is no such line.
func (o Output) Iteration() (now, of int64) {
	text := o.tail()
	for len(text) > 0 {
		i := bytes.LastIndexAny(text, "\n\r")
		if i < 0 {
			break
		}
		line := text[i+1:]
		text = text[:i]
		if now, of = told(line); now >= 0 {
			return now, of
		}
	}
	return told(text)
}

// tail is the end of the output in whole lines, of the last without its end.
func (o Output) tail() []byte {
	if o.path == "" {
		return nil
	}
	f, err := os.Open(o.path)
	if err != nil {
		return nil
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return nil
	}
	from := o.from
	if st.Size() < from {
		from = 0 // it was emptied
	}
	text, err := io.ReadAll(io.NewSectionReader(f, max(from, st.Size()-iterationTail), iterationTail))
	if err != nil {
		return nil
	}
	return text[:max(0, bytes.LastIndexAny(text, "\n\r"))] // the last line may not be whole
}

func told(line []byte) (now, of int64) {
	if notTelling.Match(line) {
		return -1, 0
	}
	all := telling.FindAllSubmatch(line, -1)
	if len(all) == 0 {
		return -1, 0
	}
	m := all[len(all)-1]
	now, err := strconv.ParseInt(string(m[1])+string(m[3]), 10, 64)
	if err != nil {
		return -1, 0
	}
	if of, err = strconv.ParseInt(string(m[2])+string(m[4]), 10, 64); err != nil || of < now {
		of = 0
	}
	return now, of
}
