package overflow

import (
	"slices"
	"strings"
)

// parseConstraint reads sbatch's --constraint as far as one node is concerned: names, "!", "&",
// "|", parentheses, "[a|b]", and counts, which it passes over. Nil and true: there is none.
// False: it is not understood.
func parseConstraint(text string) (func(features []string) bool, bool) {
	text = strings.Join(strings.Fields(text), "")
	if text == "" {
		return nil, true
	}
	p := constraint{rest: text}
	f := p.or()
	if p.wrong || p.rest != "" {
		return nil, false
	}
	return f, true
}

type constraint struct {
	rest  string
	depth int
	wrong bool
}

type holds = func([]string) bool

func (p *constraint) take(c string) bool {
	rest, ok := strings.CutPrefix(p.rest, c)
	p.rest = rest
	return ok
}

func (p *constraint) or() holds {
	all := []holds{p.and()}
	for p.take("|") {
		all = append(all, p.and())
	}
	return func(have []string) bool { return slices.ContainsFunc(all, func(h holds) bool { return h(have) }) }
}

func (p *constraint) and() holds {
	all := []holds{p.one()}
	// Counts, [a*2&b*1], are of different nodes; here one must have both: the job rather stays.
	for p.take("&") || p.take(",") {
		all = append(all, p.one())
	}
	return func(have []string) bool {
		return !slices.ContainsFunc(all, func(h holds) bool { return !h(have) })
	}
}

// deepest is more than anybody nests.
const deepest = 20

func (p *constraint) one() holds {
	never := func([]string) bool { return false }
	if p.depth++; p.depth > deepest {
		p.wrong = true
	}
	defer func() { p.depth-- }()
	for open, end := range map[string]string{"(": ")", "[": "]"} {
		if p.wrong || !p.take(open) {
			continue
		}
		inner := p.or()
		if !p.take(end) {
			p.wrong = true
		}
		p.count()
		return inner
	}
	if p.wrong {
		return never
	}
	not := p.take("!")
	end := strings.IndexAny(p.rest, "&|,()[]*!")
	if end < 0 {
		end = len(p.rest)
	}
	name := p.rest[:end]
	if p.rest = p.rest[end:]; name == "" {
		p.wrong = true
		return never
	}
	p.count()
	return func(have []string) bool { return slices.Contains(have, name) != not }
}

// count passes over "*2".
func (p *constraint) count() {
	if !p.take("*") {
		return
	}
	digits := len(p.rest) - len(strings.TrimLeft(p.rest, "0123456789"))
	p.rest, p.wrong = p.rest[digits:], p.wrong || digits == 0
}
