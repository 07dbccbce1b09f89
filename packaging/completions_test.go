package packaging

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestCompletions: each shell finds what burst says for it, and a burst that cannot say it
// leaves nothing for a shell to stumble over. What a real burst says is tested with it.
func TestCompletions(t *testing.T) {
	build := t.TempDir()
	burst := filepath.Join(build, "bin/burst")
	install := func(script string) (stage string, err error) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(burst), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(burst, []byte("#!/bin/sh\n"+script), 0o755); err != nil {
			t.Fatal(err)
		}
		stage = t.TempDir()
		out, err := exec.CommandContext(t.Context(), "make", "-s", "-C", "..", "install-completions", "BUILD="+build, "DESTDIR="+stage, "PREFIX=/opt/b").CombinedOutput()
		t.Logf("%s", out)
		return stage, err
	}
	stage, err := install(`[ "$1" = completion ] && echo "for $2"`)
	if err != nil {
		t.Fatal(err)
	}
	for shell, path := range map[string]string{
		"bash": "bash-completion/completions/burst",
		"zsh":  "zsh/site-functions/_burst",
		"fish": "fish/vendor_completions.d/burst.fish",
	} {
		file := filepath.Join(stage, "opt/b/share", path)
		text, err := os.ReadFile(file)
		if err != nil || string(text) != "for "+shell+"\n" {
			t.Errorf("%s: %q, %v", shell, text, err)
		}
		if st, err := os.Stat(file); err != nil || st.Mode().Perm() != 0o644 {
			t.Errorf("%s: %v, %v", shell, st, err)
		}
	}
	stage, err = install("echo half; exit 1")
	if err == nil {
		t.Error("a burst that fails was installed")
	}
	left, _ := exec.Command("find", stage, "-type", "f").Output() // none is what is wanted
	if len(strings.TrimSpace(string(left))) > 0 {
		t.Errorf("left behind: %s", left)
	}
}
