package tree

import (
	"go/parser"
	"go/token"
	"path"
	"slices"
	"strings"
	"testing"
)

const (
	comparer = "github.com/google/go-cmp/cmp"
	client   = module + "cloud/aws" // its SDK has hundreds of calls
)

// TestComparersOfClients: go-cmp asks reflect for methods by number, after which the
// linker keeps every method of everything. Beside EC2's client a test's program is
// three times as large, and each start of it slower: there tests compare by reflect.DeepEqual.
func TestComparersOfClients(t *testing.T) {
	links := map[string][]string{} // a package of ours, and what it imports
	for _, s := range sources(t) {
		at := module + path.Dir(s.path)
		links[at] = append(links[at], s.imports...)
	}
	seen := map[string]bool{}
	var reaches func(at string) bool
	reaches = func(at string) bool {
		if at == client {
			return true
		}
		if does, known := seen[at]; known {
			return does
		}
		seen[at] = slices.ContainsFunc(links[at], reaches)
		return seen[at]
	}
	comparing := map[string]string{} // a package, and its test that compares so
	tests := map[string][]string{}
	walk(t, func(name string, text []byte) {
		if !strings.HasSuffix(name, "_test.go") {
			return
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, text, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		at, imports := module+path.Dir(name), importsOf(t, f)
		tests[at] = append(tests[at], imports...)
		if slices.Contains(imports, comparer) {
			comparing[at] = name
		}
	})
	if !reaches(module + "cmd/burst") {
		t.Fatal("burst links no client: this is not our tree")
	}
	for at, name := range comparing {
		if at == module+"cmd/internal/config" { // which only reads what a client would be given, and links none of its calls
			continue
		}
		if reaches(at) || slices.ContainsFunc(tests[at], reaches) {
			t.Errorf("%s imports go-cmp, and %s is linked with it: compare by reflect.DeepEqual", name, client)
		}
	}
}
