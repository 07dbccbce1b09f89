package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
)

// listed is what go list says of a package.
type listed struct {
	ImportPath                         string
	Imports, TestImports, XTestImports []string
}

// clusters are the packages that start a cluster. What tests import them wait for Slurm
// for nine tenths of their time, but count on seconds.
var clusters = []string{"/slurm/sandbox", "/cmd/internal/rig"}

// busy are packages whose tests keep all processors busy, or measure.
var busy = []string{"/cmd/internal/bench", "/cmd/internal/crash", "/contrib/heat", "/contrib/libburst"}

// longest takes as long as all others with clusters together.
const longest = "/cmd/internal/e2e"

// groups are packages: those of side are tested two at a time, and after them those of
// pairs, the longest first, and those of alone by themselves.
type groups struct{ side, pairs, alone []string }

// apart lists the packages of a pattern.
func apart(pattern string) (groups, error) {
	cmd := exec.Command("go", "list", "-json=ImportPath,Imports,TestImports,XTestImports", pattern)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return groups{}, fmt.Errorf("listing %s: %w", pattern, err)
	}
	return split(out)
}

func split(list []byte) (g groups, err error) {
	for d := json.NewDecoder(bytes.NewReader(list)); ; {
		var p listed
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return g, nil
		} else if err != nil {
			return groups{}, fmt.Errorf("reading go list: %w", err)
		}
		switch needs := slices.Concat([]string{p.ImportPath}, p.Imports, p.TestImports, p.XTestImports); {
		case among(busy)(p.ImportPath):
			g.alone = append(g.alone, p.ImportPath)
		case !slices.ContainsFunc(needs, among(clusters)):
			g.side = append(g.side, p.ImportPath)
		case strings.HasSuffix(p.ImportPath, longest):
			g.pairs = slices.Insert(g.pairs, 0, p.ImportPath)
		default:
			g.pairs = append(g.pairs, p.ImportPath)
		}
	}
}

func among(ends []string) func(string) bool {
	return func(path string) bool {
		return slices.ContainsFunc(ends, func(end string) bool { return strings.HasSuffix(path, end) })
	}
}
