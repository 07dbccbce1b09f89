package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// event is a line of go test -json: go doc test2json.
type event struct {
	Action, Package, Test, Output string
}

// view shows what go test shows without -v: a line for a package, and all that a test
// that has failed has written.
type view struct {
	to      io.Writer
	written map[string]map[string]*strings.Builder // by package and test; of a package itself by ""
	missed  map[string][]string                    // tests, by what they say
}

func newView(to io.Writer) *view {
	return &view{to, map[string]map[string]*strings.Builder{}, map[string][]string{}}
}

func (v *view) read(events io.Reader) error {
	lines := bufio.NewReader(events)
	for {
		line, err := lines.ReadBytes('\n')
		var e event
		switch {
		case len(line) == 0:
		case json.Unmarshal(line, &e) != nil:
			fmt.Fprintf(v.to, "%s", line) // what go itself has to say
		default:
			v.take(e)
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// own are go test's own lines, which -json has in between.
var own = regexp.MustCompile(`^=== (RUN|PAUSE|CONT|NAME) `)

// notTested is a test's word that it has not tried something: "x_test.go:7: NOT TESTED: why".
var notTested = regexp.MustCompile(`^\s*\S+_test\.go:[0-9]+: (.*NOT TESTED.*)`)

func (v *view) take(e event) {
	switch e.Action {
	case "build-output":
		fmt.Fprint(v.to, e.Output)
	case "output":
		if m := notTested.FindStringSubmatch(e.Output); m != nil {
			v.missed[m[1]] = append(v.missed[m[1]], e.Package+" "+e.Test)
		}
		if !own.MatchString(e.Output) {
			v.of(e).WriteString(e.Output)
		}
	case "pass", "skip":
		text := v.of(e).String()
		delete(v.written[e.Package], e.Test)
		if e.Test == "" { // its last line says how long it took, or that it has no tests
			lines := strings.SplitAfter(strings.TrimSuffix(text, "\n"), "\n")
			fmt.Fprintln(v.to, lines[len(lines)-1])
			delete(v.written, e.Package)
		}
	case "fail":
		if e.Test == "" { // with what tests have written that did not come to their end
			for _, test := range slices.Sorted(maps.Keys(v.written[e.Package])) {
				if test != "" {
					fmt.Fprint(v.to, v.written[e.Package][test])
				}
			}
		}
		text := v.of(e).String()
		fmt.Fprint(v.to, text, short(text))
		delete(v.written[e.Package], e.Test)
	}
}

// A test of a cluster shows all its logs once it has failed, below what it has failed by: after so many lines
// its own words are said again.
const long, words, wide = 40, 12, 400

// word is what a test says itself, but for the logs, which helpers_test.go shows.
var word = regexp.MustCompile(`(?m)^ +(\S+_test\.go:[0-9]+: .*)`)

// short are the last words of a long text; empty: the text is short.
func short(text string) string {
	if strings.Count(text, "\n") <= long {
		return ""
	}
	var all []string
	for _, m := range word.FindAllStringSubmatch(text, -1) {
		if !strings.HasPrefix(m[1], "helpers_test.go:") {
			all = append(all, "    in short: "+m[1][:min(len(m[1]), wide)]+"\n")
		}
	}
	return strings.Join(all[max(0, len(all)-words):], "")
}

func (v *view) of(e event) *strings.Builder {
	tests := v.written[e.Package]
	if tests == nil {
		tests = map[string]*strings.Builder{}
		v.written[e.Package] = tests
	}
	if tests[e.Test] == nil {
		tests[e.Test] = &strings.Builder{}
	}
	return tests[e.Test]
}

// end says what was not tried.
func (v *view) end() {
	if len(v.missed) == 0 {
		return
	}
	fmt.Fprintln(v.to, "\nWHAT THESE TESTS HAVE NOT TRIED HERE:")
	for _, what := range slices.Sorted(maps.Keys(v.missed)) {
		fmt.Fprintf(v.to, "  %s\n", what)
		for _, test := range v.missed[what] {
			fmt.Fprintf(v.to, "      %s\n", test)
		}
	}
}
