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

// clusters are the packages that start a cluster. What tests import them want the
// machine for themselves: they count on seconds.
var clusters = []string{"/slurm/sandbox", "/cmd/internal/rig"}

// busy are further packages whose tests keep all processors busy, or say how long
// something may take.
var busy = []string{"/cmd/internal/crash", "/contrib/heat", "/contrib/libburst"}

// apart lists the packages of a pattern: those that are tested side by side, and those
// that are tested alone.
func apart(pattern string) (side, alone []string, err error) {
	cmd := exec.Command("go", "list", "-json=ImportPath,Imports,TestImports,XTestImports", pattern)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, nil, fmt.Errorf("listing %s: %w", pattern, err)
	}
	return split(out)
}

func split(list []byte) (side, alone []string, err error) {
	for d := json.NewDecoder(bytes.NewReader(list)); ; {
		var p listed
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return side, alone, nil
		} else if err != nil {
			return nil, nil, fmt.Errorf("reading go list: %w", err)
		}
		if p.alone() {
			alone = append(alone, p.ImportPath)
		} else {
			side = append(side, p.ImportPath)
		}
	}
}

func (p listed) alone() bool {
	is := func(all []string) func(string) bool {
		return func(path string) bool {
			return slices.ContainsFunc(all, func(end string) bool { return strings.HasSuffix(path, end) })
		}
	}
	needs := slices.Concat([]string{p.ImportPath}, p.Imports, p.TestImports, p.XTestImports)
	return is(busy)(p.ImportPath) || slices.ContainsFunc(needs, is(clusters))
}
