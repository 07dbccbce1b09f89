package packaging

import (
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

// page reads a manual page, or the one that it stands for.
func page(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("man", name))
	if err != nil {
		t.Fatal(err)
	}
	if other, ok := strings.CutPrefix(string(text), ".so man8/"); ok {
		return page(t, strings.TrimSpace(other))
	}
	return string(text)
}

// options are the flags that a text describes, as "--json" and "-o".
func options(text string) map[string]bool {
	all := map[string]bool{}
	for line := range strings.Lines(text) {
		list, ok := strings.CutPrefix(line, ".It Fl ")
		if !ok {
			continue
		}
		list, _, _ = strings.Cut(list, " Ar ")
		for _, word := range strings.FieldsFunc(list, func(r rune) bool { return r == ' ' || r == ',' || r == '\n' }) {
			all["-"+strings.ReplaceAll(word, `\-`, "-")] = true
		}
	}
	return all
}

// sections parts a text at the lines that begin with macro; "" is before the first.
func sections(text, macro string) map[string]string {
	all := map[string]string{}
	title := ""
	for line := range strings.Lines(text) {
		if t, ok := strings.CutPrefix(line, macro+" "); ok {
			title = strings.TrimSpace(t)
			continue
		}
		all[title] += line
	}
	return all
}

func TestPagesAreWellFormed(t *testing.T) {
	pages, err := filepath.Glob("man/*.[1-8]")
	if err != nil || len(pages) == 0 {
		t.Fatalf("no manual pages: %v", err)
	}
	refer := regexp.MustCompile(`(?m)^\.Xr (burst[\w.-]*) (\d)`)
	for _, path := range pages {
		text := page(t, filepath.Base(path))
		for _, m := range refer.FindAllStringSubmatch(text, -1) {
			page(t, m[1]+"."+m[2])
		}
		if raw, err := os.ReadFile(path); err != nil || strings.HasPrefix(string(raw), ".so ") {
			continue
		}
		if testing.Short() {
			continue // mandoc is among what make deps installs
		}
		if out, err := exec.Command("mandoc", "-T", "lint", "-W", "warning", path).CombinedOutput(); err != nil {
			t.Errorf("mandoc: %v\n%s", err, out)
		}
	}
}

// TestPagesAndPrograms holds the pages of all programs to what --help says.
func TestPagesAndPrograms(t *testing.T) {
	if testing.Short() {
		t.Skip("builds all programs: slow end-to-end, run by make test")
	}
	bin := progtest.Build(t)
	programs, err := os.ReadDir(bin)
	if err != nil || len(programs) < 6 {
		t.Fatalf("%d programs: %v", len(programs), err)
	}
	for _, p := range programs {
		t.Run(p.Name(), func(t *testing.T) {
			path := filepath.Join(bin, p.Name())
			if p.Name() == "burst" {
				commands(t, path)
				return
			}
			section := ".8"
			if p.Name() == "burst-srun" {
				section = ".1" // users run it
			}
			have := options(page(t, p.Name()+section))
			delete(have, "--help")
			if want := progtest.Read(t, path).Flags; !maps.Equal(have, want) {
				t.Errorf("the page has %v, the program %v", sorted(have), sorted(want))
			}
		})
	}
}

// commands compares burst(1) with the tree of burst's commands.
func commands(t *testing.T, path string) {
	text := sections(page(t, "burst.1"), ".Sh")
	common := options(text["DESCRIPTION"])
	delete(common, "--help")
	delete(common, "-h")
	described := sections(text["COMMANDS"], ".Ss")
	tree := progtest.Tree(t, path)
	for name := range described {
		if _, ok := tree[name]; !ok && name != "" && name != "help , completion" {
			t.Errorf("burst(1) describes %q, which is no command", name)
		}
	}
	for name, help := range tree {
		if name == "" {
			if !maps.Equal(common, help.Flags) {
				t.Errorf("burst(1) has %v for all commands, burst has %v", sorted(common), sorted(help.Flags))
			}
			continue
		}
		section, ok := described[name]
		if !ok {
			t.Errorf("burst(1) does not describe burst %s", name)
			continue
		}
		have, want := options(section), maps.Clone(help.Flags)
		for above := name; above != ""; {
			above = above[:max(strings.LastIndex(above, " "), 0)]
			maps.DeleteFunc(want, func(flag string, _ bool) bool { return tree[above].Flags[flag] })
		}
		if !maps.Equal(have, want) {
			t.Errorf("burst(1) has %v for burst %s, which has %v", sorted(have), name, sorted(want))
		}
	}
}

func sorted(set map[string]bool) []string { return slices.Sorted(maps.Keys(set)) }

// TestMetrics holds burstd(8) to the metrics that burstd has.
func TestMetrics(t *testing.T) {
	files, err := filepath.Glob("../cmd/internal/daemon/*.go")
	if err != nil {
		t.Fatal(err)
	}
	var source []byte
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasSuffix(f, "_test.go") {
			source = append(source, text...)
		}
	}
	names := func(text, pattern string) []string {
		var all []string
		for _, m := range regexp.MustCompile(pattern).FindAllStringSubmatch(text, -1) {
			all = append(all, m[1])
		}
		return slices.Compact(slices.Sorted(slices.Values(all)))
	}
	have, want := names(page(t, "burstd.8"), `\.It Ic (burst_\w+)`), names(string(source), `"(burst_\w+)"`)
	if len(want) == 0 || !slices.Equal(have, want) {
		t.Errorf("burstd(8) has %v, burstd %v", have, want)
	}
}
