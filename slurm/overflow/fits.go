package overflow

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/burst-hpc/burst/slurm"
	"github.com/burst-hpc/burst/slurm/hostlist"
)

// Partition is what a partition allows, and the kinds of nodes that it has.
type Partition struct {
	Name     string
	Up       bool
	Default  bool // of jobs that name none
	RootOnly bool
	MaxTime  time.Duration // 0: no limit
	Time     time.Duration // that a job without a limit gets: DefaultTime, or MaxTime
	MinNodes int
	MaxNodes int                 // 0: no limit
	MaxMem   int                 // MiB of a node that a job may use; 0: all
	Memory   DefaultMemory       // of jobs that ask for none
	Accounts []string            // that may use it; nil: all
	QOS      []string            // that may use it; nil: all
	NotFor   map[string][]string // "account" and "qos": those that may not
	kinds    []kind
	total    int // CPUs
	nodes    map[string]bool
	apart    int // nodes that no job gets, as Slurm's topology does not have them: not among the others
}

// kind are nodes that are alike.
type kind struct {
	count, cpus, memory int
	features            []string
	gres                map[string]int
}

// PartitionsOf reads what `scontrol show partitions` says, with the nodes of each that jobs can be given: all, or those that
// are connected.
func PartitionsOf(shown []map[string]string, nodes map[string]slurm.Node, connected map[string]bool) map[string]Partition {
	all := map[string]Partition{}
	for _, attrs := range shown {
		p := Partition{Name: attrs["PartitionName"], Up: attrs["State"] == "" || strings.EqualFold(attrs["State"], "UP"), RootOnly: strings.EqualFold(attrs["RootOnly"], "YES"), Default: strings.EqualFold(attrs["Default"], "YES"),
			MinNodes: number(attrs["MinNodes"]), MaxNodes: number(attrs["MaxNodes"]), MaxMem: number(attrs["MaxMemPerNode"]), Memory: DefaultMemoryOf(attrs),
			Accounts: named(attrs["AllowAccounts"]), QOS: named(attrs["AllowQos"]),
			NotFor: map[string][]string{"account": named(attrs["DenyAccounts"]), "qos": named(attrs["DenyQos"])}, nodes: map[string]bool{}}
		p.MaxTime, _ = slurm.ParseLimit(attrs["MaxTime"]) // words are no limit
		p.Time, _ = slurm.ParseLimit(attrs["DefaultTime"])
		p.Time = cmp.Or(p.Time, p.MaxTime)
		all[p.Name] = p
	}
	at := map[string]int{} // kinds, by partition and what they are
	for name, n := range nodes {
		key := fmt.Sprint(n.CPUs, " ", n.RealMemory, " ", n.Gres, " ", n.Features, n.Available)
		for _, of := range n.Partitions {
			p, ok := all[of]
			if !ok {
				continue
			}
			if connected != nil && !connected[name] {
				p.apart++
				all[of] = p
				continue
			}
			i, have := at[of+"\n"+key]
			if !have {
				gres, _ := slurm.Gres(n.Gres) // not understood: none that a job could be given
				i = len(p.kinds)
				at[of+"\n"+key] = i
				p.kinds = append(p.kinds, kind{cpus: n.CPUs, memory: n.RealMemory, features: append(slices.Clone(n.Available), n.Features...), gres: gres})
			}
			p.kinds[i].count++
			p.total += n.CPUs
			p.nodes[name] = true
			all[of] = p
		}
	}
	return all
}

func number(v string) int {
	n, err := strconv.Atoi(v) // UNLIMITED is none
	if err != nil {
		return 0
	}
	return n
}

// named are the names of a list of Slurm's; nil: it stands for all, or is not set.
func named(v string) []string {
	if v == "" || strings.EqualFold(v, "ALL") || v == "(null)" {
		return nil
	}
	return strings.Split(v, ",")
}

