package docs

import (
	"bytes"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/burst-hpc/burst/packaging/progtest"
)

// guides are the pages by their paths from this folder on.
func guides(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	for name, text := range progtest.Pages(t) {
		path, ok := strings.CutPrefix(name, "docs/")
		if !ok {
			path = "../" + name
		}
		all[path] = text
	}
	if len(all) < 20 {
		t.Fatalf("only %d guides", len(all))
	}
	return all
}

var (
	inline  = regexp.MustCompile("`((?:sudo |build/bin/)?burst(?:d|-[a-z-]+)?(?: [^`]*)?)`")
	program = regexp.MustCompile(`^(?:sudo )?(?:\S*/)?(burst(?:d|-resume|-suspend|-resume-fail|-gate|-agent)?)$`)
)

// command is one call of a program of ours.
type command struct {
	file string
	line int
	text string
}

func commands(t *testing.T) []command {
	t.Helper()
	var all []command
	for _, b := range progtest.Blocks(t) {
		if b.Lang != "sh" && b.Lang != "console" {
			continue
		}
		n := b.Line - 1
		for line := range strings.Lines(b.Text) {
			n++
			line = strings.TrimSpace(line)
			if b.Lang == "console" {
				line = strings.TrimLeft(line, "#$ ")
			}
			all = append(all, command{b.File, n, line})
		}
	}
	for file, text := range guides(t) {
		for _, m := range inline.FindAllStringSubmatchIndex(text, -1) {
			all = append(all, command{file, 1 + strings.Count(text[:m[0]], "\n"), strings.ReplaceAll(text[m[2]:m[3]], "\n", " ")})
		}
	}
	return slices.DeleteFunc(all, func(c command) bool {
		first, _, _ := strings.Cut(strings.TrimPrefix(c.text, "sudo "), " ")
		return !program.MatchString(first)
	})
}

// TestCommands holds every command of the guides to --help.
func TestCommands(t *testing.T) {
	if testing.Short() {
		t.Skip("builds all programs: slow end-to-end, run by make test")
	}
	bin := progtest.Build(t)
	tree := progtest.Tree(t, filepath.Join(bin, "burst"))
	all := commands(t)
	if len(all) < 30 {
		t.Fatalf("only %d commands found: %v", len(all), all)
	}
	for _, c := range all {
		words := strings.Fields(cut(strings.TrimPrefix(c.text, "sudo ")))
		name := filepath.Base(words[0])
		flags := map[string]bool{"--help": true}
		if name == "burst" {
			path := ""
			for _, w := range words[1:] {
				next := strings.TrimSpace(path + " " + w)
				if _, ok := tree[next]; !ok {
					if path == "" && !strings.HasPrefix(w, "-") {
						t.Errorf("%s:%d: burst has no command %s", c.file, c.line, w)
					}
					break
				}
				path = next
			}
			maps.Copy(flags, tree[path].Flags)
		} else {
			maps.Copy(flags, progtest.Read(t, filepath.Join(bin, name)).Flags)
		}
		for _, w := range words[1:] {
			flag, _, _ := strings.Cut(w, "=")
			if strings.HasPrefix(flag, "-") && !flags[flag] {
				t.Errorf("%s:%d: %q: no flag %s", c.file, c.line, c.text, flag)
			}
		}
	}
}

// cut ends a line where its comment or another command begins.
func cut(line string) string {
	for _, end := range []string{" #", " | ", " && ", "; ", " >"} {
		line, _, _ = strings.Cut(line, end)
	}
	return line
}

