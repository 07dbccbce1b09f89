package conf

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/burst-hpc/burst/slurm/hostlist"
)

// head is what a file that Fragment wrote begins with.
const head = "# Burst's part of slurm.conf."

// Fragment is the text for the end of slurm.conf: the settings of the
// controller, merged with what the site has, the nodes and the partitions.
func Fragment(site Site, in Input) string {
	var b strings.Builder
	fmt.Fprintf(&b, head+" \"burst genconf\" wrote it from %s.\n", in.Source)
	comment(&b, "Include it by its bare name in the last line of slurm.conf, from the same folder, on all hosts of the cluster: of a setting that is "+
		"given twice Slurm takes the last. Then restart slurmctld; \"burst check\" says what is still missing.")
	for _, f := range settings(site, in) {
		b.WriteByte('\n')
		comment(&b, f.Why)
		fmt.Fprintf(&b, "%s=%s\n", f.Key, quote(f.Want))
	}
	if script := ChainScript(site, in); script != "" {
		b.WriteByte('\n')
		comment(&b, fmt.Sprintf("%s must hold, executable for all and writable for root only:", in.Programs.Chain))
		for line := range strings.Lines(script) {
			b.WriteString("#   " + line)
		}
	}
	for _, f := range append(conflicts(site, in), mixed(site, in)...) {
		b.WriteByte('\n')
		what := f.Key
		if f.Have != "" {
			what += "=" + f.Have
		}
		comment(&b, fmt.Sprintf("%s: %s: %s", f.Level, what, f.Why))
	}
	for _, p := range in.Pools {
		b.WriteByte('\n')
		what := "nodes that exist while jobs need them"
		if p.Server {
			what = "a server of files, powered up when nodes that mount from it are wanted, and kept"
		}
		comment(&b, fmt.Sprintf("Pool %s: %s.", p.Name, what))
		if p.GPUNote != "" && !p.sets("gres") {
			comment(&b, p.GPUNote+". No Gres is written: if jobs are to ask for it, write Gres into the pool's node_options, "+
				"GresTypes=gpu into slurm.conf and the devices into gres.conf.")
		}
		b.WriteString(p.nodeLine() + "\n")
		if lines := p.gresConf(); lines != "" {
			comment(&b, "gres.conf must hold:")
			b.WriteString(lines)
		}
	}
	for _, part := range partitions(in) {
		b.WriteByte('\n')
		if part.Server {
			comment(&b, "Takes no jobs, and its node, which is idle for ever, is not powered down for that.")
		} else {
			comment(&b, "Power saving is this partition's alone: seconds until an idle node is powered down, a booting "+
				"one given up, a node powered down may be used again.")
		}
		if part.SuspendWhy != "" {
			comment(&b, part.SuspendWhy)
		}
		b.WriteString(part.line() + "\n")
	}
	b.WriteString(topologyText(site, in))
	return b.String()
}

func (p Pool) nodeLine() string {
	var b strings.Builder
	fmt.Fprintf(&b, "NodeName=%s", hostlist.Fold(p.Nodes))
	if p.Addr != "" {
		fmt.Fprintf(&b, " NodeAddr=%s", p.Addr)
	}
	if p.Hostname != "" {
		fmt.Fprintf(&b, " NodeHostname=%s", p.Hostname)
	}
	if p.Ports != "" {
		fmt.Fprintf(&b, " Port=%s", p.portList())
	}
	b.WriteString(p.hardware())
	b.WriteString(" State=CLOUD")
	if gres := p.gres(); gres != "" {
		b.WriteString(" Gres=" + gres)
	}
	if len(p.Features) > 0 {
		fmt.Fprintf(&b, " Feature=%s", strings.Join(p.Features, ","))
	}
	if p.Options != "" {
		b.WriteString(" " + p.Options)
	}
	return b.String()
}

// hardware is what is known of CPUs and memory, each with a space before it.
// What the pool's options say of sockets, cores and threads stands alone.
func (p Pool) hardware() string {
	var b strings.Builder
	if p.CPUs > 0 {
		fmt.Fprintf(&b, " CPUs=%d", p.CPUs)
	}
	if p.Cores > 0 && !p.sets("boards", "sockets", "socketsperboard", "corespersocket", "threadspercore") {
		fmt.Fprintf(&b, " Sockets=1 CoresPerSocket=%d ThreadsPerCore=%d", p.Cores, p.Threads)
	}
	if p.RealMemory > 0 {
		fmt.Fprintf(&b, " RealMemory=%d", p.RealMemory)
	}
	return b.String()
}

// sets says whether the pool's options give one of the keys, which are in lower case.
func (p Pool) sets(keys ...string) bool {
	return slices.ContainsFunc(pairs(p.Options), func(kv [2]string) bool { return slices.Contains(keys, kv[0]) })
}

func (p Pool) gres() string {
	if p.sets("gres") {
		return ""
	}
	var all []string
	for _, g := range p.GPUs {
		all = append(all, fmt.Sprintf("gpu:%s:%d", g.Type, g.Count))
	}
	return strings.Join(all, ",")
}

// gresConf is the lines of gres.conf that name the pool's devices, as comments.
func (p Pool) gresConf() string {
	if p.gres() == "" {
		return ""
	}
	var b strings.Builder
	first := 0
	for _, g := range p.GPUs {
		device := fmt.Sprintf("/dev/nvidia%d", first)
		if g.Count > 1 {
			device = fmt.Sprintf("/dev/nvidia[%d-%d]", first, first+g.Count-1)
		}
		fmt.Fprintf(&b, "#   NodeName=%s Name=gpu Type=%s File=%s\n", hostlist.Fold(p.Nodes), g.Type, device)
		first += g.Count
	}
	return b.String()
}

func (p Pool) portList() string {
	if strings.ContainsAny(p.Ports, "-,") {
		return "[" + p.Ports + "]"
	}
	return p.Ports
}

// partition is the pools that share one.
type partition struct {
	name  string
	nodes []string
	Pool  // the first: its times are those of all
}

// partitions are in the order of the pools.
func partitions(in Input) []partition {
	var all []partition
	index := map[string]int{}
	for _, p := range in.Pools {
		i, known := index[p.Partition]
		if !known {
			i = len(all)
			index[p.Partition] = i
			all = append(all, partition{name: p.Partition, Pool: p})
		}
		all[i].nodes = append(all[i].nodes, p.Nodes...)
	}
	return all
}

func (p partition) line() string {
	return fmt.Sprintf("PartitionName=%s Nodes=%s State=%s SuspendTime=%s ResumeTimeout=%d SuspendTimeout=%d",
		p.name, hostlist.Fold(p.nodes), p.state(), p.idle(), seconds(p.ResumeTimeout), seconds(p.SuspendTimeout))
}

func (p partition) state() string {
	if p.Server {
		return "INACTIVE"
	}
	return "UP"
}

// idle is the SuspendTime.
func (p partition) idle() string {
	if p.Server {
		return "INFINITE"
	}
	return strconv.Itoa(seconds(p.SuspendTime))
}

func seconds(d time.Duration) int { return int((d + time.Second - 1) / time.Second) }

// comment writes text as lines of at most 78 characters.
func comment(b *strings.Builder, text string) {
	const width = 78
	line := "#"
	for _, word := range strings.Fields(text) {
		if len(line)+1+len(word) > width && line != "#" {
			b.WriteString(line + "\n")
			line = "#"
		}
		line += " " + word
	}
	b.WriteString(line + "\n")
}

func quote(value string) string {
	if strings.ContainsAny(value, " \t#") {
		return `"` + value + `"`
	}
	return value
}