// fits says why the job cannot run in the partition; "": nothing speaks against it.
func (p Partition) fits(j *job) string {
	no := func(format string, args ...any) string {
		return "cannot run in " + p.Name + ": " + fmt.Sprintf(format, args...)
	}
	fold := func(s string) func(string) bool { return func(o string) bool { return strings.EqualFold(s, o) } } // Slurm has accounts in lower case
	switch {
	case !p.Up:
		return no("the partition is not up")
	case p.RootOnly && j.UID != 0:
		return no("it is for root only")
	case j.limit == nobodys && !slices.Contains(j.gets, p.Time):
		return no("the job has no time limit of its own, and would get one of %s there, not of %s", orNone(p.Time), orNone(j.gets[0]))
	case j.limit != unsaid && p.MaxTime > 0 && j.TimeLimit > p.MaxTime:
		return no("the job's time limit is %s, and the partition's %s", short(j.TimeLimit), short(p.MaxTime))
	case p.MaxNodes > 0 && j.NumNodes > p.MaxNodes:
		return no("it asks for %d nodes, and %d are allowed there", j.NumNodes, p.MaxNodes)
	case j.NumNodes < p.MinNodes:
		return no("it asks for %d nodes, and %d is the least there", j.NumNodes, p.MinNodes)
	case p.Accounts != nil && !(j.would && j.Account == "") && !slices.ContainsFunc(p.Accounts, fold(j.Account)):
		return no("account %q is not among those that may use it", j.Account)
	case slices.ContainsFunc(p.NotFor["account"], fold(j.Account)):
		return no("account %q may not use it", j.Account)
	case p.QOS != nil && !(j.would && j.QOS == "") && !slices.ContainsFunc(p.QOS, fold(j.QOS)):
		return no("QOS %q is not among those that may use it", j.QOS)
	case slices.ContainsFunc(p.NotFor["qos"], fold(j.QOS)):
		return no("QOS %q may not use it", j.QOS)
	case j.unclear != "":
		return no("what it asks of GRES is not understood: %q", j.unclear)
	}
	if j.Required != "" {
		list, err := hostlist.Expand(j.Required)
		if err != nil || slices.ContainsFunc(list, func(n string) bool { return !p.nodes[n] }) {
			return no("it asks for nodes %s", j.Required)
		}
	}
	return p.fitsNodes(j, no)
}

