package hostlist

import (
	"cmp"
	"math"
	"slices"
	"strconv"
)

// Fold writes names, in their order and with their duplicates, as a list:
// what `scontrol show hostlist` prints for them. Empty names are left out.
func Fold(names []string) string { return fromNames(names).String() }

// FoldSorted is Fold with the names sorted, as `scontrol show hostlistsorted`
// does it: by prefix with numbers in it compared as numbers, then by the
// number's length, then by the number. Duplicates stay.
func FoldSorted(names []string) string { return fromNames(names).Sorted().String() }

func fromNames(names []string) List {
	var l List
	for _, n := range names {
		if n != "" {
			l.pushName(n)
		}
	}
	return l
}

// pushName adds a name. Digits at its end too large for a number are taken as text.
func (l *List) pushName(name string) {
	n := prefixLen(name)
	v, err := strconv.ParseUint(name[n:], 10, 64)
	if err != nil || v == math.MaxUint64 {
		l.spans = append(l.spans, span{prefix: name, plain: true})
		return
	}
	l.push(span{prefix: name[:n], lo: v, hi: v, width: len(name) - n})
}

// push adds s, joined to the last span where it goes on from there.
func (l *List) push(s span) {
	if n := len(l.spans); n > 0 {
		if tail := &l.spans[n-1]; tail.hi+1 == s.lo && tail.sameBracket(s) && tail.sameWidth(s) {
			tail.hi = s.hi
			return
		}
	}
	l.spans = append(l.spans, s)
}

// sameBracket says whether two neighbours are written in one bracket.
func (s span) sameBracket(t span) bool {
	return !s.plain && !t.plain && s.prefix == t.prefix
}

// sameWidth says whether s and t can be written with one width: the same, or
// one that changes the zeros before the first number of either for none.
func (s span) sameWidth(t span) bool {
	return s.width == t.width ||
		zeros(s.lo, s.width) == zeros(s.lo, t.width) ||
		zeros(t.lo, t.width) == zeros(t.lo, s.width)
}

// String writes the list as it is.
func (l List) String() string {
	var buf []byte
	for i := 0; i < len(l.spans); {
		if i > 0 {
			buf = append(buf, ',')
		}
		first := l.spans[i]
		buf = append(buf, first.prefix...)
		if first.plain {
			i++
			continue
		}
		end := i + 1
		for end < len(l.spans) && first.sameBracket(l.spans[end]) {
			end++
		}
		if end == i+1 && first.lo == first.hi {
			buf = appendPadded(buf, first.lo, first.width)
		} else {
			buf = appendBracket(buf, l.spans[i:end])
		}
		i = end
	}
	return string(buf)
}

func appendBracket(buf []byte, spans []span) []byte {
	for i, s := range spans {
		if i == 0 {
			buf = append(buf, '[')
		} else {
			buf = append(buf, ',')
		}
		buf = appendPadded(buf, s.lo, s.width)
		if s.hi > s.lo {
			buf = append(buf, '-')
			buf = appendPadded(buf, s.hi, s.width)
		}
	}
	return append(buf, ']')
}

// Sorted returns the list sorted like FoldSorted. Where ranges overlap they
// are split, so that each is a run without a duplicate: 1-3 and 2-5 become
// 1-2, 2-3 and 3-5.
func (l List) Sorted() List {
	spans := slices.Clone(l.spans)
	slices.SortStableFunc(spans, compare)
	var sorted List
	for len(spans) > 0 {
		n, overlap, hi := 1, false, spans[0].hi
		for n < len(spans) && spans[n-1].sameBracket(spans[n]) && spans[n-1].sameWidth(spans[n]) {
			overlap = overlap || hi >= spans[n].lo
			hi = max(hi, spans[n].hi)
			n++
		}
		group := spans[:n]
		if overlap {
			group = split(group)
		}
		for _, s := range group {
			sorted.push(s)
		}
		spans = spans[n:]
	}
	return sorted
}

// split returns the numbers of spans one by one, in order.
func split(spans []span) []span {
	var single []span
	for _, s := range spans {
		for v := s.lo; v <= s.hi; v++ {
			single = append(single, span{prefix: s.prefix, lo: v, hi: v, width: s.width})
		}
	}
	slices.SortStableFunc(single, func(a, b span) int { return cmp.Compare(a.lo, b.lo) })
	return single
}

// compare orders spans: by prefix, names without a number first, by the
// length of the first number as it is written, by the number.
func compare(a, b span) int {
	if a.prefix != b.prefix {
		return natural(a.prefix, b.prefix)
	}
	if a.plain != b.plain {
		if a.plain {
			return -1
		}
		return 1
	}
	return cmp.Or(
		cmp.Compare(max(a.width, digitsOf(a.lo)), max(b.width, digitsOf(b.lo))),
		cmp.Compare(a.lo, b.lo))
}

// natural compares byte by byte, but runs of digits as numbers; runs of which
// one begins with 0 digit by digit. (M. Pool's "natural order" comparison,
// which Slurm uses.)
func natural(a, b string) int {
	for i := 0; i < len(a) && i < len(b); i++ {
		if isDigit(a[i]) && isDigit(b[i]) {
			x, y := digitRun(a[i:]), digitRun(b[i:])
			if a[i] != '0' && b[i] != '0' && len(x) != len(y) {
				return cmp.Compare(len(x), len(y))
			}
			if x != y {
				return cmp.Compare(x, y)
			}
			i += len(x) - 1
			continue
		}
		if a[i] != b[i] {
			return cmp.Compare(a[i], b[i])
		}
	}
	return cmp.Compare(len(a), len(b))
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// digitRun is the digits that s begins with.
func digitRun(s string) string {
	n := 0
	for n < len(s) && isDigit(s[n]) {
		n++
	}
	return s[:n]
}

// prefixLen is the length of name without the digits at its end.
func prefixLen(name string) int {
	n := len(name)
	for n > 0 && isDigit(name[n-1]) {
		n--
	}
	return n
}

func digitsOf(v uint64) int {
	n := 1
	for v >= 10 {
		v /= 10
		n++
	}
	return n
}

// zeros is how many zeros pad v to width.
func zeros(v uint64, width int) int { return max(0, width-digitsOf(v)) }

func appendPadded(buf []byte, v uint64, width int) []byte {
	for range zeros(v, width) {
		buf = append(buf, '0')
	}
	return strconv.AppendUint(buf, v, 10)
}
