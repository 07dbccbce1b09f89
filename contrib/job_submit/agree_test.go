package jobsubmit

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/burst-hpc/burst/slurm/directive"
)

const mend = "change values.lua or directive.lua of contrib/job_submit as slurm/directive was"

// said is what a user says of a job.
type said struct{ script, comment string }

// TestKeys: a key that only one of both knows would be refused at submission, or pass.
func TestKeys(t *testing.T) {
	var want strings.Builder
	for _, k := range directive.Keys() {
		fmt.Fprintln(&want, k.Name)
	}
	for _, l := range interpreters(t) {
		if got := lua(t, l, "keys.lua", nil); got != want.String() {
			t.Fatalf("V.keys of contrib/job_submit/values.lua are\n%swant, as directive.Keys has them,\n%s"+
				"give each key an entry there, in this order: its name and the check of its value", got, want.String())
		}
	}
}

// TestAgree holds the Lua to slurm/directive: the same is refused, with the same words.
func TestAgree(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	draws := 4000
	if testing.Short() {
		draws = 250 // each run draws others
	}
	dice := rand.New(rand.NewPCG(seed, 0))
	cases := append(written(), drawn(dice, draws)...)
	refused := 0
	for _, c := range cases {
		if byGo(c) != "" {
			refused++
		}
	}
	t.Logf("%d cases, %d of them refused", len(cases), refused)
	if refused < len(cases)/5 || refused > len(cases)*4/5 {
		t.Error("nearly all cases are of one kind: they show little")
	}
	for i, l := range interpreters(t) {
		cases := cases
		if testing.Short() && i > 0 { // all of them by one Lua, and a fifth by each of the others, each time another
			dice.Shuffle(len(cases), func(a, b int) { cases[a], cases[b] = cases[b], cases[a] })
			cases = slices.Clone(cases[:len(cases)/5])
		}
		t.Run(filepath.Base(l), func(t *testing.T) {
			t.Parallel()
			var stdin []byte
			for _, c := range cases {
				stdin = append(stdin, framed(c.script, c.comment)...)
			}
			got := unframed(t, lua(t, l, "judge.lua", stdin))
			if len(got) != 2*len(cases) {
				t.Fatalf("%d answers for %d cases", len(got)/2, len(cases))
			}
			wrong := 0
			for i, c := range cases {
				if want := byGo(c); !same(got[2*i], want, c) {
					t.Errorf("%q\nLua: %s\nGo:  %s", c, got[2*i], want)
					wrong++
				} else if want, ok := lacksByGo(c); ok && got[2*i] == "" && !same(got[2*i+1], want, c) {
					t.Errorf("%q alone\nLua: %s\nGo:  %s", c, got[2*i+1], want)
					wrong++
				}
				if wrong == 5 {
					t.Fatal(mend)
				}
			}
			if wrong > 0 {
				t.Fatal(mend)
			}
		})
	}
}

func byGo(c said) string {
	s := directive.Said{Script: c.script, Comment: c.comment}
	if _, err := s.Own(); err != nil {
		return err.Error()
	}
	return ""
}

// lacksByGo is for comments alone: a site's defaults are one.
func lacksByGo(c said) (string, bool) {
	if c.script != "" {
		return "", false
	}
	l, site, err := directive.ReadComment(c.comment)
	if len(site.Settings) > 0 {
		return "", false
	}
	if err == nil {
		_, err = directive.Merge(l)
	}
	if err != nil {
		return err.Error(), true
	}
	return "", true
}

// same compares errors: to the letter, unless letters beyond ASCII cannot be printed,
// which Lua cannot know.
func same(got, want string, c said) bool {
	if strings.ContainsFunc(c.script+c.comment, func(r rune) bool { return r >= 128 && (r == utf8.RuneError || !unicode.IsPrint(r)) }) {
		place := func(s string) string { p, _, _ := strings.Cut(s, ": "); return p }
		return (got == "") == (want == "") && strings.HasPrefix(place(got), "line") == strings.HasPrefix(place(want), "line") && (!strings.HasPrefix(want, "line") || place(got) == place(want))
	}
	return got == want
}

