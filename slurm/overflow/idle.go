package overflow

import (
	"fmt"
	"slices"
	"strings"
)

// Empty says why the rule can be about no job; "": it may be.
func (r Rule) Empty() string {
	if r.MaxNodes > 0 && r.MinNodes > r.MaxNodes {
		return "nodes is an empty range"
	}
	for _, of := range []struct {
		key  string
		list []string
	}{{"accounts", r.Accounts}, {"users", r.Users}, {"qos", r.QOS}, {"features", r.Features}, {"gres", r.Gres}, {"licenses", r.Licenses}} {
		if named := wanted(of.list); len(named) > 0 && !slices.ContainsFunc(named, func(s string) bool { return !slices.Contains(of.list, "!"+s) }) {
			return of.key + " leaves out all that it names"
		}
	}
	said := map[string]string{}
	for _, d := range r.Directives {
		key, value, _ := strings.Cut(d, "=")
		if other, twice := said[key]; twice && other != value {
			return fmt.Sprintf("directives asks for %s=%s and %s=%s, and a job says one of them", key, other, key, value)
		}
		said[key] = value
	}
	return ""
}

// Idle says why the rule can move no job at this site, whomever it is about; "": it may.
func (r Rule) Idle(site OnPrem) string {
	for _, of := range []struct {
		key  string
		list []string
		has  func(string) bool
	}{{"features", r.Features, func(s string) bool { return slices.Contains(site.Features, s) }},
		{"licenses", r.Licenses, func(s string) bool {
			return slices.ContainsFunc(licensesOf(s), func(l string) bool { return slices.Contains(site.Licenses, l) })
		}}} {
		// What the rule leaves out, too, no job of its has.
		named := slices.DeleteFunc(wanted(of.list), func(s string) bool { return slices.Contains(of.list, "!"+s) })
		if len(named) > 0 && !slices.ContainsFunc(named, func(s string) bool { return !of.has(s) }) {
			return fmt.Sprintf("all of its %s (%s) are among those of [onprem], and no job that uses such a one is moved", of.key, strings.Join(named, ", "))
		}
	}
	if slices.Contains(r.Directives, "stay=yes") {
		return "no job that says #BURST stay is moved"
	}
	// A job that asks for gpu:a100 asks for gpu, too.
	kinds := wanted(r.Gres)
	if len(kinds) > 0 && !slices.ContainsFunc(kinds, func(s string) bool {
		kind, _, _ := strings.Cut(s, ":")
		return !slices.Contains(r.Gres, "!"+kind) && !slices.Contains(r.Gres, "!"+s)
	}) {
		return "gres leaves out the kinds of all that it names, and so those, too"
	}
	return ""
}

// wanted are those of the list that it does not leave out by a "!".
func wanted(list []string) []string {
	return slices.DeleteFunc(slices.Clone(list), func(s string) bool { return strings.HasPrefix(s, "!") })
}
