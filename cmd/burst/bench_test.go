package main

import (
	"strings"
	"testing"

	"github.com/burst-hpc/burst/cmd/internal/bench"
)

// TestBenchHelp: --help names the family of each benchmark that is run only if it is named.
func TestBenchHelp(t *testing.T) {
	help := benchCommand().Long
	for _, b := range bench.All() {
		family, _, _ := strings.Cut(b.Name, "-")
		if strings.Contains(help, " "+family+"-") != b.Long {
			t.Errorf("%s, which takes minutes: %v, and --help says %q", b.Name, b.Long, help)
		}
	}
}
