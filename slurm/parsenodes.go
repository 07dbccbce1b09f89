package slurm

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// nodeFields set what we read of a node, by scontrol's name for it.
var nodeFields = map[string]struct {
	bit int // to know whether it has been read
	set func(n *Node, v string) error
}{
	"NodeName":          {0, func(n *Node, v string) error { n.Name = v; return nil }},
	"NodeAddr":          {1, func(n *Node, v string) error { n.Addr = v; return nil }},
	"NodeHostName":      {2, func(n *Node, v string) error { n.Hostname = v; return nil }},
	"State":             {3, func(n *Node, v string) error { n.State = parseNodeState(v); return nil }},
	"Partitions":        {4, func(n *Node, v string) error { n.Partitions = commas(v); return nil }},
	"ActiveFeatures":    {5, func(n *Node, v string) error { n.Features = commas(v); return nil }},
	"CPUTot":            {6, func(n *Node, v string) error { return parseInt(v, &n.CPUs) }},
	"CPUAlloc":          {7, func(n *Node, v string) error { return parseInt(v, &n.AllocCPUs) }},
	"RealMemory":        {8, func(n *Node, v string) error { return parseInt(v, &n.RealMemory) }},
	"BootTime":          {9, func(n *Node, v string) error { return parseTime(v, &n.BootTime) }},
	"SlurmdStartTime":   {10, func(n *Node, v string) error { return parseTime(v, &n.Started) }},
	"LastBusyTime":      {11, func(n *Node, v string) error { return parseTime(v, &n.LastBusy) }},
	"Gres":              {13, func(n *Node, v string) error { n.Gres = v; return nil }},
	"AvailableFeatures": {12, func(n *Node, v string) error { n.Available = commas(v); return nil }},
}

// An admin writes what he likes into a node's reason, comment and extra, which
// come last, in this order.
const (
	reasonKey  = "Reason="
	commentKey = "Comment="
	extraKey   = "Extra="
)

// stamp is what Slurm puts after the first line of a reason, and a space: who set it,
// and when. It begins with a letter that is searched for quickly.
var stamp = regexp.MustCompile(`\[[^\s\[\]]*@[0-9][0-9T:-]*\]`)

// parseNodes reads what `scontrol -o show nodes` printed.
func parseNodes(out []byte) ([]Node, error) {
	if text := bytes.TrimSpace(out); len(text) == 0 || bytes.HasPrefix(text, []byte("No nodes in the system")) {
		return nil, nil
	}
	nodes := make([]Node, 0, bytes.Count(out, []byte("\n")))
	for _, record := range records(string(out), "NodeName=") {
		n, err := parseNode(record)
		if err != nil {
			return nil, err
		}
		nodes = append(nodes, n)
	}
	if len(nodes) == 0 {
		return nil, fmt.Errorf("scontrol's answer holds no node: %.80q", out)
	}
	return nodes, nil
}

// records cuts the output at lines that begin with key: free text may hold
// line ends. What stands before the first such line is dropped.
func records(out, key string) []string {
	var all []string
	for line := range strings.Lines(out) {
		switch {
		case strings.HasPrefix(line, key):
			all = append(all, strings.TrimRight(line, "\r\n"))
		case len(all) > 0 && strings.TrimSpace(line) != "":
			all[len(all)-1] += " " + strings.TrimSpace(line)
		}
	}
	return all
}

// parseNode reads a record's words in one pass, as a site has many; of two with
// one name the first counts.
func parseNode(record string) (Node, error) {
	var n Node
	read := 0
	for at := 0; at < len(record); {
		word, _, _ := strings.Cut(record[at:], " ")
		key, v, ok := strings.Cut(word, "=")
		if freeText(word) {
			n.Reason = parseReason(record[at:])
			break
		}
		if f := nodeFields[key]; ok && f.set != nil && read&(1<<f.bit) == 0 {
			read |= 1 << f.bit
			if err := f.set(&n, unset(v)); err != nil {
				return Node{}, fmt.Errorf("scontrol's %s of node %s: %w", key, n.Name, err)
			}
		}
		at += len(word) + 1
	}
	if n.Name == "" || n.State.Base == "" {
		return Node{}, fmt.Errorf("scontrol's answer has a node without a name or a state: %.80q", record)
	}
	return n, nil
}

func freeText(word string) bool {
	return strings.HasPrefix(word, reasonKey) || strings.HasPrefix(word, commentKey) || strings.HasPrefix(word, extraKey)
}

// parseReason reads the reason, without its stamp, at the beginning of the free texts.
func parseReason(free string) string {
	text, ok := strings.CutPrefix(free, reasonKey)
	if !ok {
		return ""
	}
	at := stamp.FindStringIndex(text)
	if at == nil {
		return strings.TrimSpace(text)
	}
	// Further lines of the reason follow the stamp.
	more, _, _ := strings.Cut(text[at[1]:], " "+commentKey)
	more, _, _ = strings.Cut(more, " "+extraKey)
	return strings.TrimSpace(strings.TrimRight(text[:at[0]], " \t\n\f\r") + " " + strings.TrimSpace(more))
}

// stateSuffix are the letters that some versions put after the base state.
var stateSuffix = map[byte]string{
	'*': NotResponding,
	'~': PoweredDown,
	'#': PoweringUp,
	'%': PoweringDown,
	'!': PowerDown,
	'$': "MAINTENANCE",
	'@': "REBOOT_REQUESTED",
	'^': "REBOOT_ISSUED",
	'-': "PLANNED",
}

func parseNodeState(v string) NodeState {
	var s NodeState
	for part := range strings.SplitSeq(strings.ToUpper(v), "+") {
		var flags []string
		for part != "" && stateSuffix[part[len(part)-1]] != "" {
			flags = append(flags, stateSuffix[part[len(part)-1]])
			part = part[:len(part)-1]
		}
		if s.Base == "" {
			s.Base = part
		} else if part != "" {
			flags = append(flags, part)
		}
		for _, f := range flags {
			if !slices.Contains(s.Flags, f) {
				s.Flags = append(s.Flags, f)
			}
		}
	}
	return s
}

func commas(v string) []string {
	if v == "" {
		return nil
	}
	return strings.Split(v, ",")
}

// parsePartitions reads what `scontrol -o show partitions` printed.
func parsePartitions(out []byte) []map[string]string { return fields(out, "PartitionName=") }

// fields reads the keys and values of records that begin with a key.
func fields(out []byte, first string) []map[string]string {
	var all []map[string]string
	for _, record := range records(string(out), first) {
		p := map[string]string{}
		for field := range strings.FieldsSeq(record) {
			if key, v, ok := strings.Cut(field, "="); ok {
				p[key] = unset(v)
			}
		}
		all = append(all, p)
	}
	return all
}

// parseConfig reads the "Key = value" lines of `scontrol show config`.
func parseConfig(out []byte) map[string]string {
	config := map[string]string{}
	for line := range strings.Lines(string(out)) {
		if key, v, ok := strings.Cut(line, "="); ok {
			config[strings.TrimSpace(key)] = unset(strings.TrimSpace(v))
		}
	}
	return config
}
