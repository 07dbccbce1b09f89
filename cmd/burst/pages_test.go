package main

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/burst-hpc/burst/packaging/progtest"
)

// TestPages has burst's own commands read every command line of the documentation: the
// command is there, and takes these flags with these values and so many arguments.
// Of a command that is named in running text the arguments may be left out, and its last
// flag's value.
func TestPages(t *testing.T) {
	blocks, named := 0, 0
	for _, b := range progtest.Blocks(t) {
		for _, c := range b.Commands() {
			if c.Name() != "burst" {
				continue
			}
			blocks++
			if err := takes(c.Words[1:], true); err != nil {
				t.Errorf("%s: %s: %v", b.Where(c.Line), strings.Join(c.Words, " "), err)
			}
		}
	}
	inline := regexp.MustCompile("`((?:sudo |build/bin/)?burst [^`]*)`")
	for name, text := range progtest.Pages(t) {
		for _, m := range inline.FindAllStringSubmatchIndex(text, -1) {
			for _, c := range progtest.Shell(strings.ReplaceAll(text[m[2]:m[3]], "\n", " ")) {
				if c.Name() != "burst" {
					continue
				}
				named++
				if err := takes(c.Words[1:], false); err != nil {
					t.Errorf("%s:%d: %s: %v", name, 1+strings.Count(text[:m[0]], "\n"), strings.Join(c.Words, " "), err)
				}
			}
		}
	}
	if blocks < 60 || named < 60 {
		t.Errorf("%d commands in blocks and %d in text found", blocks, named)
	}
}

// takes says whether burst would take the words.
func takes(words []string, arguments bool) error {
	words = slices.DeleteFunc(slices.Clone(words), func(w string) bool { return w == "--help" })
	c, rest, err := newRoot().Find(words)
	if err != nil {
		return err
	}
	err = c.ParseFlags(rest)
	if !arguments && err != nil && strings.HasPrefix(err.Error(), "flag needs an argument") {
		return nil // it is there
	}
	if err != nil || !arguments {
		return err
	}
	return c.ValidateArgs(c.Flags().Args())
}