// values are good and bad ones of any key.
var values = slices.Concat(directive.Methods(), []string{
	"", "x", "none", "auto", "yes", "no", "both", "periodic", "preemptive", "blcr", "power_down", "ulfm", "DMTCP", "tomato",
	"USR1", "usr2", "SIGTERM", "B:SIGUSR1", "b:int", "KILL", "B:", "SIG", "B:B:INT", "SIGSIGHUP", "ſigurg", "ınt", "TTİN",
	"0", "1", "2", "5", "+5", "-0", "-1", "007", "100", "101", "1000", "1001", "99999999999999999999", "1e2", "0x10", "1_0", "5 ", " 5", "٣",
	"20s", "90", "2m30s", "1h30m", "1.5h", ".5s", "1.s", ".s", "s", "5", "1d", "1S", "24h", "24h1ns", "24h0.1ns", "168h", "168.0000001h", strings.Repeat("0", 62) + "1s", strings.Repeat("0", 63) + "1s", strings.Repeat("1ns", 1<<14), strings.Repeat("0", 64) + "5", "604800", "604801", "86400", "86401",
	"+5s", "-5s", "++5s", "+", "0s", "0.1ns", "1ns", "1us", "1µs", "1μs", "1ms", "1m1", "1h 1m", "4294967296", "9223372036854775808s", "99999999999999h", "0.99999999999999999999999h", "23.99999999999999999h", "2562047788016h", "1h1h1h",
	"/scratch/%u", "~/c", "~", "~bob", "~/%x/%j/%A/%a/%%", "%", "%%", "%%%", "%N", "a%", "a b", "\t", " ", "  x  ", "a\tb", "../x", "/tmp/x", "rel/./x",
	"out/*.ckpt", "out/*.ckpt state", "a[", "a[b", "[a-z]*", "[]", "[]]", "[^]", "[^a]", "[a-]", "[-a]", "[\\]]", "[\\", "a\\", "\\*", "\\", "*[", "**", "?[", "[a]]", "[[]", "[é]", "[\xed\xa0\x80]", "[\xe0\x80\x80]", "[\xf4\x90\x80\x80]", "[\xf0\x80\x80\x80]", "[\xc3]", "[😀-😁]", "[a-é]x",
	".", "/", "//", "/a//b", "./a", "a/", "a/..", "a/../b", "..", "../", "/..", "/../a", "/a/../b", "a/../../b", "..a", "...", "a/b/../..",
	"heat-4k", "Heat_4.k+x", "-x", "x/y", strings.Repeat("l", 63), strings.Repeat("l", 64), strings.Repeat("p", 4096), strings.Repeat("q", 4097),
	strings.Repeat("v", 384) + "😀" + strings.Repeat("w", 30), strings.Repeat("v", 385) + "😀😀" + strings.Repeat("w", 30), strings.Repeat("v", 386) + "😀😀" + strings.Repeat("w", 30), strings.Repeat("v", 387) + "😀😀" + strings.Repeat("w", 30), strings.Repeat("€", 200),
	"module load x", `t run "a b"`, `t 'a'`, "a#b", "#", "a=b", "=", "a\x01b", "a\x7fb", "a\u0085b", "a\u00a0b", "\u00a0", "\u2003\u3000", "é", "\xff", "a\xc2", "ﬀ", "\v", "\f", `"`, `'`, `\`, `a\`, `a\"b`,
})

// quote is a value as a directive has it.
func quote(v string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(v) + `"`
}

