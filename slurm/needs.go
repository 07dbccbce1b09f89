package slurm

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Needs is what a job asks of its nodes, beyond what Job says. It is read where it is
// wanted, and not of all jobs.
type Needs struct {
	CPUs        int // of all its nodes
	MinCPUs     int // of each, which is a multiple of what a task needs
	Tasks       int
	Memory      int    // MiB of a node or of a CPU: squeue does not tell which; 0: nothing, or all
	PerNode     string // GRES, each as Slurm writes it: see Gres
	PerJob      string
	PerTask     string
	PerSocket   string
	Reservation string // the job runs in it only
}

// needFields are squeue's names of it, in this order; the first is the job's id.
var needFields = []struct {
	name string
	set  func(n *Needs, v string) error
}{
	{"JobID", func(*Needs, string) error { return nil }},
	{"NumCPUs", func(n *Needs, v string) error { return parseCount(v, &n.CPUs) }},
	{"MinCPUs", func(n *Needs, v string) error { return parseCount(v, &n.MinCPUs) }},
	{"NumTasks", func(n *Needs, v string) error { return parseCount(v, &n.Tasks) }},
	{"MinMemory", func(n *Needs, v string) error { return parseMemory(v, &n.Memory) }},
	{"tres-per-node", func(n *Needs, v string) error { n.PerNode = known(v); return nil }},
	{"tres-per-job", func(n *Needs, v string) error { n.PerJob = known(v); return nil }},
	{"tres-per-task", func(n *Needs, v string) error { n.PerTask = known(v); return nil }},
	{"tres-per-socket", func(n *Needs, v string) error { n.PerSocket = known(v); return nil }},
	{"Reservation", func(n *Needs, v string) error { n.Reservation = known(v); return nil }},
}

// maxNeeds bounds the jobs that are asked for at once, for the length of an argument.
const maxNeeds = maxArgument / len("4294967295,")

// Needs reads what jobs ask of their nodes; those that Slurm does not know are left out.
func (c *Client) Needs(ctx context.Context, ids []uint32) (map[uint32]Needs, error) {
	all := map[uint32]Needs{}
	for some := range slices.Chunk(ids, maxNeeds) {
		names := make([]string, len(some))
		for i, id := range some {
			names[i] = decimal(id)
		}
		mark := c.mark()
		fields := make([]string, len(needFields))
		for i, f := range needFields {
			fields[i] = f.name
		}
		out, err := c.run(ctx, "squeue", "-h", "-a", "--local", "-t", "all", "-O", squeueFormat(fields, mark), "-j", strings.Join(names, ","))
		if errors.Is(err, ErrNoJob) {
			continue
		}
		if err == nil {
			err = parseNeeds(out, mark, all)
		}
		if err != nil {
			return nil, fmt.Errorf("reading what %d jobs need: %w", len(ids), err)
		}
	}
	return all, nil
}

func parseNeeds(out []byte, mark string, all map[uint32]Needs) error {
	rows, err := squeueRows(out, mark, len(needFields))
	if err != nil {
		return err
	}
	for _, row := range rows {
		var id uint32
		var n Needs
		if err := parseID(row[0], &id); err != nil || id == 0 {
			return fmt.Errorf("squeue's answer has a job without an id: %.80q", row[0])
		}
		for i, f := range needFields {
			if err := f.set(&n, row[i]); err != nil {
				return fmt.Errorf("squeue's %s of job %d: %w", f.name, id, err)
			}
		}
		all[id] = n
	}
	return nil
}

// units are Slurm's, of 1024 each.
const units = "KMGTP"

// parseMemory reads MiB: "3000M", "1.50G", "0".
func parseMemory(v string, mib *int) error {
	if v = known(v); v == "" {
		return nil
	}
	size := 1.0
	if at := strings.IndexByte(units, v[len(v)-1]); at >= 0 {
		v = v[:len(v)-1]
		for size /= 1024; at > 0; at-- {
			size *= 1024
		}
	}
	n, err := strconv.ParseFloat(v, 64)
	*mib = int(n * size)
	return err
}

// sockets is what Slurm puts after a node's GRES.
var sockets = regexp.MustCompile(`\([^()]*\)`)

// Gres reads counts of a node's GRES ("gpu:a100:2(S:0-1),shard:8"), or of those that a job asks
// for ("gres:gpu:a100:2", from Slurm 23.02 on "gres/gpu:a100=2"), by name and by name:type. What else a
// job may ask for so (cpu, mem) is left out. False: it is not understood.
func Gres(list string) (counts map[string]int, ok bool) {
	counts = map[string]int{}
	for _, item := range commas(sockets.ReplaceAllString(list, "")) {
		item, is := cutEither(item, "gres:", "gres/")
		parts := strings.FieldsFunc(item, func(r rune) bool { return r == ':' || r == '=' })
		if len(parts) == 0 || len(parts) > 3 {
			return nil, false
		}
		if name := parts[0]; !is && (name == "cpu" || name == "mem" || strings.HasPrefix(name, "license/")) {
			continue
		}
		count := 1
		if n, err := parseUnits(parts[len(parts)-1]); err == nil {
			count, parts = n, parts[:len(parts)-1]
		}
		switch len(parts) {
		case 1:
		case 2:
			counts[parts[0]+":"+parts[1]] += count
		default:
			return nil, false
		}
		counts[parts[0]] += count
	}
	return counts, true
}

func cutEither(s string, prefixes ...string) (string, bool) {
	for _, p := range prefixes {
		if rest, ok := strings.CutPrefix(s, p); ok {
			return rest, true
		}
	}
	return s, false
}

// parseUnits reads a count as "2" or "4K".
func parseUnits(v string) (int, error) {
	size := 1
	last := v[len(v)-1] &^ 0x20 // in upper case; that of all of v may be shorter
	if at := strings.IndexByte(units, last); at >= 0 {
		for v = v[:len(v)-1]; at >= 0; at-- {
			size *= 1024
		}
	}
	n, err := strconv.Atoi(v)
	return n * size, err
}
