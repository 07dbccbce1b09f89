package main

import (
	"bytes"
	"os/exec"
	"strings"
	"testing"
)

// TestCompletion: what burst has shells load is a program of theirs, and knows of burst's
// commands; the shells that are here parse it.
func TestCompletion(t *testing.T) {
	for _, shell := range []string{"bash", "zsh", "fish"} {
		var out bytes.Buffer
		root := newRoot()
		root.SetOut(&out)
		root.SetArgs([]string{"completion", shell})
		if err := root.Execute(); err != nil || out.Len() < 1000 || !strings.Contains(out.String(), "__complete") {
			t.Errorf("completion %s: %v, %d bytes", shell, err, out.Len())
		}
		t.Run(shell, func(t *testing.T) {
			path, err := exec.LookPath(shell)
			if err != nil && shell != "bash" {
				t.Skipf("NOT TESTED: %s parses its completions: no %s is here (make deps brings it)", shell, shell)
			}
			cmd := exec.CommandContext(t.Context(), path, "-n")
			cmd.Stdin = &out
			if said, err := cmd.CombinedOutput(); err != nil || len(said) > 0 {
				t.Errorf("%s -n: %v: %s", shell, err, said)
			}
		})
	}
	var out bytes.Buffer
	root := newRoot()
	root.SetOut(&out)
	root.SetErr(&out)
	root.SetArgs([]string{"__complete", "checkpoint", "re"})
	if err := root.Execute(); err != nil || !strings.Contains(out.String(), "rehearse\t") {
		t.Errorf("burst checkpoint re<TAB>: %v: %s", err, out.String())
	}
}
