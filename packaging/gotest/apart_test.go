package main

import (
	"slices"
	"testing"
)

func TestSplit(t *testing.T) {
	const list = `{"ImportPath":"m/a","Imports":["fmt"],"TestImports":["testing"]}
{"ImportPath":"m/b","XTestImports":["m/slurm/sandbox"]}
{"ImportPath":"m/c","TestImports":["m/cmd/internal/rig"]}
{"ImportPath":"m/d","Imports":["m/cmd/internal/rig"]}
{"ImportPath":"m/slurm/sandbox"}
{"ImportPath":"m/cmd/internal/crash"}
{"ImportPath":"m/e"}
`
	side, alone, err := split([]byte(list))
	if want := []string{"m/a", "m/e"}; err != nil || !slices.Equal(side, want) {
		t.Errorf("side by side are %v, %v; want %v", side, err, want)
	}
	if want := []string{"m/b", "m/c", "m/d", "m/slurm/sandbox", "m/cmd/internal/crash"}; !slices.Equal(alone, want) {
		t.Errorf("alone are %v, want %v", alone, want)
	}
	if _, _, err := split([]byte("{")); err == nil {
		t.Error("half a list is a list")
	}
}

// TestOurs: no package that is named has gone, and those that start clusters are found.
func TestOurs(t *testing.T) {
	if testing.Short() {
		t.Skip("go list of the whole tree: run by make test")
	}
	side, alone, err := apart("../../...")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range append([]string{"/cmd/internal/e2e", "/cmd/internal/bench", "/cmd/internal/demo", "/cmd/internal/rehearse"}, slices.Concat(clusters, busy)...) {
		if !slices.Contains(alone, "github.com/burst-hpc/burst"+name) {
			t.Errorf("%s is not tested alone", name)
		}
	}
	if len(side) < len(alone) {
		t.Errorf("%d are tested side by side, %d alone: %v", len(side), len(alone), alone)
	}
}
