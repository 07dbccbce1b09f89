package conf

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// Site is what the site's Slurm is configured to do.
type Site struct {
	// Settings are the controller's, keys in lower case. Of a key that the file
	// says twice the last is kept, as Slurm does; of SlurmctldHost all, with commas between them.
	Settings map[string]string
	// Prologs are all that PrologSlurmctld names, in this order: from Slurm 24.05 on each counts.
	Prologs []string
	Release Release // of Slurm
	// Nodes and Partitions are the NodeName and PartitionName lines of the
	// file; Lines says whether they were read at all.
	Nodes, Partitions []Line
	Lines             bool
	// NodeSets are the NodeSet lines: names that partitions may have among their nodes.
	NodeSets []Line
	// NodeDefault is what the last NodeName=DEFAULT line leaves for nodes below it.
	NodeDefault map[string]string
	// PartitionDefault is what the last PartitionName=DEFAULT line leaves for partitions below it.
	PartitionDefault map[string]string
	// Unserved are the files that the file includes by a path: slurmctld does
	// not hand them to configless nodes.
	Unserved []string
	network  network // what is beside slurm.conf of switches
}

// Line is a NodeName or PartitionName line with what the DEFAULT line before it
// says, keys in lower case.
type Line struct {
	Name  string // a hostlist, or the partition's name
	Attrs map[string]string
}

// Get returns a setting, "" if there is none.
func (s Site) Get(key string) string { return s.Settings[strings.ToLower(key)] }

// ctldKey names slurmctld's host; each further line of it a backup.
const ctldKey = "SlurmctldHost"

// Controllers are the hosts of slurmctld, the first of them first, without their domains.
func (s Site) Controllers() (hosts []string) {
	for _, w := range words(s.Get(ctldKey)) {
		host, _, _ := strings.Cut(w, "(")
		if host, _, _ = strings.Cut(host, "."); !slices.Contains(hosts, host) {
			hosts = append(hosts, host)
		}
	}
	return hosts
}

// maxInclude is deeper than any site nests, and ends a file that includes itself.
const maxInclude = 10

// Read reads the slurm.conf at path with all that it includes. It takes more
// than Slurm would: what is no key=value is passed over.
func Read(path string) (Site, error) {
	f, err := ReadFiles(path)
	return f.Site, err
}

// Running is the Site of a running slurmctld, from what `scontrol show config`
// says of each key, without Slurm's ways to say "none" and without units.
func Running(settings map[string]string) Site {
	s := Site{Settings: make(map[string]string, len(settings)), Release: ParseRelease(settings["SLURM_VERSION"])}
	for key, value := range settings {
		if key, _, numbered := strings.Cut(strings.ToLower(key), "["); !numbered {
			s.Settings[key] = plain(key, value)
		}
	}
	// Keys that can be given several times are numbered, of all but the hosts from Slurm 24.05 on: Prolog[0].
	for _, name := range []string{ctldKey, "Prolog", "Epilog", prologKey, "EpilogSlurmctld"} {
		var values []string
		for i := 0; ; i++ {
			value, ok := settings[fmt.Sprintf("%s[%d]", name, i)]
			if !ok {
				break
			}
			values = append(values, plain(strings.ToLower(name), value))
		}
		if len(values) > 0 {
			s.Settings[strings.ToLower(name)] = strings.Join(values, ",")
		}
		if name == prologKey {
			s.Prologs = values
		}
	}
	return s
}

func plain(key, value string) string {
	value = strings.TrimSpace(value)
	switch {
	case value == "(null)" || value == "N/A",
		key == "privatedata" && value == "none",
		(key == "prologepilogtimeout" || key == "prologtimeout") && value == "65534": // no limit
		return ""
	case key == "slurmuser": // slurm(64030)
		value, _, _ = strings.Cut(value, "(")
	}
	for _, unit := range []string{" sec", " nodes/min"} {
		value = strings.TrimSuffix(value, unit)
	}
	return value
}

type reader struct {
	dir                string // of slurm.conf: relative includes are looked for there
	site               Site
	nodeDef, partition map[string]string // of the DEFAULT lines
	texts              []text
	said               []statement
}

func (r *reader) file(path string, depth int) error {
	if depth > maxInclude {
		return fmt.Errorf("%s: included %d deep: it seems to include itself", path, depth)
	}
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	return r.content(text{path, string(content)}, depth)
}

