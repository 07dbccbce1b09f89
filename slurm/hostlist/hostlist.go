// Package hostlist reads and writes Slurm's lists of node names, such as
// n[01-03,7],gpu1, as `scontrol show hostnames`, `hostlist` and
// `hostlistsorted` of Slurm 22.05 and 24.11 do, name by name and byte by byte.
//
// The grammar. Names are separated by commas or white space. A bracket holds
// numbers and ranges of numbers separated by commas; each stands for the
// number padded with zeros to the width of the range's first number. A name
// may hold several brackets; what follows the last of them Slurm reads from
// 23.02.5 on, and prints such names one by one. A blank
// before a number counts to its width, as in Slurm: n[1, 2] is n1 and n02.
// With three and more brackets the last one counts fastest, then the first,
// then the second: also Slurm's order.
//
// Limits: 65,536 names in a range, 65,536 ranges in a bracket, 65,536 numbers
// in a bracket that is not the name's last, as in Slurm; 1,048,576 names in a
// list and 255 bytes in a name, which are ours. Fold, like scontrol, may write a range of more
// than 65,536 nodes, which neither Slurm nor Expand reads back.
//
// Broken lists are errors. These are errors here, while scontrol prints
// something senseless for them and exits with 0:
//
//	n[1-2           a bracket without its end      scontrol: n]
//	n[[1-2]  n]     brackets within or unopened    scontrol: n[1 n[2; n]
//	n[1-]           a range without its end        scontrol: n1
//	n[1a-2]  n[1 -2]  other than digits in front   scontrol: n0001…; n01 n02
//	n[+1-2]         a sign                         scontrol: n01 n02
//	a[x]b[1]c[1]    a bad bracket before two more  scontrol: left out of the list
//	n99999999999999999999  2^64-1 or more          scontrol: n18446744073709551615
//
// A path (/etc/nodes), from which scontrol reads the list, is a name here.
// And scontrol's sorting goes wrong where numbers lie more than 2^31 apart,
// and loses names where a range overlaps another and a third is padded to
// another width (n[9-12],n[9-12],n08,n08): ours does not.
package hostlist

import (
	"fmt"
	"strings"
)

const (
	maxRange  = 64 * 1024 // Slurm's, for a range, a bracket and its numbers
	maxNames  = 1 << 20   // ours, for a list
	maxName   = 255       // bytes; a host name's by RFC 1035
	separator = ", \t\r\n"
	blank     = " \t"
)

// List is a parsed list of names, in the order written and with duplicates.
// The zero List is empty.
type List struct{ spans []span }

// span is a run of names with the same prefix, lo to hi.
type span struct {
	prefix string
	lo, hi uint64
	width  int  // numbers are padded with zeros to it
	plain  bool // prefix is the whole name; lo, hi and width are 0
}

func (s span) count() int { return int(s.hi - s.lo + 1) }

// Expand returns the names that s stands for; none, without an error, if s
// is empty.
func Expand(s string) ([]string, error) {
	l, err := Parse(s)
	if err != nil {
		return nil, err
	}
	return l.Names(), nil
}

// Parse reads a list. The error says which name is wrong and why.
func Parse(s string) (List, error) {
	var l List
	total := 0
	for {
		s = strings.TrimLeft(s, separator)
		if s == "" {
			return l, nil
		}
		n, err := tokenLen(s)
		if err != nil {
			return List{}, fmt.Errorf("hostlist %s: %w", cut(s), err)
		}
		parts, err := parseToken(s[:n])
		if err == nil {
			if total += tokenNames(parts); total > maxNames {
				err = fmt.Errorf("the list holds more than %d names", maxNames)
			}
		}
		if err != nil {
			return List{}, fmt.Errorf("hostlist %s: %w", cut(s[:n]), err)
		}
		l.pushToken(parts)
		s = s[n:]
	}
}

// Len is the number of names.
func (l List) Len() int {
	n := 0
	for _, s := range l.spans {
		n += s.count()
	}
	return n
}

// Names expands the list.
func (l List) Names() []string {
	if len(l.spans) == 0 {
		return nil
	}
	names := make([]string, 0, l.Len())
	var buf []byte
	for _, s := range l.spans {
		if s.plain {
			names = append(names, s.prefix)
			continue
		}
		buf = append(buf[:0], s.prefix...)
		for v := s.lo; v <= s.hi; v++ {
			buf = appendPadded(buf[:len(s.prefix)], v, s.width)
			names = append(names, string(buf))
		}
	}
	return names
}
