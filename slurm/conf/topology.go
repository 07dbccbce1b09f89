package conf

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/burst-hpc/burst/slurm/hostlist"
)

// Files of the network beside slurm.conf. From topologyYAML on Slurm reads topology.yaml, where there is
// one, in place of both topology.conf and TopologyPlugin.
const (
	topologyName = "topology.conf"
	yamlName     = "topology.yaml"
)

// network is what the files beside slurm.conf say of switches, or blocks.
type network struct {
	path  string // of topology.conf
	yaml  string // what topology.yaml says
	err   error  // why topology.conf or topology.yaml cannot be read; that there is none is no error
	texts []text
	said  []statement
}

// readNetwork reads them from slurm.conf's own folder.
func readNetwork(dir string) network {
	n := network{path: filepath.Join(dir, topologyName)}
	r := reader{dir: dir, site: Site{Settings: map[string]string{}}}
	yaml, err := os.ReadFile(filepath.Join(dir, yamlName))
	for _, err := range []error{err, r.file(n.path, 0)} {
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			n.err = err
		}
	}
	n.yaml, n.texts, n.said = string(yaml), r.texts, r.said
	return n
}

// layout is a plugin that gives jobs nodes by what topology.conf says.
type layout struct {
	plugin, name string // "tree", "SwitchName"
	what         string // of which a node must be in one
}

var layouts = []layout{
	{"tree", "SwitchName", "switch"},
	{"block", "BlockName", "block"},
}

// layout is what the site's jobs are laid out by; none is said of a plugin that asks nothing of topology.conf, and where
// jobs are laid out by it only if they ask to be (by --switches).
func (s Site) layout() (layout, bool) {
	plugin := strings.TrimPrefix(strings.ToLower(s.Get("TopologyPlugin")), "topology/")
	i := slices.IndexFunc(layouts, func(l layout) bool { return l.plugin == plugin })
	if i < 0 || plugin == "tree" && s.topologyParam("TopoOptional") {
		return layout{}, false
	}
	return layouts[i], true
}

// inYAML says that Slurm reads topology.yaml.
func (s Site) inYAML() bool { return s.Release.Since(topologyYAML) && s.network.yaml != "" }

func (s Site) topologyParam(name string) bool {
	return slices.ContainsFunc(words(s.Get("TopologyParam")), func(w string) bool { return strings.EqualFold(w, name) })
}

// topology finds pools whose nodes the site's network has in no switch, or block: Slurm refuses their jobs, or lets
// those wait for ever that may run elsewhere, too.
func topology(site Site, in Input) []Finding {
	if site.inYAML() {
		return absentFromYAML(site, in)
	}
	l, matters := site.layout()
	switch {
	case !matters:
		return nil
	case site.network.err != nil:
		return []Finding{{Level: Unknown, Key: "TopologyPlugin", Have: site.Get("TopologyPlugin"),
			Why: fmt.Sprintf("What it lays jobs out by cannot be read: %v.", site.network.err)}}
	}
	want := site.network.want(l, site, in)
	var all []Finding
	for _, p := range want.lines {
		f := Finding{Level: Wrong, Key: l.name, Want: p.text, Why: fmt.Sprintf("TopologyPlugin is %s, and %s has %s in no %s: sbatch refuses jobs of partition %s, and one that may run "+
			"elsewhere, too, only waits there. Add the line to it. Where slurmctld has the nodes already, \"scontrol reconfigure\" is enough.", site.Get("TopologyPlugin"), topologyName, hostlist.Fold(p.nodes), l.what, p.partition)}
		switch {
		case p.has:
			f.Level, f.Have, f.Why = OK, strings.TrimPrefix(p.text, l.name+"="), fmt.Sprintf("%s has it.", topologyName)
		case p.partition == "":
			f.Why = fmt.Sprintf("A job over nodes of several pools needs a switch above theirs: without one sbatch refuses it. Add the line to %s.", topologyName)
		case p.small > 0:
			f.Want = ""
			f.Have = "burst-" + p.pool
			f.Why += fmt.Sprintf(" But a block must have at least %d nodes (BlockSizes, or the first block), and the pool has %d for it: slurmctld would not start. Give the pool more nodes.", p.small, len(p.nodes))
		}
		all = append(all, f)
	}
	for _, s := range want.stale {
		all = append(all, Finding{Level: Wrong, Key: l.name, Have: s.kvs[0][1], Why: fmt.Sprintf("%s:%d: it is of no pool as burst.toml has it: with nodes that slurm.conf does not have slurmctld does not start. "+
			"Remove the line.", s.path, s.first+1)})
	}
	return all
}

// laid is a line of topology.conf that pools need.
type laid struct {
	text            string
	pool, partition string   // "" of the switch above several
	nodes           []string // of the pool
	small           int      // it is too small for a block, which needs so many; 0: it is not
	has             bool     // topology.conf says so
}

// wanted is what topology.conf is to say of the pools.
type wanted struct {
	lines []laid
	stale []statement // those of pools that are not, or not so
}

