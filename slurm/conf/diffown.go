package conf

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/burst-hpc/burst/slurm/hostlist"
)

// nodeKeys and partitionKeys are of lines that Fragment writes with values of its own.
var (
	nodeKeys = []string{"state", "cpus", "procs", "realmemory", "sockets", "corespersocket", "threadspercore", "gres", "feature", "features",
		"port", "nodeaddr", "nodehostname"}
	partitionKeys = []string{"state", "nodes", "suspendtime", "resumetimeout", "suspendtimeout"}
)

// poolNodes are the nodes of all pools.
func poolNodes(in Input) map[string]bool {
	nodes := map[string]bool{}
	for _, p := range in.Pools {
		for _, n := range p.Nodes {
			nodes[n] = true
		}
	}
	return nodes
}

func last(lines []Line) Line { return lines[len(lines)-1] }

// nodeLine takes the nodes that are ours out of a line; has is the line with what its DEFAULT line says. Nodes that
// do not come and go are the site's own.
func (d *differ) nodeLine(s statement, has Line, ours map[string]bool) {
	names, err := hostlist.Expand(has.Name)
	both := overlap(names, ours)
	if err != nil || both == "" {
		return
	}
	rest := slices.DeleteFunc(slices.Clone(names), func(n string) bool { return ours[n] })
	switch state := has.Attrs["state"]; {
	case !strings.EqualFold(state, "CLOUD"):
		d.ownLine(s, fmt.Sprintf("%s is the site's own there (State=%s), and a pool of burst.toml has the name: give the pool's nodes other names. "+
			"If it is to be a node of the cloud, remove it there.", both, cmp.Or(state, "UNKNOWN")))
	case len(rest) == 0:
		d.edit(s, "")
		d.lost(s, nodeKeys...)
	case eachOwn(s) != "":
		d.ownLine(s, fmt.Sprintf("Slurm takes a node only once: remove %s there, and what %s says of it.", both, eachOwn(s)))
	default:
		at := pair.FindStringIndex(s.text)
		d.edit(s, s.text[:at[0]]+"NodeName="+hostlist.Fold(rest)+s.text[at[1]:])
	}
}

// partitionLine takes a line of a partition that is ours away; has is the line with what its DEFAULT line says. With
// nodes of no pool it is the site's own.
func (d *differ) partitionLine(s statement, has Line, ours map[string]bool) {
	if !ours[has.Name] {
		return
	}
	all := partitions(d.in)
	p := all[slices.IndexFunc(all, func(p partition) bool { return p.name == has.Name })]
	if why := p.foreign(has.Attrs); why != "" {
		d.ownLine(s, why)
		return
	}
	d.edit(s, "")
	d.lost(s, partitionKeys...)
}

// eachOwn is the key of a line that says for each of its nodes something else; empty: none.
func eachOwn(s statement) string {
	for _, kv := range s.kvs {
		switch kv[0] {
		case "nodeaddr", "nodehostname", "bcastaddr":
			if strings.ContainsAny(kv[1], "[,") {
				return kv[0]
			}
		case "port":
			if strings.ContainsAny(kv[1], "[,-") {
				return kv[0]
			}
		}
	}
	return ""
}

// ownLine tells of a line that stays, beside which Slurm cannot have what Fragment writes.
func (d *differ) ownLine(s statement, why string) {
	d.clash = true
	d.Hand = append(d.Hand, fmt.Sprintf("%s:%d: %s=%s: %s No change is shown until then.", s.path, s.first+1, pairKey(s), s.kvs[0][1], why))
}

// pairKey is the first key of a line of a node or a partition, as Slurm's manual has it.
func pairKey(s statement) string {
	if s.kvs[0][0] == "nodename" {
		return "NodeName"
	}
	return "PartitionName"
}

// lost tells what a line that goes says and Fragment does not write.
func (d *differ) lost(s statement, written ...string) {
	var all []string
	for _, kv := range s.kvs[1:] {
		plain := kv[0] == "default" && strings.EqualFold(kv[1], "NO")
		if !plain && !slices.Contains(written, kv[0]) && !strings.Contains(strings.ToLower(d.fragment), kv[0]+"="+strings.ToLower(kv[1])) {
			all = append(all, kv[0]+"="+kv[1])
		}
	}
	where := "a PartitionName=DEFAULT line before the Include keeps it"
	if s.kvs[0][0] == "nodename" {
		where = "node_options of the pool, in burst.toml, keep it"
	}
	if len(all) > 0 {
		d.Notes = append(d.Notes, fmt.Sprintf("%s:%d goes, and with it %s: %s.", s.path, s.first+1, strings.Join(all, " "), where))
	}
}
