package conf

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/burst-hpc/burst/slurm/hostlist"
)

// mixed are partitions of the site that hold nodes of pools: servers of files, which are for no job, and others
// that burst.toml does not say they are to hold. Slurm powers those up for any job of the partition. One that lists nodes of
// pools alone is one more of the cloud's, which users choose.
func mixed(site Site, in Input) []Finding {
	lines, ours := site.partitions(), partitionNames(in)
	var all []Finding
	for _, name := range slices.Sorted(maps.Keys(lines)) {
		nodes := lines[name]["nodes"]
		servers, others := site.taken(nodes, in.Pools, name)
		if len(servers) > 0 {
			all = append(all, Finding{Level: Wrong, Key: "PartitionName", Have: name, Why: fmt.Sprintf(
				"It gives %s to jobs, which serves files: they would take its memory and fill its disk. List the partition's nodes without it.", hostlist.Fold(servers))})
		}
		listed, err := hostlist.Expand(nodes)
		cloud := err == nil && without(listed, slices.Concat(servers, others)) == ""
		if len(others) > 0 && !cloud && !ours[name] && !slices.Contains(in.Mixed, name) {
			all = append(all, Finding{Level: Wrong, Key: "PartitionName", Have: name, Why: fmt.Sprintf(
				"Its Nodes=%s hold %s of the cloud: any job of it may power them up and cost money, by no rule of overflow, and \"#BURST stay\" keeps none away. %s. "+
					"If that is meant, write mixed_partitions = [%q] under [slurm] in burst.toml.", nodes, hostlist.Fold(others), site.instead(nodes, in), name)})
		}
	}
	return all
}

// instead is what to write for the nodes of a partition that takes in those of pools.
func (s Site) instead(nodes string, in Input) string {
	list, known := s.own(in)
	switch {
	case !everyNode(nodes):
		return "Leave them out there, or in the NodeSet by which they are in"
	case known:
		return "Write Nodes=" + list
	}
	return "List the site's own nodes instead"
}

// own are the site's own nodes, folded. They are not known to be all where others may join, or where a line cannot be read.
func (s Site) own(in Input) (list string, known bool) {
	ours, known := poolNodes(in), s.Get("MaxNodeCount") == ""
	var all []string
	for _, l := range s.Nodes {
		names, err := hostlist.Expand(l.Name)
		known = known && err == nil
		all = append(all, slices.DeleteFunc(names, func(n string) bool { return ours[n] })...)
	}
	return hostlist.Fold(all), known && len(all) > 0
}

func everyNode(nodes string) bool { return strings.EqualFold(nodes, "ALL") }

// taken are the nodes of pools, but for those whose partition is name, that a partition holds by its Nodes: ALL, a list, or
// the names of sets.
func (s Site) taken(nodes string, pools []Pool, name string) (servers, others []string) {
	every, listed, features := everyNode(nodes), map[string]bool{}, map[string]bool{}
	names, _ := hostlist.Expand(nodes) // what cannot be read Slurm refuses, with its line
	for _, n := range names {
		listed[n] = true
	}
	for _, set := range s.NodeSets {
		if !listed[set.Name] {
			continue
		}
		features[set.Attrs["feature"]] = true
		every = every || everyNode(set.Attrs["nodes"])
		inSet, _ := hostlist.Expand(set.Attrs["nodes"])
		for _, n := range inSet {
			listed[n] = true
		}
	}
	for _, p := range pools {
		if p.Partition == name {
			continue
		}
		whole := every || slices.ContainsFunc(p.said(s.NodeDefault), func(f string) bool { return features[f] })
		for _, n := range p.Nodes {
			switch {
			case !whole && !listed[n]:
			case p.Server:
				servers = append(servers, n)
			default:
				others = append(others, n)
			}
		}
	}
	return servers, others
}

// said are the features of the pool's nodes: those of the NodeName=DEFAULT line where it has none itself.
func (p Pool) said(def map[string]string) []string {
	if len(p.Features) > 0 {
		return p.Features
	}
	return words(def["feature"] + "," + def["features"])
}

// narrow has the site's own nodes in place of ALL in lines of its partitions, unless they are to hold the pools', or not all of
// its own are known. It returns the site as it is then.
func (d *differ) narrow(site Site) Site {
	list, known := site.own(d.in)
	if !known {
		return site
	}
	ours, path := partitionNames(d.in), d.Files.own()
	site.Partitions = slices.Clone(site.Partitions)
	lines := reader{site: Site{Settings: map[string]string{}}} // with what their DEFAULT lines say
	at := 0
	for _, s := range d.said {
		if s.path == path && path != "" || s.include != "" || len(s.kvs) == 0 || s.kvs[0][0] != "partitionname" {
			continue
		}
		if lines.line(s.kvs); strings.EqualFold(s.kvs[0][1], "DEFAULT") {
			continue
		}
		has := last(lines.site.Partitions)
		at++
		servers, others := site.taken(has.Attrs["nodes"], d.in.Pools, has.Name)
		if !everyNode(has.Attrs["nodes"]) || ours[has.Name] || slices.Contains(d.in.Mixed, has.Name) || len(servers)+len(others) == 0 {
			continue
		}
		attrs := maps.Clone(has.Attrs)
		attrs["nodes"] = list
		site.Partitions[at-1] = Line{Name: has.Name, Attrs: attrs}
		d.relist(s, "Nodes="+list)
		d.Notes = append(d.Notes, fmt.Sprintf("%s:%d: partition %s has Nodes=ALL, which takes the cloud's nodes in: any job of it would power them up. It gets the site's own; "+
			"a node that comes later is to be added there. To keep ALL, write mixed_partitions = [%q] under [slurm] in burst.toml.", s.path, s.first+1, has.Name, has.Name))
	}
	return site
}

// relist has other nodes in the line of a partition, and leaves a comment behind it.
func (d *differ) relist(s statement, nodes string) {
	to := s.text + " " + nodes // of a line that has them of its DEFAULT
	if had := pairText(s.text, "nodes"); had != "" {
		to = strings.Replace(s.text, had, nodes, 1)
	}
	for _, t := range d.texts {
		if t.path != s.path || s.first != s.last {
			continue
		}
		raw := strings.TrimRight(slices.Collect(strings.Lines(t.text))[s.first], "\r\n")
		if comment := strings.TrimSpace(raw[len(uncomment(raw)):]); comment != "" {
			to += " " + comment
		}
		break
	}
	d.edit(s, to)
}
