package conf

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/burst-hpc/burst/slurm/hostlist"
)

// laid is a line of topology.conf that pools need.
type laid struct {
	text            string
	pool, partition string   // "" of the switch above several
	nodes           []string // of the pool
	small           int      // it is too small for a block, which needs so many; 0: it is not
	has             bool     // topology.conf says so
}

// tooSmall says what is to be done first where the pool is too small for a block.
func (l laid) tooSmall() string {
	return fmt.Sprintf("the pool has %d nodes for it, and a block must have at least %d (BlockSizes, or the first block): slurmctld would not start. Give the pool more nodes.", len(l.nodes), l.small)
}

// wanted is what topology.conf is to say of the pools.
type wanted struct {
	lines []laid
	stale []statement // lines of pools that are not any more, or not so
	loses []loss
	hand  []string // what only the site can say
}

// loss is a switch of the site's that lists lines which are stale, and not written anew under their names.
type loss struct {
	above statement
	names []string
}

// laidNow is what topology.conf says by now.
type laidNow struct {
	elsewhere map[string]bool      // nodes in lines of the site's
	beneath   map[string]statement // switches that lines of the site's list, and which do
	own       map[string]statement // Burst's lines, by name
	named     map[string]statement // the site's, by name
	least     int                  // nodes of a block
}

// told sorts the lines. Burst's are leaves named burst- and a pool's name, if no node of the site's is in them, or nodes that nobody has,
// and the switch burst that has such leaves alone below it. All others are the site's, and are left as they are.
func (n network) told(l layout, site Site, in Input) laidNow {
	t := laidNow{elsewhere: map[string]bool{}, beneath: map[string]statement{}, own: map[string]statement{}, named: map[string]statement{}}
	ours, pools := poolNodes(in), map[string]bool{}
	for _, p := range in.Pools {
		pools["burst-"+p.Name] = true
	}
	sites, _ := nodeAttrs(site.Nodes)
	maps.DeleteFunc(sites, func(name string, _ map[string]string) bool { return ours[name] })
	isSite := func(n string) bool { return sites[n] != nil }
	isGone := func(n string) bool { return !ours[n] && !isSite(n) }
	for _, s := range n.said {
		attrs := attrsOf(s.kvs)
		if size, _, _ := strings.Cut(attrs["blocksizes"], ","); size != "" {
			t.least, _ = strconv.Atoi(size)
		}
		name := attrs[strings.ToLower(l.name)]
		if name == "" {
			continue
		}
		nodes, _ := hostlist.Expand(attrs["nodes"]) // what cannot be read Slurm refuses
		below, _ := hostlist.Expand(attrs["switches"])
		leaf := strings.HasPrefix(name, "burst-") && len(nodes) > 0 && !slices.ContainsFunc(nodes, isSite) && (pools[name] || slices.ContainsFunc(nodes, isGone))
		above := name == "burst" && len(below) > 0 && !slices.ContainsFunc(below, func(b string) bool { return !strings.HasPrefix(b, "burst-") })
		if leaf || above {
			t.own[name] = s
			continue
		}
		t.named[name] = s
		if t.least == 0 {
			t.least = len(nodes)
		}
		for _, n := range nodes {
			t.elsewhere[n] = true
		}
		for _, b := range below {
			t.beneath[b] = s
		}
	}
	return t
}

// want is a line for each pool whose nodes the site's own lines do not have, and one for a switch above those that share a
// partition.
func (n network) want(l layout, site Site, in Input) wanted {
	t := n.told(l, site, in)
	var w wanted
	leaves := map[string][]string{} // by partition
	for _, p := range in.Pools {
		nodes := slices.DeleteFunc(slices.Clone(p.Nodes), func(n string) bool { return t.elsewhere[n] })
		if p.Server || len(nodes) == 0 {
			continue
		}
		line := laid{text: fmt.Sprintf("%s=burst-%s Nodes=%s", l.name, p.Name, hostlist.Fold(nodes)), pool: p.Name, partition: p.Partition, nodes: nodes}
		if t.least == 0 {
			t.least = len(nodes)
		}
		if l.plugin == "block" && len(nodes) < t.least {
			line.small = t.least
		}
		w.add(line, t.own)
		leaves[p.Partition] = append(leaves[p.Partition], "burst-"+p.Name)
	}
	if l.plugin == "tree" {
		w.join(in, leaves, t)
	}
	for _, name := range slices.Sorted(maps.Keys(t.own)) {
		w.stale = append(w.stale, t.own[name])
		again := slices.ContainsFunc(w.lines, func(l laid) bool { return strings.HasPrefix(l.text, "SwitchName="+name+" ") })
		if above, is := t.beneath[name]; is && !again {
			i := slices.IndexFunc(w.loses, func(l loss) bool { return l.above.path == above.path && l.above.first == above.first })
			if i < 0 {
				i = len(w.loses)
				w.loses = append(w.loses, loss{above: above})
			}
			w.loses[i].names = append(w.loses[i].names, name)
		}
	}
	return w
}

// join wants a switch above the leaves of pools that share a partition, unless the site has leaves of theirs below a switch of its own: then
// it is for the site to say where the others go, and what there is stays.
func (w *wanted) join(in Input, leaves map[string][]string, t laidNow) {
	const name = "burst"
	attrs := attrsOf(t.own[name].kvs)
	now, _ := hostlist.Expand(attrs["switches"])
	var below []string
	for _, of := range partitions(in) {
		all := leaves[of.name]
		free := slices.DeleteFunc(slices.Clone(all), func(leaf string) bool { _, is := t.beneath[leaf]; return is })
		switch {
		case len(all) < 2 || len(free) == 0:
		case len(free) == len(all) && t.named[name].kvs == nil:
			below = append(below, all...)
		default:
			above := t.named[name]
			for _, leaf := range all {
				if s, is := t.beneath[leaf]; is {
					above = s
				}
			}
			w.hand = append(w.hand, fmt.Sprintf("%s:%d: add %s to its Switches: a job over all pools of partition %s needs one switch above them", above.path, above.first+1, strings.Join(free, ","), of.name))
			for _, leaf := range all {
				if slices.Contains(now, leaf) {
					below = append(below, leaf)
				}
			}
		}
	}
	if len(below) > 0 {
		w.add(laid{text: "SwitchName=" + name + " Switches=" + strings.Join(below, ",")}, t.own)
	}
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

// left is the switch without them; "": nothing is left below it.
func (l loss) left() string {
	value := attrsOf(l.above.kvs)["switches"]
	names, _ := hostlist.Expand(value)
	names = slices.DeleteFunc(names, func(n string) bool { return slices.Contains(l.names, n) })
	if len(names) == 0 {
		return ""
	}
	return strings.Replace(l.above.text, value, strings.Join(names, ","), 1)
}

func attrsOf(kvs [][2]string) map[string]string {
	attrs := map[string]string{}
	for _, kv := range kvs {
		attrs[kv[0]] = kv[1]
	}
	return attrs
}
