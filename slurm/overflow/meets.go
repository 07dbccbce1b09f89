package overflow

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Together are the fewest of these rules that are together about every job that the rule is about, in their
// order: one that comes after them never matches. Empty where that is not certain.
func Together(rules []Rule, r Rule) (of []Rule) {
	next, last := max(1, r.MinNodes), mostNodes(r)
	for next <= last {
		best := -1
		for i, o := range rules {
			all := o
			all.MinNodes, all.MaxNodes = 0, 0
			if max(1, o.MinNodes) > next || mostNodes(o) < next || !all.Covers(r) {
				continue
			}
			if best < 0 || min(last, mostNodes(o)) > min(last, mostNodes(rules[best])) {
				best = i
			}
		}
		if best < 0 {
			return nil
		}
		of = append(of, rules[best])
		next = mostNodes(rules[best]) + 1
	}
	slices.SortStableFunc(of, func(a, b Rule) int { return cmp.Compare(a.Line, b.Line) })
	return of
}

// anyNodes is more than any job asks for.
const anyNodes = 1 << 40

func mostNodes(r Rule) int {
	if r.MaxNodes == 0 {
		return anyNodes
	}
	return r.MaxNodes
}

// Meets says about which jobs both rules are, in words for people; "": as far as can be told about none.
func (r Rule) Meets(other Rule) string {
	least, most := max(1, r.MinNodes, other.MinNodes), min(mostNodes(r), mostNodes(other))
	from := both(r.From, other.From)
	if least > most || len(from) == 0 {
		return ""
	}
	said := map[string]string{}
	for _, d := range slices.Concat(r.Directives, other.Directives) {
		key, value, _ := strings.Cut(d, "=")
		if had, twice := said[key]; twice && had != value {
			return ""
		}
		said[key] = value
	}
	words := []string{"jobs"}
	say := func(text string, names []string) {
		if len(names) > 0 {
			words = append(words, text+" "+strings.Join(names, " or "))
		}
	}
	switch {
	case r.MinNodes <= 1 && other.MinNodes <= 1 && most == anyNodes:
	case least == most:
		words = append(words, "of "+nodesText(most))
	case most == anyNodes:
		words = append(words, fmt.Sprintf("of %d or more nodes", least))
	default:
		words = append(words, fmt.Sprintf("of %d to %d nodes", least, most))
	}
	if len(from) < len(other.From) {
		say("in", from)
	}
	// A job has one user, account and QOS.
	for _, of := range []struct {
		text    string
		a, b    []string
		several bool
	}{{"of user", r.Users, other.Users, false}, {"of account", r.Accounts, other.Accounts, false}, {"with QOS", r.QOS, other.QOS, false},
		{"with feature", r.Features, other.Features, true}, {"with GRES", r.Gres, other.Gres, true}, {"with licence", r.Licenses, other.Licenses, true}} {
		out := func(s string) bool { return slices.Contains(of.a, "!"+s) || slices.Contains(of.b, "!"+s) }
		a, b := wanted(of.a), wanted(of.b)
		namesA, namesB := len(a) > 0, len(b) > 0
		a, b = slices.DeleteFunc(a, out), slices.DeleteFunc(b, out)
		if !of.several && namesA && namesB {
			a = both(a, b)
			b = a
		}
		if namesA && len(a) == 0 || namesB && len(b) == 0 {
			return ""
		}
		say(of.text, a)
		if !slices.Equal(a, b) {
			say(of.text, b)
		}
	}
	if limit := shorter(r.MaxTime, other.MaxTime); limit > 0 {
		words = append(words, "of at most "+short(limit))
	}
	for _, key := range slices.Sorted(maps.Keys(said)) {
		words = append(words, "that say "+key+"="+said[key])
	}
	return strings.Join(words, " ")
}

func shorter(a, b time.Duration) time.Duration {
	if a == 0 || b == 0 {
		return max(a, b)
	}
	return min(a, b)
}

func nodesText(n int) string {
	if n == 1 {
		return "1 node"
	}
	return fmt.Sprintf("%d nodes", n)
}

// both are those of a that are in b, too.
func both(a, b []string) []string { return without(a, without(a, b)) }
