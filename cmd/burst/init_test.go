package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/burst-hpc/burst/cmd/internal/config"
)

var example = regexp.MustCompile(`(?m)^#(\[{1,2}[a-z]|[a-z_]+ = )`)

// The sample is valid as it is, and with all its examples.
func TestSampleIsValid(t *testing.T) {
	for name, text := range map[string]string{
		"as it is":      sample,
		"with examples": example.ReplaceAllString(sample, "$1"),
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := load(t, text); err != nil {
				t.Error(err)
			}
		})
	}
}

var (
	header = regexp.MustCompile(`^\[{1,2}([a-z0-9.]+)\]`)
	setKey = regexp.MustCompile(`^(?:# )?([a-z_]+) = `)
	known  = regexp.MustCompile(`zzzzzzzz: .*known here are (.*)`)
)

// sectionOf is the section that a table is: of pool.try it is pool, of
// pool.try.checkpoint it is checkpoint.
func sectionOf(table string) string {
	first, rest, _ := strings.Cut(table, ".")
	if strings.HasSuffix(rest, ".checkpoint") {
		return "checkpoint"
	}
	return first
}

// The sample and burst.toml(5) tell of every key that the configuration knows.
func TestEveryKeyIsDescribed(t *testing.T) {
	manual, err := os.ReadFile("../../packaging/man/burst.toml.5")
	if err != nil {
		t.Fatal(err)
	}
	shown := map[string]bool{}
	section, text := "", "zzzzzzzz = 1\n"
	for line := range strings.Lines(example.ReplaceAllString(sample, "$1")) {
		text += line
		if m := header.FindStringSubmatch(line); m != nil {
			first, rest, _ := strings.Cut(m[1], ".")
			second, below, _ := strings.Cut(rest, ".")
			section = sectionOf(m[1]) + "."
			shown[first], shown[first+"."+second], shown[first+"."+below] = true, true, true
			text += "zzzzzzzz = 1\n"
		}
		if m := setKey.FindStringSubmatch(line); m != nil {
			shown[section+m[1]] = true
		}
	}
	_, err = load(t, text)
	if err == nil {
		t.Fatal("unknown keys were taken")
	}
	lines := strings.Split(err.Error(), "\n")[1:]
	if len(lines) != 20 {
		t.Fatalf("want an error for each section and the top, got %q", lines)
	}
	for _, line := range lines {
		m := known.FindStringSubmatch(line)
		where := regexp.MustCompile(`: (?:([a-z0-9.]+)\.)?zzzzzzzz`).FindStringSubmatch(line)
		if m == nil || where == nil {
			t.Fatalf("%q lists no keys", line)
		}
		for _, key := range strings.Split(m[1], ", ") {
			full := key
			if where[1] != "" {
				full = sectionOf(where[1]) + "." + key
			}
			if !shown[full] {
				t.Errorf("burst.toml does not show %s", full)
			}
			if !regexp.MustCompile(`(?m)^\.It .*\b` + key + `\b|^\.Ss .*\b` + key + `\b`).Match(manual) {
				t.Errorf("burst.toml(5) does not describe %s", full)
			}
		}
	}
}

func load(t *testing.T, text string) (*config.Config, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "burst.toml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return config.Load(path)
}

// TestInitAfterThePackage: what burst init writes may be there already; what the site has changed is kept.
func TestInitAfterThePackage(t *testing.T) {
	path := filepath.Join(t.TempDir(), "burst.toml")
	run := func() (string, error) {
		var said strings.Builder
		err := runInit(t.Context(), &said, initOptions{output: path})
		return said.String(), err
	}
	if said, err := run(); err != nil || !strings.Contains(said, "written") {
		t.Fatalf("%q, %v", said, err)
	}
	if said, err := run(); err != nil || !strings.Contains(said, "unchanged") {
		t.Errorf("%q, %v", said, err)
	}
	changed := sample + "# ours\n"
	if err := os.WriteFile(path, []byte(changed), 0o644); err != nil {
		t.Fatal(err)
	}
	if said, err := run(); err == nil {
		t.Errorf("a changed file: %q", said)
	}
	if now, err := os.ReadFile(path); err != nil || string(now) != changed {
		t.Errorf("the changed file is %q, %v", now, err)
	}
}