// want is a line for each pool whose nodes the site's own lines do not have, and one for a switch above those that share a
// partition. Lines named burst, and burst- with a pool's name, are Burst's, if no node of the site's is in them.
func (n network) want(l layout, site Site, in Input) wanted {
	key := strings.ToLower(l.name)
	elsewhere, beneath, own := map[string]bool{}, map[string]bool{}, map[string]statement{}
	sites, _ := nodeAttrs(site.Nodes)
	maps.DeleteFunc(sites, func(name string, _ map[string]string) bool { return poolNodes(in)[name] })
	least := 0
	for _, s := range n.said {
		attrs := map[string]string{}
		for _, kv := range s.kvs {
			attrs[kv[0]] = kv[1]
		}
		if size, _, _ := strings.Cut(attrs["blocksizes"], ","); size != "" {
			least, _ = strconv.Atoi(size)
		}
		name, ours := attrs[key], false
		if name == "" {
			continue
		}
		nodes, _ := hostlist.Expand(attrs["nodes"]) // what cannot be read Slurm refuses
		if name == "burst" || strings.HasPrefix(name, "burst-") {
			ours = !slices.ContainsFunc(nodes, func(n string) bool { return sites[n] != nil })
		}
		if ours {
			own[name] = s
			continue
		}
		if least == 0 {
			least = len(nodes)
		}
		for _, n := range nodes {
			elsewhere[n] = true
		}
		below, _ := hostlist.Expand(attrs["switches"])
		for _, b := range below {
			beneath[b] = true
		}
	}
	var w wanted
	shared := map[string][]string{} // partition -> leaves
	for _, p := range in.Pools {
		nodes := slices.DeleteFunc(slices.Clone(p.Nodes), func(n string) bool { return elsewhere[n] })
		if p.Server || len(nodes) == 0 {
			continue
		}
		line := laid{text: fmt.Sprintf("%s=burst-%s Nodes=%s", l.name, p.Name, hostlist.Fold(nodes)), pool: p.Name, partition: p.Partition, nodes: nodes}
		if least == 0 {
			least = len(nodes)
		}
		if l.plugin == "block" && len(nodes) < least {
			line.small = least
		}
		w.add(line, own)
		if !beneath["burst-"+p.Name] {
			shared[p.Partition] = append(shared[p.Partition], "burst-"+p.Name)
		}
	}
	var leaves []string
	for _, of := range partitions(in) {
		if len(shared[of.name]) > 1 {
			leaves = append(leaves, shared[of.name]...)
		}
	}
	if l.plugin == "tree" && len(leaves) > 0 {
		w.add(laid{text: "SwitchName=burst Switches=" + strings.Join(leaves, ",")}, own)
	}
	for _, name := range slices.Sorted(maps.Keys(own)) {
		w.stale = append(w.stale, own[name])
	}
	return w
}

// add wants a line, and takes the one that says so already out of own.
func (w *wanted) add(line laid, own map[string]statement) {
	kvs := pairs(line.text)
	has := own[kvs[0][1]]
	if len(has.kvs) > 1 && covers(attrsOf(has.kvs), attrsOf(kvs)) {
		line.has = true
		delete(own, kvs[0][1])
	}
	w.lines = append(w.lines, line)
}

func attrsOf(kvs [][2]string) map[string]string {
	attrs := map[string]string{}
	for _, kv := range kvs[1:] {
		attrs[kv[0]] = kv[1]
	}
	return attrs
}

// topologyText is the lines of topology.conf that pools need, as comments.
func topologyText(site Site, in Input) string {
	l, matters := site.layout()
	if !matters || !site.Lines || site.network.err != nil || site.inYAML() {
		return ""
	}
	var b strings.Builder
	for _, line := range site.network.want(l, site, in).lines {
		if line.small > 0 {
			continue // check and --diff say what to do first
		}
		if b.Len() == 0 {
			b.WriteByte('\n')
			comment(&b, topologyName+" must hold:")
		}
		b.WriteString("#   " + line.text + "\n")
	}
	return b.String()
}

// lay has the lines of pools in topology.conf as they are to be: at its end, where no block changes its place by them. Site is
// what there is without the file that Fragment wrote: nodes of a pool that is gone go with that.
func (d *differ) lay(site Site) {
	if site.inYAML() || site.network.err != nil {
		for _, f := range topology(site, d.in) {
			if f.MustChange() {
				d.Hand = append(d.Hand, f.Have+": "+f.Why)
			}
		}
		return
	}
	l, matters := site.layout()
	if !matters {
		return
	}
	want := site.network.want(l, site, d.in)
	for _, s := range want.stale {
		d.edit(s, "")
	}
	for _, line := range want.lines {
		switch {
		case line.has:
		case line.small > 0:
			d.Hand = append(d.Hand, fmt.Sprintf("BlockName=burst-%s: the pool has %d nodes for it, and a block must have at least %d: slurmctld would not start. Give the pool more nodes.",
				line.pool, len(line.nodes), line.small))
		default:
			d.append(d.network.path, line.text)
		}
	}
}
