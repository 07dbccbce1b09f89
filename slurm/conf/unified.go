package conf

import (
	"fmt"
	"slices"
	"strings"
)

// around is how many lines that stay are shown around those that change, as diff -u does.
const around = 3

// maxTable bounds the memory of comparing two texts: beyond it, all between their first and
// last difference is shown as changed.
const maxTable = 4 << 20

// diffLine is one line of a comparison: ' ' stays, '-' goes, '+' comes.
type diffLine struct {
	op   byte
	text string
}

// Unified is the change as diff -u prints it, for patch to read.
func (f FileChange) Unified() string {
	before := f.Path
	if f.New {
		before = "/dev/null"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "--- %s\n+++ %s\n", before, f.Path)
	all := compare(slices.Collect(strings.Lines(f.Before)), slices.Collect(strings.Lines(f.After)))
	oldLine, newLine := 1, 1 // of all[i]
	for i := 0; i < len(all); {
		if all[i].op == ' ' {
			i++
			oldLine++
			newLine++
			continue
		}
		from := max(0, i-around)
		to := hunkEnd(all, i)
		hunk(&b, all[from:to], oldLine-(i-from), newLine-(i-from))
		for ; i < to; i++ {
			if all[i].op != '+' {
				oldLine++
			}
			if all[i].op != '-' {
				newLine++
			}
		}
	}
	return b.String()
}

// hunkEnd is the end of the hunk in which all[i] changes: two whose lines around would touch are one.
func hunkEnd(all []diffLine, i int) int {
	last := i
	for j := i; j < len(all) && j <= last+2*around+1; j++ {
		if all[j].op != ' ' {
			last = j
		}
	}
	return min(len(all), last+around+1)
}

func hunk(b *strings.Builder, lines []diffLine, oldLine, newLine int) {
	olds, news := 0, 0
	for _, l := range lines {
		if l.op != '+' {
			olds++
		}
		if l.op != '-' {
			news++
		}
	}
	if olds == 0 { // diff names the line before an empty range
		oldLine--
	}
	if news == 0 {
		newLine--
	}
	fmt.Fprintf(b, "@@ -%d,%d +%d,%d @@\n", oldLine, olds, newLine, news)
	for _, l := range lines {
		b.WriteByte(l.op)
		b.WriteString(l.text)
		if !strings.HasSuffix(l.text, "\n") {
			b.WriteString("\n\\ No newline at end of file\n")
		}
	}
}

// compare finds the longest common subsequence of two texts, by the usual table over what is
// between their common beginning and end.
func compare(a, b []string) []diffLine {
	var head, tail []diffLine
	for len(a) > 0 && len(b) > 0 && a[0] == b[0] {
		head = append(head, diffLine{' ', a[0]})
		a, b = a[1:], b[1:]
	}
	for len(a) > 0 && len(b) > 0 && a[len(a)-1] == b[len(b)-1] {
		tail = append(tail, diffLine{' ', a[len(a)-1]})
		a, b = a[:len(a)-1], b[:len(b)-1]
	}
	slices.Reverse(tail)
	if len(a)*len(b) > maxTable {
		for _, l := range a {
			head = append(head, diffLine{'-', l})
		}
		for _, l := range b {
			head = append(head, diffLine{'+', l})
		}
		return append(head, tail...)
	}
	return append(append(head, table(a, b)...), tail...)
}

func table(a, b []string) []diffLine {
	width := len(b) + 1
	length := make([]int32, (len(a)+1)*width) // of the common subsequence of a[i:] and b[j:]
	for i := len(a) - 1; i >= 0; i-- {
		for j := len(b) - 1; j >= 0; j-- {
			if a[i] == b[j] {
				length[i*width+j] = length[(i+1)*width+j+1] + 1
			} else {
				length[i*width+j] = max(length[(i+1)*width+j], length[i*width+j+1])
			}
		}
	}
	var all []diffLine
	i, j := 0, 0
	for i < len(a) || j < len(b) {
		switch {
		case i < len(a) && j < len(b) && a[i] == b[j]:
			all = append(all, diffLine{' ', a[i]})
			i, j = i+1, j+1
		case j == len(b) || i < len(a) && length[(i+1)*width+j] >= length[i*width+j+1]:
			all = append(all, diffLine{'-', a[i]})
			i++
		default:
			all = append(all, diffLine{'+', b[j]})
			j++
		}
	}
	return all
}
