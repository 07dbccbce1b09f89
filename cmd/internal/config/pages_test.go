package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/BurntSushi/toml"

	"github.com/burst-hpc/burst/packaging/progtest"
)

// TestPages reads every toml block of the documentation. One that begins with cluster =
// is a whole file. Another is a part of testdata/pages/burst.toml: it is laid over that file, key by
// key, after the words behind its info string have said of which section its lines are,
// as in "toml pool.c6i".
func TestPages(t *testing.T) {
	site, err := os.ReadFile("testdata/pages/burst.toml")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := parse("testdata/pages/burst.toml", string(site)); err != nil {
		t.Fatal(err)
	}
	whole, parts := 0, 0
	for _, b := range progtest.Blocks(t) {
		if b.Lang != "toml" {
			continue
		}
		text := b.Text
		if strings.HasPrefix(text, "cluster =") {
			whole++
		} else {
			parts++
			if text, err = over(string(site), b); err != nil {
				t.Errorf("%s: %v", b.Where(0), err)
				continue
			}
		}
		path := filepath.Join(t.TempDir(), "burst.toml")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Load(path); err != nil {
			t.Errorf("%s: %v\n%s", b.Where(0), err, text)
		}
	}
	if whole < 5 || parts < 12 {
		t.Errorf("%d whole files and %d parts found", whole, parts)
	}
}

// over is a file with a block's keys in place of its own.
func over(file string, b progtest.Block) (string, error) {
	text := b.Text
	if b.Of != "" {
		text = "[" + b.Of + "]\n" + text
	}
	var under, above map[string]any
	if _, err := toml.Decode(file, &under); err != nil {
		return "", err
	}
	if _, err := toml.Decode(text, &above); err != nil {
		return "", err
	}
	lay(under, above)
	var out strings.Builder
	err := toml.NewEncoder(&out).Encode(under)
	return out.String(), err
}

func lay(under, above map[string]any) {
	for key, value := range above {
		below, _ := under[key].(map[string]any)
		table, ok := value.(map[string]any)
		if ok && below != nil {
			lay(below, table)
		} else {
			under[key] = value
		}
	}
}
