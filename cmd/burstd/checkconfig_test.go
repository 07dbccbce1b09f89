package main

import (
	"flag"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/burst-hpc/burst/cmd/internal/cli"
)

// TestCheckConfig: --check-config reads the configuration, and starts nothing.
func TestCheckConfig(t *testing.T) {
	sample, err := os.ReadFile("../burst/burst.toml")
	if err != nil {
		t.Fatal(err)
	}
	args, flags := os.Args, flag.CommandLine
	t.Cleanup(func() { os.Args, flag.CommandLine = args, flags })
	dir := t.TempDir()
	for name, tt := range map[string]struct {
		text string
		code int
	}{
		"the sample":         {string(sample), 0},
		"a key that is none": {"no_such_key = 1\n" + string(sample), cli.Usage},
		"no TOML":            {"[", cli.Usage},
	} {
		path := filepath.Join(dir, "burst.toml")
		if err := os.WriteFile(path, []byte(tt.text), 0o600); err != nil {
			t.Fatal(err)
		}
		os.Args = []string{"burstd", "--check-config", "--config", path}
		flag.CommandLine = flag.NewFlagSet("burstd", flag.ContinueOnError)
		code := 0
		if err := run(t.Context()); err != nil {
			code = cli.Report(io.Discard, err)
		}
		if left, _ := filepath.Glob(filepath.Join(dir, "*")); code != tt.code || len(left) != 1 {
			t.Errorf("%s: exit code %d, want %d; there are %v", name, code, tt.code, left)
		}
	}
}
