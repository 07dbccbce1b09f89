package docs

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/burst-hpc/burst/packaging/progtest"
)

// TestLogLines: what troubleshooting.md says that the log says is in a program of ours, word
// by word but for what an … stands for.
func TestLogLines(t *testing.T) {
	root := progtest.Root(t)
	var source strings.Builder
	for _, room := range []string{"cmd", "slurm", "ft", "cloud"} {
		err := filepath.WalkDir(filepath.Join(root, room), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
				return err
			}
			text, err := os.ReadFile(path)
			source.Write(text)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	_, table, _ := strings.Cut(guides(t)["troubleshooting.md"], "| the log says |")
	lines := regexp.MustCompile("(?m)^\\| (`+) ?([^|]*?) ?`+ \\|").FindAllStringSubmatch(table, -1)
	if len(lines) < 20 {
		t.Fatalf("only %d lines of the log found", len(lines))
	}
	for _, l := range lines {
		for part := range strings.SplitSeq(l[2], "…") {
			if !strings.Contains(source.String(), strings.TrimSpace(part)) {
				t.Errorf("no program writes %q", part)
			}
		}
	}
}
