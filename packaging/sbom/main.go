// Command sbom prints what our programs are made of, as CycloneDX 1.5 in JSON: the modules
// that the linker has written into each file named. A library of C, whose name ends with its version
// after ".so.", is made of itself and the C library. Nothing in it is of the time or the place.
package main

import (
	"cmp"
	"debug/buildinfo"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
)

type bom struct {
	Format       string      `json:"bomFormat"`
	Spec         string      `json:"specVersion"`
	Version      int         `json:"version"`
	Metadata     metadata    `json:"metadata"`
	Components   []component `json:"components"`
	Dependencies []depends   `json:"dependencies"`
}

type metadata struct {
	Component component `json:"component"`
}

type component struct {
	Type       string     `json:"type"`
	Ref        string     `json:"bom-ref"`
	Name       string     `json:"name"`
	Version    string     `json:"version"`
	PURL       string     `json:"purl,omitempty"`
	Properties []property `json:"properties,omitempty"`
}

type property struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

type depends struct {
	Ref string   `json:"ref"`
	On  []string `json:"dependsOn"`
}

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "sbom: error: wrong usage\nsbom: hint: sbom VERSION PROGRAM|LIBRARY...")
		os.Exit(2)
	}
	b, err := describe(os.Args[1], os.Args[2:])
	if err == nil {
		enc := json.NewEncoder(os.Stdout)
		enc.SetIndent("", "  ")
		err = enc.Encode(b)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "sbom: error:", err)
		os.Exit(1)
	}
}

// describe reads programs; the same program of several architectures is one. Of libraries it reads the name.
func describe(version string, programs []string) (bom, error) {
	all, edges := map[string]component{}, map[string][]string{}
	self := component{Type: "application", Ref: "burst", Name: "burst", Version: version}
	for _, path := range programs {
		if name, v, ok := strings.Cut(filepath.Base(path), ".so."); ok {
			lib := component{Type: "library", Ref: "library:" + name, Name: name, Version: v}
			all[lib.Ref] = lib
			edges[self.Ref] = append(edges[self.Ref], lib.Ref)
			continue
		}
		info, err := buildinfo.ReadFile(path)
		if err != nil {
			return bom{}, fmt.Errorf("reading what %s is made of: %w", path, err)
		}
		program := component{Type: "application", Ref: "program:" + filepath.Base(path), Name: filepath.Base(path), Version: version}
		all[program.Ref] = program
		edges[self.Ref] = append(edges[self.Ref], program.Ref)
		std := &debug.Module{Path: "std", Version: info.GoVersion}
		for _, m := range append(info.Deps, std) {
			c := module(m)
			all[c.Ref] = c
			edges[program.Ref] = append(edges[program.Ref], c.Ref)
		}
	}
	b := bom{Format: "CycloneDX", Spec: "1.5", Version: 1, Metadata: metadata{self}}
	b.Components = slices.SortedFunc(maps.Values(all), func(x, y component) int { return cmp.Compare(x.Ref, y.Ref) })
	for _, ref := range slices.Sorted(maps.Keys(edges)) {
		slices.Sort(edges[ref])
		b.Dependencies = append(b.Dependencies, depends{ref, slices.Compact(edges[ref])})
	}
	return b, nil
}

// module is one that was linked, or what replaces it. Its sum is go.sum's, not a plain SHA-256
// of a file, so that it is a property.
func module(m *debug.Module) component {
	for m.Replace != nil {
		m = m.Replace
	}
	purl := "pkg:golang/" + m.Path + "@" + m.Version
	c := component{Type: "library", Ref: purl, Name: m.Path, Version: m.Version, PURL: purl}
	if m.Sum != "" {
		c.Properties = []property{{"burst:go.sum", m.Sum}}
	}
	return c
}
