// Package sbatch reads what a batch script says to sbatch: the options of its
// #SBATCH lines, as sbatch itself reads them. What sbatch's command line and its
// SBATCH_… variables say over it, a script cannot tell.
package sbatch

import (
	"fmt"
	"strings"
)

// Option is an option of sbatch's, under its long name.
type Option struct {
	Name, Value string
	Line        int // of the script, from 1
}

// Head is what stands above a script's first command.
type Head struct {
	Options []Option // as they come; of a heterogeneous job those of its first part, the leader
	Parts   int      // of a heterogeneous job; 1 of others
}

// Last is what counts of an option that may be given several times, and of several that
// are each other's opposite, such as requeue and no-requeue.
func (h Head) Last(names ...string) (Option, bool) {
	for i := len(h.Options) - 1; i >= 0; i-- {
		for _, n := range names {
			if h.Options[i].Name == n {
				return h.Options[i], true
			}
		}
	}
	return Option{}, false
}

const magic = "#SBATCH"

// Read reads a script. An error names the line for which sbatch refuses it.
// Options that are not known here, as of plugins, are left as they are.
func Read(script string) (Head, error) {
	h := Head{Parts: 1}
	var all []word
	number := 0
	for line := range strings.Lines(script) {
		number++
		line = strings.TrimSuffix(line, "\n")
		text, ours := strings.CutPrefix(line, magic)
		if !ours {
			if bare := strings.TrimSpace(line); bare != "" && bare[0] != '#' {
				break // the first command
			}
			continue
		}
		text, next := separator(text)
		if next {
			h.Parts++
		}
		words, err := split(text)
		if err != nil {
			return Head{}, fmt.Errorf("line %d: sbatch refuses it: %w", number, err)
		}
		for _, w := range words {
			if h.Parts == 1 {
				all = append(all, word{w, number})
			}
		}
	}
	h.Options = options(all)
	return h, nil
}

// separator says whether a line begins the next part of a heterogeneous job.
func separator(text string) (rest string, is bool) {
	trimmed := strings.TrimLeft(text, blanks)
	for _, name := range []string{"hetjob", "packjob"} {
		if n := len(name); len(trimmed) >= n && strings.EqualFold(trimmed[:n], name) &&
			(len(trimmed) == n || strings.IndexByte(blanks, trimmed[n]) >= 0) {
			return trimmed[n:], true
		}
	}
	return text, false
}

const blanks = " \t\v\f\r"

// split parts a line as sbatch does: quotes of both kinds, a backslash keeps the
// next character also within them, a # without either ends the line, within a word too.
func split(line string) ([]string, error) {
	var all []string
	for {
		line = strings.TrimLeft(line, blanks)
		if strings.HasPrefix(line, ":") {
			return nil, fmt.Errorf("a colon stands where an option should")
		}
		w, rest, err := first(line)
		if w == "" || err != nil { // an empty word ends the line for sbatch, too
			return all, err
		}
		all, line = append(all, w), rest
	}
}

func first(line string) (w, rest string, err error) {
	var b strings.Builder
	quote := byte(0)
	for i := 0; i < len(line); i++ {
		c := line[i]
		switch {
		case c == '\\':
			if i++; i < len(line) {
				b.WriteByte(line[i])
			}
		case quote != 0 && c == quote:
			quote = 0
		case quote != 0:
			b.WriteByte(c)
		case c == '"' || c == '\'':
			quote = c
		case c == '#' || strings.IndexByte(blanks, c) >= 0:
			return b.String(), line[i:], nil
		default:
			b.WriteByte(c)
		}
	}
	if quote != 0 {
		return "", "", fmt.Errorf("the quote %c is not closed", quote)
	}
	return b.String(), "", nil
}
