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
		servers, others, foreign := site.taken(nodes, in, name)
		if len(servers) > 0 {
			all = append(all, Finding{Level: Wrong, Key: "PartitionName", Have: name, Why: fmt.Sprintf(
				"It gives %s to jobs, which serves files: they would take its memory and fill its disk. List the partition's nodes without it.", hostlist.Fold(servers))})
		}
		if len(others) > 0 && foreign && !ours[name] && !slices.Contains(in.Mixed, name) {
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
// the names of sets. foreign says that it holds others, too.
func (s Site) taken(nodes string, in Input, name string) (servers, others []string, foreign bool) {
	ours, every, listed, features := poolNodes(in), everyNode(nodes), map[string]bool{}, map[string]bool{}
	names, err := hostlist.Expand(nodes) // what cannot be read Slurm refuses, with its line
	foreign = err != nil
	for _, n := range names {
		listed[n] = true
	}
	for _, set := range s.NodeSets {
		if !listed[set.Name] {
			continue
		}
		names = slices.DeleteFunc(names, func(n string) bool { return n == set.Name })
		features[set.Attrs["feature"]] = true
		every = every || everyNode(set.Attrs["nodes"])
		inSet, err := hostlist.Expand(set.Attrs["nodes"])
		foreign = foreign || err != nil
		names = append(names, inSet...)
	}
	delete(features, "")
	for _, n := range names {
		listed[n] = true
		foreign = foreign || !ours[n] && !everyNode(n)
	}
	for _, p := range in.Pools {
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
	return servers, others, foreign || s.matches(every, features, ours)
}

// matches says that nodes of no pool are among all, or have one of the features, or may join and have it.
func (s Site) matches(every bool, features, ours map[string]bool) bool {
	if !every && len(features) == 0 {
		return false
	}
	return s.Get("MaxNodeCount") != "" || slices.ContainsFunc(s.Nodes, func(l Line) bool {
		names, err := hostlist.Expand(l.Name)
		return (every || slices.ContainsFunc(words(l.Attrs["feature"]+","+l.Attrs["features"]), func(f string) bool { return features[f] })) &&
			(err != nil || slices.ContainsFunc(names, func(n string) bool { return !ours[n] }))
	})
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
		servers, others, _ := site.taken(has.Attrs["nodes"], d.in, has.Name)
		if !everyNode(has.Attrs["nodes"]) || ours[has.Name] || slices.Contains(d.in.Mixed, has.Name) || len(servers)+len(others) == 0 {
			continue
		}
		attrs := maps.Clone(has.Attrs)
		attrs["nodes"] = list
		site.Partitions[at-1] = Line{Name: has.Name, Attrs: attrs}
		d.relist(s, has.Attrs["nodes"], "Nodes="+list)
		d.Notes = append(d.Notes, fmt.Sprintf("%s:%d: partition %s has Nodes=ALL, which takes the cloud's nodes in: any job of it would power them up. It gets the site's own; "+
			"a node that comes later is to be added there. To keep ALL, write mixed_partitions = [%q] under [slurm] in burst.toml.", s.path, s.first+1, has.Name, has.Name))
	}
	return site
}

// relist has other nodes in the line of a partition in place of those it had, and leaves a comment behind it.
func (d *differ) relist(s statement, had, nodes string) {
	to := replaced(s.text, [2]string{"nodes", had}, nodes)
	if to == s.text {
		to += " " + nodes // of a line that has them of its DEFAULT
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
