package main

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// step is a block of the page that something is done with: commands are run, or a file is written.
type step struct {
	line     int // of the block's first line, from 0
	commands []command
	file     string // that the block's text is written to; "" for commands
	add      bool   // to its end
	text     string
	chapter  string // the heading above
}

// command is what stands behind a prompt, and what it has printed.
type command struct {
	root    bool // its prompt is #, not $
	text    string
	first   int // the line of the page after the command, where its output begins
	printed []string
	exit    int
	until   *regexp.Regexp // it is run again until its output matches; nil: once
}

// prints says that an output is what the page has, but for what differs from run to run.
func (c command) prints(got []string) bool { return normal(got) == normal(c.printed) }

var (
	remark = regexp.MustCompile(`^<!-- (exit|until) (.*) -->$`)
	// table stands above the block that has how long each chapter took.
	table   = "<!-- times -->"
	written = regexp.MustCompile("(end of )?`([^`]+)`:$")
)

// read finds the steps of a page: consoles, and files, whose name in backticks and a colon end the paragraph before
// them. A comment of HTML before a console says what its last command exits with, or what its
// output has when it is there: a reader looks again until then.
func read(lines []string) ([]step, error) {
	var all []step
	exit, until := 0, (*regexp.Regexp)(nil)
	before, chapter := "", ""
	for n := 0; n < len(lines); n++ {
		info, fence := strings.CutPrefix(lines[n], "```")
		if m := remark.FindStringSubmatch(lines[n]); m != nil {
			var err error
			if m[1] == "exit" {
				_, err = fmt.Sscan(m[2], &exit)
			} else {
				until, err = regexp.Compile(m[2])
			}
			if err != nil {
				return nil, fmt.Errorf("line %d: %w", n+1, err)
			}
			continue
		}
		if heading, is := strings.CutPrefix(lines[n], "## "); is {
			chapter = heading
		}
		if !fence {
			if lines[n] != "" {
				before = lines[n]
			}
			continue
		}
		s := step{line: n + 1, chapter: chapter}
		for n++; n < len(lines) && lines[n] != "```"; n++ {
			s.text += lines[n] + "\n"
		}
		name := written.FindStringSubmatch(before)
		switch {
		case n == len(lines):
			return nil, fmt.Errorf("line %d: the block is not closed", s.line)
		case info == "console":
			s.commands = consoles(lines[s.line:n], s.line)
			if len(s.commands) == 0 {
				return nil, fmt.Errorf("line %d: no command", s.line)
			}
			last := &s.commands[len(s.commands)-1]
			last.exit, last.until = exit, until
		case before == table:
			continue
		case name != nil:
			s.add, s.file = name[1] != "", name[2]
		default:
			return nil, fmt.Errorf("line %d: a block of %q, and nothing says which file it is", s.line, info)
		}
		all = append(all, s)
		exit, until, before = 0, nil, ""
	}
	return all, nil
}

// consoles are the commands of a block that begins at line first of the page.
func consoles(lines []string, first int) []command {
	var all []command
	for n := 0; n < len(lines); n++ {
		text, root := strings.CutPrefix(lines[n], "# ")
		user := false
		if !root {
			text, user = strings.CutPrefix(lines[n], "$ ")
		}
		if !root && !user {
			if len(all) > 0 {
				c := &all[len(all)-1]
				c.printed = append(c.printed, lines[n])
			}
			continue
		}
		for strings.HasSuffix(text, `\`) && n+1 < len(lines) {
			n++
			text += "\n" + lines[n]
		}
		all = append(all, command{root: root, text: text, first: first + n + 1})
	}
	return all
}

// withTimes puts lines into the block below table, if there is one.
func withTimes(lines, times []string) []string {
	at := slices.Index(lines, table)
	if at < 0 || at+1 == len(lines) {
		return lines
	}
	end := at + 2 + slices.Index(lines[at+2:], "```")
	return slices.Concat(lines[:at+2], times, lines[end:])
}

// alike are words of an output that differ from run to run, and what is compared in their place.
var alike = []struct {
	is *regexp.Regexp
	as string
}{
	{regexp.MustCompile(`(?m)^(ok|advice) +clock\n( .*\n)?`), ""},  // this machine's
	{regexp.MustCompile(`(?m)^ *[0-9.]+ s +ok +running .*\n`), ""}, // not seen where the node has registered by then
	{regexp.MustCompile(`\d+\.\d+\.\d+([~+][0-9a-z.+~]+(-1)?|-1)(_amd64|_arm64)?`), "VERSION"},
	{regexp.MustCompile(`\b(amd64|arm64|x86_64|aarch64)\b`), "ARCH"},
	{regexp.MustCompile(`\bi-[0-9a-f]{6,}`), "INSTANCE"},
	{regexp.MustCompile(`\b[0-9a-f]{12,64}\b`), "HASH"},
	{regexp.MustCompile(`\b\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d)?)?`), "TIME"},
	{regexp.MustCompile(`\b(\d+-)?\d+:\d\d(:\d\d)?\b`), "TIME"},
	{regexp.MustCompile(`\b(\d+(\.\d+)?(ms|us|µs|s|m|h|d))+\b`), "SOME"},
	{regexp.MustCompile(`\b\d+(\.\d+)? (ms|s|min|h)\b`), "SOME"},
	{regexp.MustCompile(`\b\d+ bytes\b|\b\d+(\.\d+)? ([KMGT]i?)?B\b`), "SIZE"},
	{regexp.MustCompile(`\b\d+\.\d+\b`), "FIGURE"},
	{regexp.MustCompile(`[ \t]+`), " "},
	{regexp.MustCompile(`(?m) $`), ""},
}

// normal is an output without what differs from run to run.
func normal(lines []string) string {
	text := strings.Join(lines, "\n")
	for _, a := range alike {
		text = a.is.ReplaceAllString(text, a.as)
	}
	return strings.TrimSpace(text)
}
