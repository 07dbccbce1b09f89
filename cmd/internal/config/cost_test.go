package config

import (
	"os"
	"strings"
	"testing"
)

func TestCostSection(t *testing.T) {
	minimal, err := os.ReadFile("testdata/good/minimal.toml")
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]bool{"": false, "\n[cost]\n": false, "\n[cost]\ncomment = false\n": false, "\n[cost]\ncomment = true\n": true} {
		if c, err := parse("x", string(minimal)+text); err != nil || c.Cost.Comment != want {
			t.Errorf("%q: %v", text, err)
		}
	}
	_, err = parse("x", string(minimal)+"\n[cost]\ncomment = \"yes\"\ncoment = 1\n")
	if err == nil || !strings.Contains(err.Error(), "write true or false") || !strings.Contains(err.Error(), "cost.coment") {
		t.Error(err)
	}
}
