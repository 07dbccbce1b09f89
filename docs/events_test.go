package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/burst-hpc/burst/packaging/progtest"
)

// eventKinds are the kinds of events that the code writes: where it makes one,
// by its engine's shorthand, and a launch's refusals, of which there is one for
// each kind of error.
func eventKinds(t *testing.T) (kinds map[string]bool, source string) {
	t.Helper()
	kinds = map[string]bool{}
	found := func(file string, pattern string, prefix string) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		source += string(text)
		for _, m := range regexp.MustCompile(pattern).FindAllSubmatch(text, -1) {
			kinds[prefix+string(m[1])] = true
		}
	}
	root := progtest.Root(t)
	for _, dir := range []string{"slurm/power", "ft", "cmd/internal/daemon"} {
		files, err := filepath.Glob(filepath.Join(root, dir, "*.go"))
		if err != nil || len(files) == 0 {
			t.Fatal(dir, err)
		}
		for _, f := range files {
			if !strings.HasSuffix(f, "_test.go") {
				found(f, `(?s)\bTime:[^{}]{1,60}?, Kind: "([a-z-]*[a-z])"`, "")
				found(f, `\bconst \w+, \w+ = "([a-z]+-[a-z]+)"`, "")
				found(f, `\bconst \w+, \w+ = "[a-z-]+", "([a-z]+-[a-z]+)"`, "")
				found(f, `(?:\.event\(|\bev\.Kind, ev\.Text = )"([a-z-]*[a-z])"`, "")
			}
		}
	}
	found(filepath.Join(root, "cloud/errors.go"), `\bKind = "([a-z]+)"`, "no-")
	return kinds, source
}

// TestEventsAreExplained: whoever reads `burst events` at night finds each kind
// in the guide, and no kind that there is not.
func TestEventsAreExplained(t *testing.T) {
	_, rest, _ := strings.Cut(guides(t)["admin.md"], "Kinds of events:")
	table, _, _ := strings.Cut(rest, "\n## ")
	explained := map[string]bool{}
	for line := range strings.Lines(table) {
		first, _, _ := strings.Cut(strings.TrimPrefix(line, "|"), "|")
		for _, m := range regexp.MustCompile("`([a-z-]+)`").FindAllStringSubmatch(first, -1) {
			explained[m[1]] = true
		}
	}
	kinds, source := eventKinds(t)
	if len(kinds) < 30 {
		t.Fatalf("only %d kinds found: %v", len(kinds), kinds)
	}
	for k := range kinds {
		if !explained[k] {
			t.Errorf("admin.md does not explain the event %s", k)
		}
	}
	for k := range explained {
		if !kinds[k] && !strings.Contains(source, `"`+k+`"`) {
			t.Errorf("admin.md explains the event %s, which nothing writes", k)
		}
	}
}
