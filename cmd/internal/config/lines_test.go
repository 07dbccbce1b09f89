package config

import (
	"strings"
	"testing"

	"github.com/BurntSushi/toml"
)

// TestLines: keys of the tables of an array have their own lines, which is that of their table where
// a text of theirs has what looks like a header.
func TestLines(t *testing.T) {
	text := `x = 1
[[pool.a.then]] # the first
provider = "lon"
setup = """
[[pool.a.then]]
x = 1
"""
[pool.a.then.ssh]
port = 22
[[pool.a.then]]
zones = [
  ["a"],
]
ssh = { user = "x" }
[[pool.a.then.mounts]]
kind = "nfs"
[[pool.a.then.mounts]]
kind = "efs"
[b]
provider = "b"
`
	var tree map[string]any
	md, err := toml.Decode(text, &tree)
	if err != nil {
		t.Fatal(err)
	}
	got := linesOf(text, md.Keys())
	for key, want := range map[string]int{"x": 1, "b.provider": 20, "pool.a.then.1": 2, "pool.a.then.1.provider": 0} {
		if got[key] != want {
			t.Errorf("%s is in line %d, want %d", key, got[key], want)
		}
	}
	// Without the text that looks like a header all are found.
	text = strings.Replace(text, "[[pool.a.then]]\nx = 1\n", "\n\n", 1)
	if md, err = toml.Decode(text, &tree); err != nil {
		t.Fatal(err)
	}
	got = linesOf(text, md.Keys())
	for key, want := range map[string]int{"pool.a.then.1.provider": 3, "pool.a.then.1.ssh": 8, "pool.a.then.1.ssh.port": 9, "pool.a.then.2": 10,
		"pool.a.then.2.zones": 11, "pool.a.then.2.ssh.user": 14, "pool.a.then.2.mounts.1.kind": 16, "pool.a.then.2.mounts.2.kind": 18} {
		if got[key] != want {
			t.Errorf("%s is in line %d, want %d: %v", key, got[key], want, got)
		}
	}
}
