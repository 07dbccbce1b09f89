package conf

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
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
			f.Why += " But " + p.tooSmall()
		}
		all = append(all, f)
	}
	for _, text := range want.hand {
		all = append(all, Finding{Level: Advice, Key: l.name, Why: text + "."})
	}
	for _, s := range want.stale {
		all = append(all, Finding{Level: Wrong, Key: l.name, Have: s.kvs[0][1], Why: fmt.Sprintf("%s:%d: it is of no pool as burst.toml has it: with nodes that slurm.conf does not have slurmctld does not start. "+
			"Remove the line.", s.path, s.first+1)})
	}
	return all
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
	d.Hand = append(d.Hand, want.hand...)
	for _, s := range want.stale {
		d.edit(s, "")
	}
	for _, l := range want.loses {
		gone := strings.Join(l.names, ",")
		if left := l.left(); left != "" {
			d.edit(l.above, left)
			d.Hand = append(d.Hand, fmt.Sprintf("%s:%d: %s goes from its Switches; add what takes its place, if a pool does", l.above.path, l.above.first+1, gone))
			continue
		}
		d.Hand = append(d.Hand, fmt.Sprintf("%s:%d: it has nothing but %s below it, which goes: slurmctld does not start with a switch that is not there. Remove the line, or give it others", l.above.path, l.above.first+1, gone))
	}
	for _, line := range want.lines {
		switch {
		case line.has:
		case line.small > 0:
			d.Hand = append(d.Hand, "BlockName=burst-"+line.pool+": "+line.tooSmall())
		default:
			d.append(d.network.path, line.text)
		}
	}
}
