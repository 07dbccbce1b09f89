package hostlist

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// part is text and the bracket after it. A name without brackets is one part
// without ranges, and so is what follows the last bracket of another.
type part struct {
	text   string
	ranges []span // prefix empty
}

var errTooLong = fmt.Errorf("a name of more than %d bytes", maxName)

// tokenLen returns the length of the name that s begins with, brackets and
// what is in them included.
func tokenLen(s string) (int, error) {
	open := false
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '[' && open:
			return 0, errors.New("a bracket within a bracket")
		case c == '[':
			open = true
		case c == ']' && !open:
			return 0, errors.New("a closing bracket that was not opened")
		case c == ']':
			open = false
		case !open && strings.IndexByte(separator, c) >= 0:
			return i, nil
		}
	}
	if open {
		return 0, errors.New("a bracket is not closed")
	}
	return len(s), nil
}

// parseToken reads one name whose brackets are known to be balanced.
func parseToken(tok string) ([]part, error) {
	var parts []part
	size := 0 // of the longest name, in bytes
	for tok != "" {
		text, rest, found := strings.Cut(tok, "[")
		if size += len(text); size > maxName {
			return nil, errTooLong
		}
		if !found {
			if len(parts) > 0 {
				parts = append(parts, part{text: text})
				break
			}
			if digits := text[prefixLen(text):]; digits != "" {
				if _, err := parseNumber(digits); err != nil {
					return nil, err
				}
			}
			return []part{{text: text}}, nil
		}
		list, after, _ := strings.Cut(rest, "]")
		ranges, err := parseBracket(list)
		if err != nil {
			return nil, err
		}
		longest := 0
		for _, r := range ranges {
			longest = max(longest, r.width, digitsOf(r.hi))
		}
		if size += longest; size > maxName {
			return nil, errTooLong
		}
		parts = append(parts, part{text, ranges})
		tok = after
	}
	brackets, _ := cutSuffix(parts)
	for _, p := range brackets[:len(brackets)-1] {
		if n := rangesLen(p.ranges); n > maxRange {
			return nil, fmt.Errorf("%d numbers in a bracket that is not the last; at most %d", n, maxRange)
		}
	}
	return parts, nil
}

func parseBracket(list string) ([]span, error) {
	n := strings.Count(list, ",") + 1
	if n > maxRange {
		return nil, fmt.Errorf("%d ranges in a bracket; at most %d", n, maxRange)
	}
	ranges := make([]span, 0, n)
	for item := range strings.SplitSeq(list, ",") {
		r, err := parseRange(item)
		if err != nil {
			return nil, err
		}
		ranges = append(ranges, r)
	}
	return ranges, nil
}

func parseRange(item string) (span, error) {
	first, last, isRange := strings.Cut(item, "-")
	lo, err := parseNumber(strings.TrimLeft(first, blank))
	if err != nil {
		return span{}, fmt.Errorf("range %q: %w", cut(item), err)
	}
	hi := lo
	if isRange {
		if hi, err = parseNumber(strings.TrimLeft(last, blank)); err != nil {
			return span{}, fmt.Errorf("range %q: %w", cut(item), err)
		}
	}
	if hi < lo {
		return span{}, fmt.Errorf("range %q ends below its start", cut(item))
	}
	if hi-lo >= maxRange {
		return span{}, fmt.Errorf("range %q: %d names; at most %d in a range", cut(item), hi-lo+1, maxRange)
	}
	return span{lo: lo, hi: hi, width: len(first)}, nil
}

// parseNumber reads digits; the largest uint64 is refused, because Slurm
// writes it for all that is larger.
func parseNumber(s string) (uint64, error) {
	if s == "" {
		return 0, errors.New("a number is missing")
	}
	if prefixLen(s) != 0 {
		return 0, fmt.Errorf("%q is not a number", cut(s))
	}
	v, err := strconv.ParseUint(s, 10, 64)
	if err != nil || v == math.MaxUint64 {
		return 0, fmt.Errorf("%s is too large a number", cut(s))
	}
	return v, nil
}

// tokenNames counts the names of a token, up to one more than maxNames.
func tokenNames(parts []part) int {
	n := 1
	for _, p := range parts {
		if p.ranges != nil {
			n = min(n*min(rangesLen(p.ranges), maxNames+1), maxNames+1)
		}
	}
	return n
}

func rangesLen(ranges []span) int {
	n := 0
	for _, r := range ranges {
		n += r.count()
	}
	return n
}

// cutSuffix takes the text after the last bracket apart.
func cutSuffix(parts []part) (brackets []part, suffix string) {
	if n := len(parts) - 1; n > 0 && parts[n].ranges == nil {
		return parts[:n], parts[n].text
	}
	return parts, ""
}

// pushToken adds a token's names to the list.
func (l *List) pushToken(parts []part) {
	parts, suffix := cutSuffix(parts)
	last := parts[len(parts)-1]
	if last.ranges == nil {
		l.pushName(last.text)
		return
	}
	var walk func(i int, tail string)
	walk = func(i int, tail string) {
		if i < 0 {
			for _, r := range last.ranges {
				if r.prefix = tail; suffix == "" {
					l.push(r)
				} else {
					l.pushWith(r, suffix)
				}
			}
			return
		}
		for _, r := range parts[i].ranges {
			for v := r.lo; v <= r.hi; v++ {
				walk(i-1, parts[i].text+string(appendPadded(nil, v, r.width))+tail)
			}
		}
	}
	walk(len(parts)-2, last.text)
}

// pushWith adds the names of a range that go on after their number. Slurm takes the whole for
// text, also what ends in digits.
func (l *List) pushWith(r span, suffix string) {
	for v := r.lo; v <= r.hi; v++ {
		l.spans = append(l.spans, span{prefix: r.prefix + string(appendPadded(nil, v, r.width)) + suffix, plain: true})
	}
}

// cut keeps an error's line readable.
func cut(s string) string {
	const most = 60
	if len(s) <= most {
		return s
	}
	return s[:most] + "…"
}
