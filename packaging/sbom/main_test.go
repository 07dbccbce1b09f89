package main

import (
	"os"
	"runtime"
	"slices"
	"testing"
)

// TestDescribe reads this test's own program, twice, as one of two architectures.
func TestDescribe(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	b, err := describe("1.2.3", []string{self, self, "build/libburst.so.1.2.0"})
	if err != nil {
		t.Fatal(err)
	}
	std := "pkg:golang/std@" + runtime.Version()
	if !slices.ContainsFunc(b.Components, func(c component) bool { return c.Ref == std }) {
		t.Errorf("no component %s in %+v", std, b.Components)
	}
	if len(b.Dependencies) != 2 || b.Dependencies[0].Ref != "burst" || len(b.Dependencies[0].On) != 2 {
		t.Errorf("burst is to depend on one program and one library: %+v", b.Dependencies)
	}
	if !slices.ContainsFunc(b.Components, func(c component) bool {
		return c.Type == "library" && c.Name == "libburst" && c.Version == "1.2.0"
	}) {
		t.Errorf("no libburst 1.2.0 in %+v", b.Components)
	}
	if _, err := describe("1.2.3", []string{"main.go"}); err == nil {
		t.Error("a source is a program")
	}
}
