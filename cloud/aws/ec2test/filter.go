package ec2test

import (
	"slices"
	"strings"
)

// filters are a request's: all must match, one value of each.
type filters map[string][]string

// readFilters refuses names that the action does not know; "tag:" and
// "tag-key" are always known.
func readFilters(p *params, known ...string) (filters, *failure) {
	f := filters{}
	for _, one := range p.list("Filter") {
		name := one.get("Name")
		if !strings.HasPrefix(name, "tag:") && name != "tag-key" && !slices.Contains(known, name) {
			return nil, fail("InvalidParameterValue", "The filter '%s' is invalid", name)
		}
		values := one.strings("Value")
		if len(values) > 200 {
			return nil, fail("FilterLimitExceeded", "The maximum number of filter values specified on a single call is 200")
		}
		f[name] = append(f[name], values...)
	}
	return f, nil
}

// match says whether the named filter, if there is one, lets the value pass.
func (f filters) match(name, value string) bool {
	wanted, ok := f[name]
	return !ok || slices.ContainsFunc(wanted, func(w string) bool { return matchWild(w, value) })
}

func (f filters) matchTags(tags map[string]string) bool {
	for name, wanted := range f {
		key, isTag := strings.CutPrefix(name, "tag:")
		if isTag {
			if v, ok := tags[key]; !ok || !slices.ContainsFunc(wanted, func(w string) bool { return matchWild(w, v) }) {
				return false
			}
		} else if name == "tag-key" && !slices.ContainsFunc(wanted, func(k string) bool { _, ok := tags[k]; return ok }) {
			return false
		}
	}
	return true
}

// matchWild matches EC2's wildcards: * and ?, and \ before one that is meant.
func matchWild(pattern, s string) bool {
	if !strings.ContainsAny(pattern, `*?\`) {
		return pattern == s
	}
	for pattern != "" {
		switch pattern[0] {
		case '*':
			for i := range len(s) + 1 {
				if matchWild(pattern[1:], s[i:]) {
					return true
				}
			}
			return false
		case '?':
			if s == "" {
				return false
			}
		default:
			if pattern[0] == '\\' && len(pattern) > 1 {
				pattern = pattern[1:]
			}
			if s == "" || s[0] != pattern[0] {
				return false
			}
		}
		pattern, s = pattern[1:], s[1:]
	}
	return s == ""
}