// TestConfigurations has burst read every toml block that is a whole file.
func TestConfigurations(t *testing.T) {
	if testing.Short() {
		t.Skip("builds burst: slow end-to-end, run by make test")
	}
	burst := filepath.Join(progtest.Build(t, "burst"), "burst")
	dir := t.TempDir()
	site := filepath.Join(dir, "slurm.conf")
	if err := os.WriteFile(site, []byte("ClusterName=c\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	whole := 0
	for _, b := range progtest.Blocks(t) {
		if b.Lang != "toml" || !strings.HasPrefix(strings.TrimSpace(b.Text), "cluster =") {
			continue
		}
		whole++
		config := filepath.Join(dir, "burst.toml")
		// No scontrol there: only the file is read.
		text := b.Text + "\n[slurm]\nbin = \"" + dir + "\"\nconf = \"" + site + "\"\n"
		if err := os.WriteFile(config, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		out, err := exec.Command(burst, "check", "--offline", "--config", config).CombinedOutput()
		if !bytes.Contains(out, []byte("burst.toml is valid")) {
			t.Errorf("%s:%d: %v\n%s", b.File, b.Line, err, out)
		}
	}
	if whole < 2 {
		t.Errorf("only %d whole configurations in the guides", whole)
	}
}

// TestNames looks up what the guides name: tests, metrics, libburst's calls, files and
// headings.
func TestNames(t *testing.T) {
	root := progtest.Root(t)
	tests := map[string]bool{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && (d.Name() == "build" || d.Name() == "testdata" || len(d.Name()) > 1 && d.Name()[0] == '.') {
			return fs.SkipDir
		}
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		for _, m := range regexp.MustCompile(`(?m)^func (Test\w+)\(`).FindAllSubmatch(text, -1) {
			tests[string(m[1])] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	source := metricsSource(t, root)
	header, err := os.ReadFile(filepath.Join(root, "contrib/libburst/src/burst.h"))
	if err != nil {
		t.Fatal(err)
	}
	all := guides(t)
	for file, text := range all {
		for _, m := range regexp.MustCompile("`(Test[A-Z]\\w+)`").FindAllStringSubmatch(text, -1) {
			if !tests[m[1]] {
				t.Errorf("%s names %s, which is no test", file, m[1])
			}
		}
		for _, m := range regexp.MustCompile("`(burst_\\w+)`").FindAllStringSubmatch(text, -1) {
			if !bytes.Contains(source, []byte(`"`+m[1]+`"`)) && !bytes.Contains(header, []byte(m[1]+"(")) {
				t.Errorf("%s names %s, which is no metric, and no call of libburst", file, m[1])
			}
		}
		for _, m := range regexp.MustCompile(`\]\(([^)]+)\)`).FindAllStringSubmatch(text, -1) {
			path, heading, _ := strings.Cut(m[1], "#")
			if strings.Contains(path, "://") {
				continue
			}
			target := filepath.Join(filepath.Dir(file), path)
			if path == "" {
				target = file
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s: %v", file, err)
			}
			if heading != "" && !slices.Contains(anchors(all[target]), heading) {
				t.Errorf("%s: %s has no heading #%s", file, target, heading)
			}
		}
	}
	names := regexp.MustCompile(`"(burst_\w+)"`).FindAllSubmatch(source, -1)
	if len(names) < 30 {
		t.Errorf("only %d metrics found in cmd/internal/daemon", len(names))
	}
	for _, m := range names {
		if !strings.Contains(all["admin.md"], "`"+string(m[1])+"`") {
			t.Errorf("admin.md does not explain the metric %s", m[1])
		}
	}
}

// metricsSource is where burstd's metrics get their names.
func metricsSource(t *testing.T, root string) []byte {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, "cmd/internal/daemon/*.go"))
	if err != nil {
		t.Fatal(err)
	}
	var all []byte
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasSuffix(f, "_test.go") {
			all = append(all, text...)
		}
	}
	return all
}

// anchors are a page's headings as links name them.
func anchors(text string) []string {
	var all []string
	for _, m := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(text, -1) {
		a := strings.ReplaceAll(strings.ToLower(m[1]), " ", "-")
		all = append(all, regexp.MustCompile(`[^a-z0-9_-]`).ReplaceAllString(a, ""))
	}
	return all
}
