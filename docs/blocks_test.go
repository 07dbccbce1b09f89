package docs

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/burst-hpc/burst/packaging/progtest"
	"github.com/burst-hpc/burst/slurm/conf"
	"github.com/burst-hpc/burst/slurm/directive"
	"github.com/burst-hpc/burst/slurm/sbatch"
)

// languages are what a block's info string may begin with, and how such a block is
// checked here. What more there is: burst's command lines go through its own commands
// in cmd/burst, burst-srun's through its own parser in cmd/internal/srun, toml through
// the configuration in cmd/internal/config, all programs' flags through --help in
// TestCommands. The scripts of docs/jobs.md are run by cmd/internal/e2e.
var languages = map[string]func(t *testing.T, b progtest.Block) error{
	"sh":         shell,
	"console":    console,
	"slurm.conf": slurmConf,
	"toml":       func(*testing.T, progtest.Block) error { return nil },
	"json":       func(_ *testing.T, b progtest.Block) error { var v any; return json.Unmarshal([]byte(b.Text), &v) },
	"yaml":       func(_ *testing.T, b progtest.Block) error { var v any; return yaml.Unmarshal([]byte(b.Text), &v) },
	"lua":        lua,
	"ini":        ini,
	"c":          libburst,
	"mermaid":    mermaid,
	"text":       text,
}

// TestBlocks: every block says what it is, and is that.
func TestBlocks(t *testing.T) {
	count := map[string]int{}
	for _, b := range progtest.Blocks(t) {
		check, ok := languages[b.Lang]
		if !ok {
			t.Errorf("%s: a block of %q: write one of sh, console, text, toml, slurm.conf, ... behind its fence", b.Where(-1), b.Lang)
			continue
		}
		if b.Of != "" && b.Lang != "toml" {
			t.Errorf("%s: only toml blocks name what they are a part of", b.Where(-1))
		}
		if err := check(t, b); err != nil {
			t.Errorf("%s: %v", b.Where(0), err)
		}
		count[b.Lang]++
	}
	if count["sh"] < 60 || count["console"] < 10 || count["text"] < 15 || count["slurm.conf"] < 1 {
		t.Errorf("blocks found: %v", count)
	}
}

// shell: bash takes it; a batch script is one for sbatch and for burst, too.
func shell(t *testing.T, b progtest.Block) error {
	if b.Script() {
		return script(t, b.Text)
	}
	return bash(t, b.Text)
}

func bash(t *testing.T, text string) error {
	cmd := exec.CommandContext(t.Context(), "bash", "-n")
	cmd.Stdin = strings.NewReader(text)
	if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
		return fmt.Errorf("bash -n: %v: %s", err, out)
	}
	return nil
}

func script(t *testing.T, text string) error {
	if err := bash(t, text); err != nil {
		return err
	}
	if _, err := sbatch.Read(text); err != nil {
		return err
	}
	if over := directive.Overlooked(text); len(over) > 0 {
		return fmt.Errorf("a directive below the first command: %v", over)
	}
	layer, err := directive.ReadScript(text)
	if err == nil {
		_, err = directive.Merge(layer)
	}
	return err
}

func console(t *testing.T, b progtest.Block) error {
	prompted := b.Prompted()
	if strings.TrimSpace(prompted) == "" {
		return fmt.Errorf("no line of the console begins with a prompt: is it text?")
	}
	return bash(t, prompted)
}

// slurmConf: each line is a setting, or includes a file, which need not be there.
func slurmConf(t *testing.T, b progtest.Block) error {
	dir := t.TempDir()
	var settings int
	var lines strings.Builder
	for line := range strings.Lines(b.Text) {
		if name, ok := strings.CutPrefix(line, "Include "); ok {
			if err := os.WriteFile(filepath.Join(dir, filepath.Base(strings.TrimSpace(name))), []byte("IncludedHere=1\n"), 0o600); err != nil {
				return err
			}
		} else if bare, _, _ := strings.Cut(line, "#"); strings.TrimSpace(bare) != "" {
			if settings++; !regexp.MustCompile(`^[A-Z]\w*=\S`).MatchString(bare) {
				return fmt.Errorf("%q is no setting", line)
			}
		}
		lines.WriteString(line)
	}
	path := filepath.Join(dir, "slurm.conf")
	if err := os.WriteFile(path, []byte(lines.String()), 0o600); err != nil {
		return err
	}
	site, err := conf.Read(path)
	if err == nil && len(site.Settings)+len(site.Nodes)+len(site.Partitions) == 0 {
		err = fmt.Errorf("it says nothing")
	}
	return err
}

func lua(t *testing.T, b progtest.Block) error {
	for _, luac := range []string{"luac", "luac5.4", "luac5.3"} {
		if path, err := exec.LookPath(luac); err == nil {
			cmd := exec.CommandContext(t.Context(), path, "-p", "-")
			cmd.Stdin = strings.NewReader(b.Text)
			if out, err := cmd.CombinedOutput(); err != nil {
				return fmt.Errorf("luac: %s", out)
			}
			return nil
		}
	}
	return nil // no Lua is here: what reads it is tested in contrib/job_submit
}