// written are each key with each value, and what is known to be hard.
func written() []said {
	var all []said
	names := []string{"colour", "CKPT", "a\x1b[2J"}
	for _, k := range directive.Keys() {
		names = append(names, k.Name)
		for _, other := range directive.Keys() {
			line := fmt.Sprintf(" %s=%s %s=%s", k.Name, k.Example, other.Name, other.Example)
			all = append(all, said{"#BURST" + line, ""}, said{"", "burst:" + line},
				said{"#BURST " + k.Name + "=" + k.Example, "burst: " + other.Name + "=" + other.Example})
			for _, m := range directive.Methods() {
				all = append(all, said{"#BURST ckpt=" + m + line, ""}, said{"#BURST" + line, "burst: ckpt=" + m}, said{"", "burst: strategy=preemptive ckpt=" + m + line})
			}
		}
	}
	for _, name := range names {
		for _, v := range values {
			all = append(all, said{"#!/bin/sh\n#BURST " + name + "=" + quote(v), ""}, said{"#BURST " + name + "=" + v + "\n", ""})
		}
	}
	for _, s := range []string{
		"", "\n", "#BURST", "#BURST\tx", "#BURST  ", "#BURSTING x", "#BURST:x", "#burst x", "true\n#BURST x", "\r\n#BURST x=\r\n", "#!/bin/sh\r\n#BURST signal=USR1\r\ntrue\r\n",
		"#!/usr/bin/python3\n# -*- coding: utf-8 -*-\n#BURST keep=0\nprint()\n", "#!/usr/bin/env node\n// comment\n#BURST x\n", "-- lua\n#BURST x\n", "  \t #BURST x", "\u00a0#BURST x", "\u2028\n\u3000#BURST x", "\xff#BURST x", "\xa0#BURST x",
		"#BURST signal USR1", "#BURST =x", "#BURST a", "#BURST a\tb=1", "#BURST signal=\"USR1", "#BURST signal='USR1", "#BURST signal=\"USR1\\", "#BURST signal=\"\\", "#BURST signal=U\"S\"R'1'", "#BURST # x", "#BURST signal=USR1#x", "#BURST stay", "#BURST stay keep=2", "#BURST keep=2 stay", "#BURST stay\t# x", "#BURST stay stay=no", "#BURST stay=", "#BURST stayed", "#BURST stay#", "#BURST signal=USR1 #x",
		"signal=B:USR1 ckpt=signal", "ckpt=signal", "ckpt=command checkpoint=x", "ckpt=command preset=blcr", "grace=5s", "dir=/x", "strategy=both",
		"#BURST signal=USR1 signal=USR2", "#BURST signal=USR1\n\n#BURST grace=1s\n#BURST signal=USR1", "#BURST keep=x keep=x", "#BURST keep=1 \xa0x=1", "#BURST keep=1\u00a0keep=2", "#BURST keep=1\rlabel=x", "#BURST keep=1\vlabel=x",
		"#BURST " + strings.Repeat("x", 1<<15), "#BURST " + strings.Repeat("é", 1<<10), "#BURST keep=" + strings.Repeat("x", 1<<15), strings.Repeat("#\n", 9000) + "#BURST keep=0",
	} {
		all = append(all, said{s, ""}, said{"", s}, said{"", "burst:" + s}, said{"#!/bin/sh\n" + s, "  burst: keep=2 " + s}, said{"", " \u00a0burst:" + s + "\u00a0"},
			said{"", "burst-site:" + s}, said{"", "burst-site: keep=2 " + s + " burst: keep=0"}, said{"", "burst-site: keep=0 burst:" + s})
	}
	return all
}

// drawn are n random texts of words that matter. A string of Slurm's has no NUL.
func drawn(r *rand.Rand, n int) []said {
	pick := func(words []string) string { return words[r.IntN(len(words))] }
	gaps := []string{" ", " ", " ", " ", "  ", "\t", "\n#BURST ", "\n#BURST ", "\r\n#BURST ", "\n  #BURST\t", "\n# text\n#BURST ", "\ntrue\n#BURST ", "", " # ", "\"", "'", "\\", "=", "\u00a0", "\u0085", "\xff", "\n"}
	words := func(most int) string {
		var b strings.Builder
		for range 1 + r.IntN(most) {
			key := directive.Keys()[r.IntN(len(directive.Keys()))]
			v := key.Example
			switch r.IntN(6) {
			case 0:
				v = quote(pick(values))
			case 1:
				v = pick(values)
			}
			gap := " "
			if r.IntN(4) == 0 {
				gap = pick(gaps)
			}
			b.WriteString(key.Name + "=" + v + gap)
		}
		return b.String()
	}
	all := make([]said, n)
	for i := range all {
		if r.IntN(3) > 0 {
			all[i].script = "#!/bin/sh\n#BURST " + words(3)
		}
		if r.IntN(2) > 0 {
			all[i].comment = "burst: " + words(2)
			if r.IntN(3) == 0 {
				all[i].comment = "burst-site: " + words(2) + all[i].comment
			}
		}
	}
	return all
}
