package progtest

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Block is a fenced block of a page of the documentation.
type Block struct {
	File string // from the top folder on, as docs/user.md
	Line int    // of its first line
	Lang string // the first word of its info string
	Of   string // the words behind that: what the block is a part of
	Text string // without the indentation of a list that it stands in
}

// Pages are the texts of the guides, the README and CONTRIBUTING, by their paths
// from the top folder on.
func Pages(t testing.TB) map[string]string {
	t.Helper()
	root := Root(t)
	all := map[string]string{}
	for _, pattern := range []string{"docs/*.md", "docs/*/*.md", "README.md", "CONTRIBUTING.md"} {
		paths, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil || len(paths) == 0 {
			t.Fatalf("%s: no page: %v", pattern, err)
		}
		for _, p := range paths {
			text, err := os.ReadFile(p)
			if err != nil {
				t.Fatal(err)
			}
			name, err := filepath.Rel(root, p)
			if err != nil {
				t.Fatal(err)
			}
			all[name] = string(text)
		}
	}
	return all
}

// Blocks are the fenced blocks of all pages.
func Blocks(t testing.TB) []Block {
	t.Helper()
	var all []Block
	pages := Pages(t)
	for _, name := range slices.Sorted(maps.Keys(pages)) {
		found, wrong := fenced(name, pages[name])
		all = append(all, found...)
		for _, w := range wrong {
			t.Error(w)
		}
	}
	return all
}

// fenced finds the blocks of one page, and says what none of ours may have: a fence
// that is not closed, and a block by indentation, which has no info string.
func fenced(name, text string) (all []Block, wrong []string) {
	var open *Block
	indent, number, blank := "", 0, true
	for line := range strings.Lines(text) {
		number++
		bare := strings.TrimLeft(line, " ")
		info, isFence := strings.CutPrefix(strings.TrimSpace(line), "```")
		switch {
		case isFence && open == nil:
			indent = line[:len(line)-len(bare)]
			lang, of, _ := strings.Cut(info, " ")
			open = &Block{File: name, Line: number + 1, Lang: lang, Of: of}
		case isFence:
			all, open = append(all, *open), nil
		case open != nil:
			open.Text += strings.TrimPrefix(line, indent)
		case blank && strings.HasPrefix(line, "    ") && strings.TrimSpace(line) != "":
			wrong = append(wrong, where(name, number)+": a block by indentation: fence it, with an info string")
		}
		blank = strings.TrimSpace(line) == ""
	}
	if open != nil {
		wrong = append(wrong, where(name, open.Line)+": the block is not closed")
	}
	return all, wrong
}

// Where names a line of the block, counted from its first, 0.
func (b Block) Where(line int) string { return where(b.File, b.Line+line) }

// Script says whether the block is a batch script, whole or its head.
func (b Block) Script() bool {
	return b.Lang == "sh" && (strings.HasPrefix(b.Text, "#!") || strings.HasPrefix(b.Text, "#SBATCH") || strings.HasPrefix(b.Text, "#BURST"))
}

// Commands are what the block has a shell run; of a console, what stands behind
// its prompts.
func (b Block) Commands() []Command {
	switch b.Lang {
	case "sh":
		return Shell(b.Text)
	case "console":
		return Shell(b.Prompted())
	}
	return nil
}

// Prompted is a console's text with empty lines in place of what was printed.
func (b Block) Prompted() string {
	var out strings.Builder
	for line := range strings.Lines(b.Text) {
		if rest, ok := strings.CutPrefix(line, "$ "); ok {
			out.WriteString(rest)
		} else if rest, ok := strings.CutPrefix(line, "# "); ok {
			out.WriteString(rest)
		} else {
			out.WriteString("\n")
		}
	}
	return out.String()
}