// fitsNodes compares with the nodes, each question over those that the questions before have left.
func (p Partition) fitsNodes(j *job, no func(string, ...any) string) string {
	memory, total := j.perNode()
	left, least := p.kinds, max(1, j.NumNodes)
	ask := func(of func(kind) bool) bool {
		left = slices.DeleteFunc(slices.Clone(left), func(k kind) bool { return !of(k) })
		n := 0
		for _, k := range left {
			n += k.count
		}
		return n >= least
	}
	cpus := max(1, j.MinCPUs)
	constraint, ok := parseConstraint(j.Features)
	if !ok {
		return no("its --constraint is not understood: %q", j.Features)
	}
	switch {
	case p.apart > 0 && !ask(func(kind) bool { return true }):
		return no("it asks for %d nodes, and Slurm's topology has %d of the %d in a switch or block (burst check says more)", least, count(p.kinds), count(p.kinds)+p.apart)
	case !ask(func(kind) bool { return true }):
		return no("it asks for %d nodes, and there are %d", least, count(p.kinds))
	case constraint != nil && !ask(func(k kind) bool { return constraint(k.features) }):
		return no("too few nodes there have %s", j.Features)
	case !ask(func(k kind) bool { return k.cpus >= cpus }):
		return no("too few nodes there have %d CPUs", cpus)
	case !ask(func(k kind) bool { return k.memory >= memory }):
		return no("too few nodes there have %d MiB of memory", memory)
	case j.Memory == 0 && !ask(func(k kind) bool { return k.memory >= j.home.memory-j.home.memory/10 }):
		return no("it does not say what memory it needs (--mem), and may use the %d MiB of each of its own nodes", j.home.memory)
	case j.Unread != "" && !ask(func(k kind) bool { return k.cpus >= j.home.cpus }):
		return no("Slurm says %s of it, which may be whole nodes, and its own have %d CPUs at least", j.Unread, j.home.cpus)
	case j.Whole && !ask(func(k kind) bool { return k.cpus >= j.home.cpus }):
		return no("it asks for whole nodes, and its own have %d CPUs at least", j.home.cpus)
	case p.MaxMem > 0 && memory > p.MaxMem:
		return no("it asks for %d MiB of a node, and %d are allowed there", memory, p.MaxMem)
	}
	for _, of := range []string{j.PerNode, j.PerTask, j.PerSocket, j.PerJob} {
		counts, _ := slurm.Gres(of)
		for name, n := range counts {
			if of == j.PerJob { // over all its nodes
				n = (n + least - 1) / least
				if n > most(left, name) {
					n = 1 // more nodes than it asks for: the sum decides
				}
			}
			if !ask(func(k kind) bool { return k.gres[name] >= n }) {
				return no("too few nodes there have %d of %s", n, name)
			}
			if of == j.PerJob && sum(left, func(k kind) int { return k.gres[name] }) < counts[name] {
				return no("its nodes have fewer than %d of %s", counts[name], name)
			}
		}
	}
	switch {
	case best(left, j.MaxNodes, j.cpusOf) < j.CPUs:
		return no("it asks for %d CPUs, and as many nodes as Slurm counts for it have fewer", j.CPUs)
	case best(left, j.MaxNodes, func(k kind) int { return k.memory }) < total:
		return no("it asks for %d MiB of memory, and as many nodes as Slurm counts for it have less", total)
	}
	return ""
}

// cpusOf are the CPUs of a node that the job can use there, with the memory that it asks for each.
func (j *job) cpusOf(k kind) int {
	if j.perCPU() {
		return min(k.cpus, k.memory/j.Memory)
	}
	return k.cpus
}

// perNode is the memory of a node that the job asks for at least, and of all its nodes, in MiB. What
// squeue says may be of a node or of a CPU: the sum tells which.
func (j *job) perNode() (node, all int) {
	switch {
	case j.Memory == 0:
		return 0, 0 // nothing, or all that a node has
	case j.perCPU():
		return j.Memory * max(1, j.MinCPUs), j.Total
	}
	return j.Memory, j.Memory * max(1, j.NumNodes)
}

func (j *job) perCPU() bool {
	return j.Memory > 0 && j.CPUs > j.NumNodes && j.Total == j.Memory*j.CPUs
}

// least is what each node of the partitions has, but for those that are not known.
func (d *decider) least(partitions string) (l kind) {
	if l, known := d.homes[partitions]; known {
		return l
	}
	for _, name := range d.partitions(partitions) {
		for _, k := range d.Partitions[name].kinds {
			if l.count == 0 {
				l = k
			}
			l.cpus, l.memory = min(l.cpus, k.cpus), min(l.memory, k.memory)
		}
	}
	d.homes[partitions] = l
	return l
}

// best is the sum over those n nodes that have the most; 0: over all.
func best(kinds []kind, n int, of func(kind) int) (all int) {
	if n == 0 {
		return sum(kinds, of)
	}
	kinds = slices.SortedFunc(slices.Values(kinds), func(a, b kind) int { return cmp.Compare(of(b), of(a)) })
	for _, k := range kinds {
		take := min(n, k.count)
		all, n = all+take*of(k), n-take
	}
	return all
}

func count(kinds []kind) int { return sum(kinds, func(kind) int { return 1 }) }

func sum(kinds []kind, of func(kind) int) (n int) {
	for _, k := range kinds {
		n += k.count * of(k)
	}
	return n
}

func most(kinds []kind, gres string) (n int) {
	for _, k := range kinds {
		n = max(n, k.gres[gres])
	}
	return n
}
