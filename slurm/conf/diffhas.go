package conf

import (
	"cmp"
	"slices"
	"strings"

	"github.com/burst-hpc/burst/slurm/hostlist"
)

// satisfied says whether the site has all without a file that Fragment wrote.
func (d *differ) satisfied() bool {
	if slices.ContainsFunc(settings(d.Site, d.in), Finding.MustChange) {
		return false
	}
	want := reader{site: Site{Settings: map[string]string{}}}
	for _, line := range logical(d.fragment) {
		want.line(pairs(line.text))
	}
	have, twice := nodeAttrs(d.Nodes)
	wanted, _ := nodeAttrs(want.site.Nodes)
	for name, attrs := range wanted {
		if twice[name] || !covers(have[name], attrs) {
			return false
		}
	}
	seen := map[string]int{}
	for _, l := range d.Partitions {
		seen[l.Name]++
	}
	lines := d.partitions()
	for name, attrs := range want.site.partitions() {
		if seen[name] != 1 || !covers(lines[name], attrs) {
			return false
		}
	}
	return true
}

// nodeAttrs is what the lines say of each node, and which are in several.
func nodeAttrs(lines []Line) (attrs map[string]map[string]string, twice map[string]bool) {
	attrs, twice = map[string]map[string]string{}, map[string]bool{}
	for _, l := range lines {
		names, err := hostlist.Expand(l.Name)
		if err != nil {
			continue // Slurm itself refuses it, with its line
		}
		for _, n := range names {
			twice[n] = attrs[n] != nil
			attrs[n] = l.Attrs
		}
	}
	return attrs, twice
}

// covers says whether a line has all that another one has.
func covers(have, want map[string]string) bool {
	for key, value := range want {
		other := have[key]
		switch key {
		case "feature":
			if without(words(value), words(other+","+have["features"])) != "" {
				return false
			}
			continue
		case "nodes":
			a, errA := hostlist.Expand(value)
			b, errB := hostlist.Expand(other)
			if errA != nil || errB != nil || without(a, b) != "" || without(b, a) != "" {
				return false
			}
			continue
		case "switches":
			a, errA := hostlist.Expand(value)
			b, errB := hostlist.Expand(other)
			if errA != nil || errB != nil || without(a, b) != "" {
				return false
			}
			continue
		case "cpus":
			other = cmp.Or(other, have["procs"])
		case "port":
			value, other = strings.Trim(value, "[]"), strings.Trim(other, "[]")
		case "state":
			other = cmp.Or(other, "UP") // of a partition; a node of a cloud has to have one
		case "suspendtime":
			if other == "-1" {
				other = "INFINITE"
			}
		}
		if !strings.EqualFold(value, other) {
			return false
		}
	}
	return true
}
