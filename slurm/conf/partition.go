package conf

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/burst-hpc/burst/slurm/hostlist"
)

// checkPartitions finds partitions that slurm.conf lacks, that hold other
// nodes, or whose power saving has other times.
func checkPartitions(site Site, in Input) []Finding {
	lines := site.partitions()
	var all []Finding
	for _, p := range partitions(in) {
		f := Finding{Level: OK, Key: "PartitionName", Have: p.name, Want: p.line(), Why: "Has power saving of its own."}
		if attrs, known := lines[p.name]; !known {
			f.Level, f.Have, f.Why = Missing, "", fmt.Sprintf("slurm.conf has no partition %s.", p.name)
		} else if why := p.differences(attrs); why != "" {
			f.Level, f.Why = Wrong, why
		} else if p.SuspendTimeout < safeSuspendTimeout {
			f.Level, f.Why = Advice, fmt.Sprintf("SuspendTimeout=%d: the next instance of a node may answer what slurmctld still has to say to the last one, "+
				"and lose its job by that. Write a suspend_timeout of at least %v.", seconds(p.SuspendTimeout), safeSuspendTimeout)
		}
		all = append(all, f)
		all = append(all, p.inherits(site.PartitionDefault, lines[p.name])...)
	}
	return append(all, mixed(site, in)...)
}

// inherits tells what the site's PartitionName=DEFAULT line gives to the partition, has: who may use it, say, and for how
// long. What its own line says in another way stays, and a server's takes no jobs.
func (p partition) inherits(def, has map[string]string) []Finding {
	var said []string
	for _, key := range slices.Sorted(maps.Keys(def)) {
		value, known := has[key]
		plain := key == "default" && strings.EqualFold(def[key], "NO")
		if !p.Server && !plain && !slices.Contains(partitionKeys, key) && (!known || value == def[key]) {
			said = append(said, key+"="+def[key])
		}
	}
	if len(said) == 0 {
		return nil
	}
	return []Finding{{Level: Advice, Key: "PartitionName", Have: "DEFAULT " + strings.Join(said, " "), Why: fmt.Sprintf(
		"Partition %s inherits it: where that is not meant, write one more PartitionName=DEFAULT line, with other values, above the Include.", p.name)}}
}

// partitions are the keys and values of the site's, by name.
func (s Site) partitions() map[string]map[string]string {
	lines := map[string]map[string]string{}
	for _, l := range s.Partitions {
		lines[l.Name] = l.Attrs
	}
	return lines
}

// safeSuspendTimeout is longer than slurmctld goes on sending a node the end of a
// job (some seconds more than MessageTimeout, of which 10 s is the default).
const safeSuspendTimeout = 15 * time.Second

// foreign says which nodes of no pool the partition's line has, "" if it has none.
func (p partition) foreign(attrs map[string]string) string {
	if strings.EqualFold(attrs["nodes"], "ALL") {
		return "It holds ALL nodes: the site's own would be powered down when they are idle. Give the cloud a partition of its own."
	}
	have, err := hostlist.Expand(attrs["nodes"])
	if err != nil {
		return fmt.Sprintf("Its nodes cannot be read: %v.", err)
	}
	if foreign := without(have, p.nodes); foreign != "" {
		return fmt.Sprintf("It also holds %s: they would be powered down when they are idle. Give the cloud a partition of its own.", foreign)
	}
	return ""
}

// differences says what is wrong with the partition's line, "" if nothing is.
func (p partition) differences(attrs map[string]string) string {
	if why := p.foreign(attrs); why != "" {
		return why
	}
	have, _ := hostlist.Expand(attrs["nodes"]) // foreign has read them
	if lost := without(p.nodes, have); lost != "" {
		return fmt.Sprintf("It does not hold %s.", lost)
	}
	for _, t := range []struct{ key, want string }{{"SuspendTime", p.idle()},
		{"ResumeTimeout", strconv.Itoa(seconds(p.ResumeTimeout))}, {"SuspendTimeout", strconv.Itoa(seconds(p.SuspendTimeout))}} {
		have := attrs[strings.ToLower(t.key)]
		if !strings.EqualFold(have, t.want) && !(t.want == "INFINITE" && have == "-1") {
			return fmt.Sprintf("%s is %s there and %s in burst.toml.", t.key, orNothing(have), t.want)
		}
	}
	if have := attrs["state"]; p.Server && !strings.EqualFold(have, p.state()) {
		return fmt.Sprintf("State is %s there: jobs would run on a server of files. Write State=%s.", orNothing(have), p.state())
	}
	return ""
}

func orNothing(s string) string {
	if s == "" {
		return "not set"
	}
	return s
}

// without folds those of list that are not in other.
func without(list, other []string) string {
	set := make(map[string]bool, len(other))
	for _, s := range other {
		set[s] = true
	}
	return hostlist.Fold(slices.DeleteFunc(slices.Clone(list), func(s string) bool { return set[s] }))
}
