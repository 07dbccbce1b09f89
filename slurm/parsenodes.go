package slurm

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// nodeFields set what we read of a node, by scontrol's name for it.
var nodeFields = []struct {
	key string
	set func(n *Node, v string) error
}{
	{"NodeAddr", func(n *Node, v string) error { n.Addr = v; return nil }},
	{"NodeHostName", func(n *Node, v string) error { n.Hostname = v; return nil }},
	{"State", func(n *Node, v string) error { n.State = parseNodeState(v); return nil }},
	{"Partitions", func(n *Node, v string) error { n.Partitions = commas(v); return nil }},
	{"ActiveFeatures", func(n *Node, v string) error { n.Features = commas(v); return nil }},
	{"CPUTot", func(n *Node, v string) error { return parseInt(v, &n.CPUs) }},
	{"CPUAlloc", func(n *Node, v string) error { return parseInt(v, &n.AllocCPUs) }},
	{"RealMemory", func(n *Node, v string) error { return parseInt(v, &n.RealMemory) }},
	{"BootTime", func(n *Node, v string) error { return parseTime(v, &n.BootTime) }},
	{"SlurmdStartTime", func(n *Node, v string) error { return parseTime(v, &n.Started) }},
	{"LastBusyTime", func(n *Node, v string) error { return parseTime(v, &n.LastBusy) }},
}

// An admin writes what he likes into a node's reason, comment and extra, which
// come last, in this order.
const (
	reasonKey  = " Reason="
	commentKey = " Comment="
	extraKey   = " Extra="
)

// stamp is what Slurm puts after the first line of a reason: who set it, and when.
var stamp = regexp.MustCompile(`\s*\[[^\s\[\]]*@[0-9][0-9T:-]*\]`)

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

func parseNode(record string) (Node, error) {
	var n Node
	head, reason := splitReason(record)
	n.Reason = reason
	n.Name = field(head, "NodeName=")
	for _, f := range nodeFields {
		if err := f.set(&n, unset(field(head, " "+f.key+"="))); err != nil {
			return Node{}, fmt.Errorf("scontrol's %s of node %s: %w", f.key, n.Name, err)
		}
	}
	if n.Name == "" || n.State.Base == "" {
		return Node{}, fmt.Errorf("scontrol's answer has a node without a name or a state: %.80q", record)
	}
	return n, nil
}

// field returns the word after the first key, "" if there is none.
func field(record, key string) string {
	i := strings.Index(record, key)
	if i < 0 {
		return ""
	}
	v := record[i+len(key):]
	if end := strings.IndexByte(v, ' '); end >= 0 {
		v = v[:end]
	}
	return v
}

// splitReason parts a record into what stands before the first free text, and
// the reason without its stamp.
func splitReason(record string) (head, reason string) {
	end := len(record)
	for _, key := range []string{reasonKey, commentKey, extraKey} {
		if i := strings.Index(record[:end], key); i >= 0 {
			end = i
		}
	}
	head = record[:end]
	text, ok := strings.CutPrefix(record[end:], reasonKey)
	if !ok {
		return head, ""
	}
	at := stamp.FindStringIndex(text)
	if at == nil {
		return head, strings.TrimSpace(text)
	}
	// Further lines of the reason follow the stamp.
	more, _, _ := strings.Cut(text[at[1]:], commentKey)
	more, _, _ = strings.Cut(more, extraKey)
	return head, strings.TrimSpace(text[:at[0]] + " " + strings.TrimSpace(more))
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
func parsePartitions(out []byte) []map[string]string {
	var all []map[string]string
	for _, record := range records(string(out), "PartitionName=") {
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