// ini is a unit of systemd's, or a drop-in: sections of settings.
func ini(_ *testing.T, b progtest.Block) error {
	in := ""
	for line := range strings.Lines(b.Text) {
		line = strings.TrimSpace(line)
		switch {
		case line == "" || line[0] == '#':
		case slices.Contains([]string{"[Unit]", "[Service]", "[Install]"}, line):
			in = line
		case in == "" || !regexp.MustCompile(`^[A-Z][A-Za-z]+=\S`).MatchString(line):
			return fmt.Errorf("%q is no setting of a unit's section", line)
		}
	}
	return nil
}

// libburst is a part of a program: what it calls of ours stands in the header.
func libburst(t *testing.T, b progtest.Block) error {
	header, err := os.ReadFile(filepath.Join(progtest.Root(t), "contrib/libburst/src/burst.h"))
	if err != nil {
		return err
	}
	for _, name := range regexp.MustCompile(`\b(?:burst|BURST)_\w+`).FindAllString(b.Text, -1) {
		if !regexp.MustCompile(`\b` + name + `\b`).Match(header) {
			return fmt.Errorf("burst.h has no %s", name)
		}
	}
	return nil
}

// mermaid is a diagram of states.
func mermaid(_ *testing.T, b progtest.Block) error {
	head, rest, _ := strings.Cut(b.Text, "\n")
	if head != "stateDiagram-v2" {
		return fmt.Errorf("%q: only diagrams of states (stateDiagram-v2) are known", head)
	}
	line := regexp.MustCompile(`^(\[\*\]|\w+) --> (\[\*\]|\w+)(: [^:;]+)?$`)
	for l := range strings.Lines(rest) {
		if l = strings.TrimSpace(l); l != "" && !line.MatchString(l) {
			return fmt.Errorf("%q is no transition", l)
		}
	}
	return nil
}

// text is what a program has printed, or a picture: nothing that a reader would run.
func text(_ *testing.T, b progtest.Block) error {
	if regexp.MustCompile(`(?m)^(\$ |#SBATCH|#BURST|sudo |burst [a-z])`).MatchString(b.Text) {
		return fmt.Errorf("it holds a command: sh or console?")
	}
	return nil
}

// TestDiagrams: the states that architecture.md draws are those that the code has.
func TestDiagrams(t *testing.T) {
	source := ""
	for _, file := range []string{"slurm/power/journal.go", "ft/journal.go"} {
		text, err := os.ReadFile(filepath.Join(progtest.Root(t), file))
		if err != nil {
			t.Fatal(err)
		}
		source += string(text)
	}
	code, drawn := map[string]bool{}, map[string]bool{}
	for _, m := range regexp.MustCompile(`\b(?:Phase|Stage|LaunchState) += "([a-z]+)"`).FindAllStringSubmatch(source, -1) {
		code[m[1]] = true
	}
	for _, b := range progtest.Blocks(t) {
		if b.File == "docs/architecture.md" && b.Lang == "mermaid" {
			for _, m := range regexp.MustCompile(`(?m)^ *(\S+) --> (\w+|\[\*\])`).FindAllStringSubmatch(b.Text, -1) {
				drawn[m[1]], drawn[m[2]] = true, true
			}
		}
	}
	delete(drawn, "[*]")
	if len(code) < 10 || !maps.Equal(code, drawn) {
		t.Errorf("drawn are %v, the code has %v", slices.Sorted(maps.Keys(drawn)), slices.Sorted(maps.Keys(code)))
	}
}

// TestIndex: every page is found from the first one.
func TestIndex(t *testing.T) {
	all := guides(t)
	for path := range all {
		if !strings.HasPrefix(path, "../") && path != "README.md" && !strings.Contains(all["README.md"], "]("+path+")") {
			t.Errorf("docs/README.md does not lead to %s", path)
		}
	}
}

// TestPrograms: the flags of the programs beside burst and burst-srun are those of their
// manual pages, which packaging holds to --help; and make has the targets.
func TestPrograms(t *testing.T) {
	root := progtest.Root(t)
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	targets := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^([a-z][a-z-]*):`).FindAllSubmatch(makefile, -1) {
		targets[string(m[1])] = true
	}
	made, called := 0, 0
	for _, b := range progtest.Blocks(t) {
		for _, c := range b.Commands() {
			switch name := c.Name(); {
			case name == "make" && !slices.Contains(c.Words, "-C"):
				for _, w := range c.Words[1:] {
					if made++; !strings.Contains(w, "=") && !targets[w] {
						t.Errorf("%s: make has no target %s", b.Where(c.Line), w)
					}
				}
			case name == "burstd" || strings.HasPrefix(name, "burst-") && name != "burst-srun":
				called++
				page, err := os.ReadFile(filepath.Join(root, "packaging/man", name+".8"))
				if err != nil {
					t.Errorf("%s: %v", b.Where(c.Line), err)
					continue
				}
				for _, w := range c.Words[1:] {
					flag, _, _ := strings.Cut(w, "=")
					if long, ok := strings.CutPrefix(flag, "--"); ok && !strings.Contains(string(page), `Fl \-`+long) {
						t.Errorf("%s: %s has no %s", b.Where(c.Line), name, flag)
					}
				}
			}
		}
	}
	if made < 15 || called < 1 || !targets["test-packages"] {
		t.Errorf("%d targets and %d calls found", made, called)
	}
}
