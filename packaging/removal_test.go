package packaging

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/burst-hpc/burst/packaging/progtest"
)

// TestRemoval: neither package goes while the journal has an instance, or cannot be read, unless
// the admin says that the instances are abandoned.
func TestRemoval(t *testing.T) {
	bin := t.TempDir()
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\n"+text+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	write("systemctl", `echo "systemctl $*"`) // never this host's
	for _, tt := range []struct {
		name, burstd, env string
		refused           string
	}{
		{name: "nothing lives", burstd: "exit 0"},
		{name: "an instance lives", burstd: "echo instance i-1", refused: "instance i-1"},
		{name: "the journal cannot be read", burstd: "echo it is torn >&2; exit 1", refused: "it is torn"},
		{name: "it says nothing of why", burstd: "exit 1", refused: "cannot be told"},
		{name: "abandoned", burstd: "echo instance i-1", env: "BURST_ABANDON=1"},
	} {
		write("burstd", `[ "$*" = --unended ] || exit 9`+"\n"+tt.burstd)
		for _, pkg := range []string{"burst", "burst-node"} {
			for _, step := range []string{"remove", "0"} { // deb's word, and rpm's
				cmd := exec.Command("sh", "nfpm/"+pkg+"/preremove.sh", step)
				cmd.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), tt.env)
				out, err := cmd.CombinedOutput()
				said := string(out)
				switch {
				case tt.refused == "" && (err != nil || strings.Contains(said, "NOT REMOVED")):
					t.Errorf("%s: %s %s: %v\n%s", tt.name, pkg, step, err, said)
				case tt.refused != "" && (err == nil || !strings.Contains(said, pkg+": NOT REMOVED") || strings.Contains(said, "systemctl")):
					t.Errorf("%s: %s %s is not refused: %v\n%s", tt.name, pkg, step, err, said)
				case tt.refused != "" && (!strings.Contains(said, "moved to another host") || !strings.Contains(said, "BURST_ABANDON=1")):
					t.Errorf("%s: %s %s does not ask whether another host has burstd:\n%s", tt.name, pkg, step, said)
				case strings.Contains(said, "stop-all") && strings.Index(said, "moved to another host") > strings.Index(said, "stop-all"):
					t.Errorf("%s: it advises stop-all before it asks whether another host has burstd:\n%s", tt.name, said)
				case pkg == "burst" && !strings.Contains(said, tt.refused):
					t.Errorf("%s: it does not say %q:\n%s", tt.name, tt.refused, said)
				}
			}
		}
	}
}

// TestMoved: by the lines of docs/backup.md, a host that burstd has left keeps nothing by which a
// removal or a `burst stop-all` there would know the instances, and nothing is lost.
func TestMoved(t *testing.T) {
	var lines string
	for _, b := range progtest.Blocks(t) {
		if b.File == "docs/backup.md" && strings.HasPrefix(b.Text, "systemctl disable --now burstd") {
			lines = b.Text
		}
	}
	dir := t.TempDir()
	files := []string{"burst.db", "burst.db-wal", "cluster-id"}
	for _, name := range append(files, "words.secret") {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const stub = "systemctl() { echo systemctl \"$@\"; }\n"
	out, err := exec.Command("bash", "-c", stub+strings.ReplaceAll(lines, "/var/lib/burst", dir)).CombinedOutput()
	if err != nil || string(out) != "systemctl disable --now burstd\n" {
		t.Fatalf("%v: %s", err, out)
	}
	for _, name := range files {
		kept, _ := filepath.Glob(filepath.Join(dir, "moved.*", name))
		if len(kept) != 1 {
			t.Errorf("%s is kept as %v", name, kept)
		}
	}
	left, _ := filepath.Glob(filepath.Join(dir, "*"))
	if len(left) != 2 {
		t.Errorf("what is left: %v", left)
	}
}
