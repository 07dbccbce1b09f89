package conf

import (
	"fmt"
	"slices"
	"strings"

	"github.com/burst-hpc/burst/slurm/hostlist"
)

// added tells what goes with the lines that somebody wrote into the file of what Fragment writes. A value that Fragment
// writes anew is in the diff's lines.
func (d *differ) added() {
	fragment := reader{site: Site{Settings: map[string]string{}}}
	for _, line := range logical(d.fragment) {
		fragment.line(pairs(line.text))
	}
	nodes, ours := poolNodes(d.in), partitionNames(d.in)
	for _, s := range d.said {
		if s.path != d.own {
			continue
		}
		var gone []string
		switch key := append(s.kvs, [2]string{})[0]; key[0] {
		case "nodename":
			if names, err := hostlist.Expand(key[1]); err == nil && overlap(names, nodes) != "" {
				d.lost(s, nodeKeys...)
				continue
			}
			gone = []string{s.text}
		case "partitionname":
			if ours[key[1]] {
				d.lost(s, partitionKeys...)
				continue
			}
			gone = []string{s.text}
		case "", "downnodes", "nodeset", "frontendname", "switchname":
			gone = []string{s.text}
		default:
			gone = lostSettings(s, fragment.site)
		}
		if len(gone) > 0 {
			d.Notes = append(d.Notes, fmt.Sprintf("%s:%d: %s goes: what is to stay belongs into a file of the site's own, above the Include.",
				s.path, s.first+1, strings.Join(gone, " ")))
		}
	}
}

// lostSettings are those of a line that the fragment does not set, and what it does not have of their lists.
func lostSettings(s statement, fragment Site) []string {
	var all []string
	for _, kv := range s.kvs {
		want, known := fragment.Settings[kv[0]]
		switch lacks := slices.DeleteFunc(words(kv[1]), func(w string) bool { return slices.Contains(words(want), w) }); {
		case !known:
			all = append(all, kv[0]+"="+kv[1])
		case strings.Contains(kv[1], ",") && len(lacks) > 0:
			all = append(all, kv[0]+"="+strings.Join(lacks, ","))
		}
	}
	return all
}
