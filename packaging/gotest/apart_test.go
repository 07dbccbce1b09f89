package main

import (
	"slices"
	"strings"
	"testing"
)

func TestSplit(t *testing.T) {
	const list = `{"ImportPath":"m/a","Imports":["fmt"],"TestImports":["testing"]}
{"ImportPath":"m/b","XTestImports":["m/slurm/sandbox"]}
{"ImportPath":"m/c","TestImports":["m/cmd/internal/rig"]}
{"ImportPath":"m/d","Imports":["m/cmd/internal/rig"]}
{"ImportPath":"m/slurm/sandbox"}
{"ImportPath":"m/cmd/internal/crash"}
{"ImportPath":"m/cmd/internal/bench","Imports":["m/cmd/internal/rig"]}
{"ImportPath":"m/cmd/internal/e2e","XTestImports":["m/cmd/internal/rig"]}
{"ImportPath":"m/e"}
`
	g, err := split([]byte(list))
	if want := []string{"m/a", "m/e"}; err != nil || !slices.Equal(g.side, want) {
		t.Errorf("side by side are %v, %v; want %v", g.side, err, want)
	}
	if want := []string{"m/cmd/internal/e2e", "m/b", "m/c", "m/d", "m/slurm/sandbox"}; !slices.Equal(g.pairs, want) {
		t.Errorf("in pairs are %v, want %v", g.pairs, want)
	}
	if want := []string{"m/cmd/internal/crash", "m/cmd/internal/bench"}; !slices.Equal(g.alone, want) {
		t.Errorf("alone are %v, want %v", g.alone, want)
	}
	if _, err := split([]byte("{")); err == nil {
		t.Error("half a list is a list")
	}
}

// TestOurs: no package that is named has gone, and those that start clusters are found.
func TestOurs(t *testing.T) {
	if testing.Short() {
		t.Skip("go list of the whole tree: run by make test")
	}
	g, err := apart("../../...")
	if err != nil {
		t.Fatal(err)
	}
	if len(g.pairs) == 0 || !strings.HasSuffix(g.pairs[0], longest) {
		t.Errorf("%v do not begin with %s", g.pairs, longest)
	}
	for _, name := range append([]string{"/cmd/internal/demo", "/cmd/internal/rehearse"}, clusters...) {
		if !slices.Contains(g.pairs, "github.com/burst-hpc/burst"+name) {
			t.Errorf("%s is not tested in a pair", name)
		}
	}
	for _, name := range busy {
		if !slices.Contains(g.alone, "github.com/burst-hpc/burst"+name) {
			t.Errorf("%s is not tested alone", name)
		}
	}
	if len(g.side) < len(g.pairs)+len(g.alone) {
		t.Errorf("%d are tested first, then %v and %v", len(g.side), g.pairs, g.alone)
	}
}
