package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestShimFolder(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "burst-srun"), nil, 0o755); err != nil {
		t.Fatal(err)
	}
	shim := filepath.Join(dir, "lib", "shim")
	if err := os.MkdirAll(shim, 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := shimFolder(shim, dir); err == nil || !strings.Contains(err.Error(), "no folder") {
		t.Error(err)
	}
	if err := os.Symlink("../../burst-srun", filepath.Join(shim, "srun")); err != nil {
		t.Fatal(err)
	}
	if got, err := shimFolder(dir, shim); err != nil || got != shim {
		t.Errorf("%s, %v", got, err)
	}
}

// TestShellCode has real shells run the code, twice but for csh, with a folder of an odd name.
func TestShellCode(t *testing.T) {
	const dir = "/opt/bu rst's/shim"
	for shell, code := range map[string]string{"sh": shCode(dir), "bash": shCode(dir), "zsh": shCode(dir), "tcsh": cshCode(dir)} {
		path, err := exec.LookPath(shell)
		if err != nil {
			t.Logf("%s is not here", shell)
			continue
		}
		script := code + "\n" + code + "\nprintenv PATH\n"
		cmd := exec.Command(path, "-c", script)
		if shell == "tcsh" {
			cmd = exec.Command(path, "-f", "-c", code+"\nprintenv PATH\n")
		}
		cmd.Env = []string{"PATH=/usr/bin:/bin"}
		out, err := cmd.CombinedOutput()
		if want := dir + ":/usr/bin:/bin\n"; err != nil || string(out) != want {
			t.Errorf("%s: %v, PATH=%q, want %q", shell, err, out, want)
		}
	}
}