func (r *reader) content(t text, depth int) error {
	r.texts = append(r.texts, t)
	for _, line := range logical(t.text) {
		line.path = t.path
		if name, ok := include(line.text); ok {
			line.include = name
			r.said = append(r.said, line)
			name = strings.ReplaceAll(name, "%c", r.site.Get("ClusterName"))
			if strings.Contains(name, "/") {
				r.site.Unserved = append(r.site.Unserved, name)
			}
			if !filepath.IsAbs(name) {
				name = filepath.Join(r.dir, name)
			}
			if err := r.file(name, depth+1); err != nil {
				return err
			}
			continue
		}
		line.kvs = pairs(line.text)
		r.said = append(r.said, line)
		r.line(line.kvs)
	}
	return nil
}

func (r *reader) line(kvs [][2]string) {
	if len(kvs) == 0 {
		return
	}
	switch kvs[0][0] {
	case "nodename":
		r.site.Nodes = r.object(r.site.Nodes, &r.nodeDef, kvs)
	case "partitionname":
		r.site.Partitions = r.object(r.site.Partitions, &r.partition, kvs)
	case "nodeset":
		r.site.NodeSets = r.object(r.site.NodeSets, new(map[string]string), kvs)
	case "downnodes", "frontendname", "switchname": // not the controller's own settings
	default:
		for _, kv := range kvs {
			if kv[0] == strings.ToLower(ctldKey) && r.site.Get(ctldKey) != "" {
				kv[1] = r.site.Get(ctldKey) + "," + kv[1]
			}
			if r.site.Settings[kv[0]] = kv[1]; kv[0] == strings.ToLower(prologKey) && kv[1] != "" {
				r.site.Prologs = append(r.site.Prologs, kv[1])
			}
		}
	}
}

// object appends the line to list, or keeps it as the default of those to come.
func (r *reader) object(list []Line, def *map[string]string, kvs [][2]string) []Line {
	attrs := maps.Clone(*def)
	if attrs == nil {
		attrs = map[string]string{}
	}
	for _, kv := range kvs[1:] {
		attrs[kv[0]] = kv[1]
	}
	name := kvs[0][1]
	if strings.EqualFold(name, "DEFAULT") {
		*def = attrs
		return list
	}
	return append(list, Line{Name: name, Attrs: attrs})
}

// logical splits a text into lines without comments, continued ones joined.
func logical(text string) []statement {
	var all []statement
	var open strings.Builder
	first, number, begun := 0, 0, false
	end := func(last int) {
		if joined := strings.TrimSpace(open.String()); joined != "" {
			all = append(all, statement{first: first, last: last, text: joined})
		}
		open.Reset()
		begun = false
	}
	for line := range strings.Lines(text) {
		if !begun {
			first, begun = number, true
		}
		line = strings.TrimRight(uncomment(line), " \t\r\n")
		if more, ok := strings.CutSuffix(line, `\`); ok {
			open.WriteString(more)
		} else {
			open.WriteString(line)
			end(number)
		}
		number++
	}
	end(number - 1)
	return all
}

// uncomment cuts at the first "#" that no backslash escapes.
func uncomment(line string) string {
	for i := range len(line) {
		if line[i] == '#' && (i == 0 || line[i-1] != '\\') {
			return line[:i]
		}
	}
	return line
}

func include(line string) (name string, ok bool) {
	const word = "include"
	if len(line) <= len(word) || !strings.EqualFold(line[:len(word)], word) || !strings.ContainsRune(" \t", rune(line[len(word)])) {
		return "", false
	}
	name = strings.TrimSpace(line[len(word):])
	return name, name != "" && name[0] != '='
}

// pair is Slurm's own expression for a key and its value (src/common/parse_config.c).
var pair = regexp.MustCompile(`([A-Za-z]\w*)\s*[-*+/]?=\s*(?:"([^"]*)"|(\S+))`)

// pairs are the keys, in lower case, and values of a line.
func pairs(line string) [][2]string {
	var kvs [][2]string
	for rest := line; ; {
		m := pair.FindStringSubmatchIndex(rest)
		if m == nil {
			return kvs
		}
		value := ""
		if m[4] >= 0 {
			value = rest[m[4]:m[5]]
		} else {
			value = rest[m[6]:m[7]]
		}
		kvs = append(kvs, [2]string{strings.ToLower(rest[m[2]:m[3]]), value})
		rest = rest[m[1]:]
	}
}
