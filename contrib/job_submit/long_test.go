package jobsubmit

import (
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// TestLongScripts: slurmctld waits meanwhile, for as large a script as it takes, and
// for as hard a one as somebody may make it.
func TestLongScripts(t *testing.T) {
	if testing.Short() {
		t.Skip("it is about time")
	}
	const read = 60 << 10 // as much as is read at most
	size := 4 << 20
	scripts := map[string]struct{ head, text, tail string }{
		"comments": {"", "# text\n", ""}, "shortest comments": {"", "#\n", ""}, "empty lines": {"", "\n", ""}, "blank lines": {"", " \n", ""}, "one line of blanks": {"", " ", ""}, "one comment": {"", "#", ""},
		"directives": {"", "#BURST\n", ""}, "directives with blanks": {"", "#BURST   \n", ""}, "one directive": {"#BURST run=", "x", ""}, "escapes": {`#BURST run="`, `\\`, ""}, "quotes": {"#BURST run=", `""`, ""}, "settings": {"#BURST ", "a=1 ", ""},
		"commands": {"", "true\n", ""}, "directives below": {"true\n", "#BURST\n", ""}, "nearly directives": {"", "#burst\n", ""}, "nearly directives below": {"true\n", "#BURSTX\n", ""}, "blanks below": {"true\n", " ", ""}, "lines below": {"true\n", "\n", ""}, "wide blanks": {"", "\u3000", ""},
		"colons": {"#B", ":", "x"}, "colons after the word": {"#BURST", ":", "x"}, "words of colons": {"", "#burst:::::::x\n", ""},
		"times": {"#BURST interval=", "1h", ""}, "times without a unit": {"#BURST interval=", "1", "."}, "points": {"#BURST grace=", ".", "s"}, "parts of a time": {"#BURST grace=", "1.", "s"}, "signs": {"#BURST interval=", "+", "1s"}, "zeros": {"#BURST interval=", "0", "1s"}, "an hour of digits": {"#BURST interval=", "1", "h"},
		"digits": {"#BURST keep=", "1", "x"}, "nought": {"#BURST keep=", "0", ""}, "signs of a number": {"#BURST retries=", "+", "1"},
		"a key": {"#BURST ", "x", "=1"}, "a word": {"#BURST ", "x", ""}, "blanks before a word": {"#BURST ", " \t", "x"}, "signs of keys": {"#BURST ", "=", ""}, "open quotes": {"#BURST dir=", `"'"`, ""}, "quoted keys": {"#BURST ", `"" `, ""},
		"signals": {"#BURST signal=", "B:", "USR1"}, "more signals": {"#BURST signal=", "SIG", ""}, "labels": {"#BURST label=", "a.", "/"}, "images": {"#BURST container=", " \u00a0", "x"},
		"folders": {"#BURST dir=", "%u", ""}, "folders above": {"#BURST dir='/", "../a/", "'"}, "patterns": {"#BURST files='", "a[", "'"}, "stars": {"#BURST files='", "*a", "['"}, "many patterns": {"#BURST files='", "a ", "'"}, "paths": {"#BURST files='", "a/../", "'"},
		"characters": {"#BURST ", "\u20ac", ""}, "bytes that are none": {"#BURST ", "\xc2", ""}, "controls": {"#BURST ", "\x01", ""}, "continued": {"#BURST ", "\x80", ""},
		"half directives below": {"true\n", "\n \t #BURS", ""}, "blanks before a directive below": {"true\n\n", "\t ", "#BURST"}, "tabs and lines below": {"true\n", "\n\t", ""},
	}
	luas := interpreters(t)
	for _, l := range luas {
		var names []string
		var jobs []job
		for name, s := range scripts {
			of := func(size int) string {
				return s.head + strings.Repeat(s.text, (size-len(s.head)-len(s.tail))/len(s.text)) + s.tail
			}
			names = append(names, name, name+", read", name+", of the comment", name+", of the site's part")
			said := strings.TrimPrefix(of(read), "#BURST")
			jobs = append(jobs, job{script: of(size)}, job{script: of(read)}, job{comment: "burst:" + said}, job{comment: "burst-site:" + said})
		}
		names = append(names, "a comment of blanks", "partitions")
		jobs = append(jobs, job{comment: strings.Repeat(" ", size)}, job{partition: strings.Repeat("a,", size/2)})
		_, all := submit(t, l, site, jobs...)
		worst := 0.0
		for i, d := range all {
			took, err := strconv.ParseFloat(d.took, 64)
			if worst = max(worst, took); err != nil || took > 0.2 {
				t.Errorf("%s: %s: %s s, %v", filepath.Base(l), names[i], d.took, err)
			}
		}
		t.Logf("%s: at most %.1f ms", filepath.Base(l), worst*1000)
	}
}
