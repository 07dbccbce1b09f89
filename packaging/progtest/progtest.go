// Package progtest builds our programs for a test and reads what their --help
// says, to hold manual pages and guides to it.
package progtest

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Root is the top folder of the source, seen from the folder of a test.
func Root(t testing.TB) string {
	t.Helper()
	dir, err := os.Getwd()
	for err == nil && dir != "/" {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		dir = filepath.Dir(dir)
	}
	t.Fatal("no go.mod above the test's folder")
	return ""
}

// Build builds the programs of ./cmd, all if none is named, and returns the
// folder that they are in.
func Build(t testing.TB, names ...string) string {
	t.Helper()
	dir := t.TempDir()
	args := []string{"build", "-buildvcs=false", "-o", dir + "/"}
	for _, n := range names {
		args = append(args, "./cmd/"+n)
	}
	if len(names) == 0 {
		args = append(args, "./cmd/burst...")
	}
	root := Root(t)
	touch(t, root)
	build := exec.Command("go", args...)
	build.Dir = root
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return dir
}

// touch looks at all of the source, so that go's cache of test results notices
// a change of what the test builds.
func touch(t testing.TB, root string) {
	t.Helper()
	for _, room := range []string{"cmd", "slurm", "cloud", "ft"} {
		err := filepath.WalkDir(filepath.Join(root, room), func(_ string, _ fs.DirEntry, err error) error { return err })
		if err != nil {
			t.Fatal(err)
		}
	}
}

// Help is what one command says of itself.
type Help struct {
	Flags map[string]bool // "--json", "-o"; but for --help and -h
	Subs  []string        // names of its subcommands; but for help and completion
	Text  string
}

var (
	flagLine = regexp.MustCompile(`(?m)^ {2,6}(?:(-[A-Za-z]), )?--?([a-z][a-z-]+)\b`)
	subLine  = regexp.MustCompile(`^  ([a-z][a-z-]*) `)
)

// Read runs the program at path with the words and --help.
func Read(t testing.TB, path string, words ...string) Help {
	t.Helper()
	args := append(append([]string{}, words...), "--help")
	out, err := exec.Command(path, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", filepath.Base(path), strings.Join(args, " "), err, out)
	}
	return parse(string(out))
}

func parse(text string) Help {
	h := Help{Flags: map[string]bool{}, Text: text}
	for _, m := range flagLine.FindAllStringSubmatch(text, -1) {
		if m[2] == "help" {
			continue
		}
		h.Flags["--"+m[2]] = true
		if m[1] != "" {
			h.Flags[m[1]] = true
		}
	}
	_, list, _ := strings.Cut(text, "\nAvailable Commands:\n")
	for line := range strings.Lines(list) {
		m := subLine.FindStringSubmatch(line)
		if m == nil {
			break
		}
		if m[1] != "help" && m[1] != "completion" {
			h.Subs = append(h.Subs, m[1])
		}
	}
	return h
}

// Tree reads a program of subcommands. Its keys are the words after the
// program's name, "" for the program itself.
func Tree(t testing.TB, path string) map[string]Help {
	t.Helper()
	tree := map[string]Help{}
	var walk func(words []string)
	walk = func(words []string) {
		h := Read(t, path, words...)
		tree[strings.Join(words, " ")] = h
		for _, sub := range h.Subs {
			walk(append(words[:len(words):len(words)], sub))
		}
	}
	walk(nil)
	return tree
}
