package main

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const example = `# A page
## First
Write ` + "`/etc/x.conf`:" + `

` + "```text\na\n```" + `

Now add to the end of ` + "`/etc/x.conf`:" + `

` + "```text\nb\n```" + `

<!-- times -->
` + "```text\nold\n```" + `

## Second
<!-- until (?s)done.*here -->
<!-- exit 1 -->
` + "```console\n# one \\\n  two\nprinted 1\n\n$ three\n```" + `
`

func TestRead(t *testing.T) {
	lines := strings.Split(example, "\n")
	steps, err := read(lines)
	if err != nil {
		t.Fatal(err)
	}
	if len(steps) != 3 || steps[0].file != "/etc/x.conf" || steps[0].add || steps[0].text != "a\n" || !steps[1].add || steps[0].chapter != "First" {
		t.Errorf("steps %+v", steps)
	}
	c := steps[2].commands
	if len(c) != 2 || !c[0].root || c[0].text != "one \\\n  two" || c[0].exit != 0 || c[0].until != nil || c[1].root || c[1].exit != 1 || !c[1].until.MatchString("done\nhere") {
		t.Fatalf("commands %+v", c)
	}
	if d := cmp.Diff([]string{"printed 1", ""}, c[0].printed); d != "" || lines[c[0].first] != "printed 1" || lines[c[1].first] != "```" {
		t.Errorf("outputs at %d and %d: %s", c[0].first, c[1].first, d)
	}
	with := strings.Join(withTimes(lines, []string{" 3 s  First"}), "\n")
	if want := strings.Replace(example, "old", " 3 s  First", 1); with != want {
		t.Error(cmp.Diff(want, with))
	}
}

func TestReadRefuses(t *testing.T) {
	for name, page := range map[string]string{
		"not closed":       "```console\n# x",
		"no command":       "```console\nx\n```",
		"nobody says what": "```sh\nx\n```",
		"no pattern":       "<!-- until ( -->\n```console\n# x\n```",
		"no exit code":     "<!-- exit well -->\n```console\n# x\n```",
	} {
		if _, err := read(strings.Split(page, "\n")); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
}

// TestPage: the tutorial is one that can be done, and its waiting is not left out by a slip.
func TestPage(t *testing.T) {
	text, err := os.ReadFile("../../docs/tutorial.md")
	if err != nil {
		t.Fatal(err)
	}
	steps, err := read(strings.Split(string(text), "\n"))
	if err != nil {
		t.Fatal(err)
	}
	commands, waits := 0, 0
	for _, s := range steps {
		for _, c := range s.commands {
			commands++
			if c.until != nil {
				waits++
				if printed := strings.Join(c.printed, "\n") + "\n"; !c.until.MatchString(printed) {
					t.Errorf("line %d: %s is waited for, and the page has\n%s", c.first, c.until, printed)
				}
			}
		}
	}
	if commands < 30 || waits != strings.Count(string(text), "<!-- until ") {
		t.Errorf("%d commands, %d are waited for", commands, waits)
	}
}

func TestNormal(t *testing.T) {
	for _, same := range [][2]string{
		{"2026-11-23 22:55:00  drill      node=try-1 instance=i-fc47b79d53", "2027-01-03 02:00:01  drill  node=try-1 instance=i-0147b79d53"},
		{"requeued, 1.75s after", "requeued, 320ms after"},
		{"    0.8 s  ok   order    0.8 s  x", "   12.8 s  ok   order   11.0 s  x"},
		{"0.0108 USD: 60 s", "0.1 USD: 61 s"},
		{"burst_0.0.0~git20261123221132.d5232e282bf6-1_amd64.deb: OK", "burst_0.1.0~rc1-1_arm64.deb: OK"},
		{"advice   clock\n         Nothing.\nok  x", "ok       clock\nok  x"},
		{"    2.9 s  ok      running         2.1 s  it runs\n    4.2 s  ok      registered      1.2 s  slurmd", "    1.4 s  ok      registered      1.0 s  slurmd"},
		{"(4s old) 1m20s", "(1h2m0s old) 2s"},
	} {
		if a, b := normal(strings.Split(same[0], "\n")), normal(strings.Split(same[1], "\n")); a != b {
			t.Errorf("%q and %q are %q and %q", same[0], same[1], a, b)
		}
	}
	for _, other := range [][2]string{
		{"job 2 of ann", "job 3 of ann"},
		{"node=try-1", "node=try-2"},
		{"ok  socket", "wrong  socket"},
		{"1 provider ok", "2 providers ok"},
		{"a\nb", "a"},
	} {
		if a, b := normal(strings.Split(other[0], "\n")), normal(strings.Split(other[1], "\n")); a == b {
			t.Errorf("%q and %q are the same", other[0], other[1])
		}
	}
}
