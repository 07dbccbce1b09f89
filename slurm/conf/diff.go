package conf

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Change is what to do to a site's files so that Slurm reads what Fragment writes.
type Change struct {
	Files []FileChange
	// Notes say what the change does that its lines do not show, Hand what no change of a line mends.
	Notes, Hand []string
}

// FileChange is one file as it is and as it should be.
type FileChange struct {
	Path          string
	New           bool
	Before, After string
}

// Nothing says that all is as it should be.
func (c Change) Nothing() bool { return len(c.Files) == 0 && len(c.Hand) == 0 }

// fragmentName is the file, beside slurm.conf, of a site that includes none that Fragment wrote.
const fragmentName = "burst.conf"

// Change finds out what to do. A site that has all that Burst needs in lines of its own is left alone; otherwise what
// Fragment writes goes into the file that Fragment wrote before, or into a new one that slurm.conf's last line includes.
// The nodes and partitions that it has are not to be anywhere else, and no later line may take its settings back. Where
// they are the site's own, there is no change to a file, as Slurm would lose them by it: burst.toml is to be changed.
func (f Files) Change(in Input) (Change, error) {
	d := differ{Files: f, in: in, edits: map[string]map[int]string{}, ends: map[string]string{}}
	site := d.narrow(f.Outside())
	d.fragment = Fragment(site, in)
	path := f.own()
	own := slices.IndexFunc(f.texts, func(t text) bool { return path != "" && t.path == path })
	for _, c := range append(conflicts(f.Site, in), mixed(site, in)...) {
		if c.MustChange() && !d.included(c) {
			d.Hand = append(d.Hand, strings.TrimSpace(fmt.Sprintf("%s=%s: %s", c.Key, c.Have, c.Why)))
		}
	}
	d.lay(site)
	switch {
	case (own < 0 || !written(f.texts[own].text)) && d.satisfied():
		return d.finish()
	case own < 0:
		d.own = filepath.Join(filepath.Dir(f.Path), fragmentName)
		content, err := os.ReadFile(d.own)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return Change{}, fmt.Errorf("reading Slurm's configuration: %w", err)
		}
		d.whole = &FileChange{Path: d.own, New: err != nil, Before: string(content), After: d.fragment}
	default:
		d.own = f.texts[own].path
		if active(f.texts[own].text) != active(d.fragment) {
			d.whole = &FileChange{Path: d.own, Before: f.texts[own].text, After: d.fragment}
		}
	}
	d.others(own >= 0)
	if d.whole != nil {
		d.added()
	}
	if own < 0 {
		d.append(f.Path, "Include "+fragmentName)
	}
	return d.finish()
}

// differ collects a Change.
type differ struct {
	Files
	Change
	in       Input
	fragment string
	own      string                    // the file of what Fragment writes
	whole    *FileChange               // of own; nil: it stays
	clash    bool                      // a pool takes what is the site's: slurmctld would not start, or lose it
	edits    map[string]map[int]string // path -> line -> what is there instead, "" for nothing
	ends     map[string]string         // what comes to the end of a file
	counts   map[string]statement      // the last of a key, but for those of own
}

// active is what Slurm reads of a text.
func active(content string) string {
	var b strings.Builder
	for _, line := range logical(content) {
		if kvs := pairs(line.text); len(kvs) > 0 {
			fmt.Fprintln(&b, kvs)
		}
	}
	return b.String()
}

// included mends an Include by a path, if what it names is beside slurm.conf.
func (d *differ) included(c Finding) bool {
	if c.Key != "Include" || filepath.Dir(c.Have) != filepath.Dir(d.Path) {
		return false
	}
	for _, s := range d.said {
		if strings.ReplaceAll(s.include, "%c", d.Get("ClusterName")) == c.Have {
			d.edit(s, "Include "+filepath.Base(s.include))
		}
	}
	return true
}

// edit has another line, or none, in place of a statement.
func (d *differ) edit(s statement, to string) {
	if d.edits[s.path] == nil {
		d.edits[s.path] = map[int]string{}
	}
	for i := s.first; i <= s.last; i++ {
		d.edits[s.path][i] = ""
	}
	if to != "" {
		d.edits[s.path][s.first] = to + "\n"
	}
}

// append has another line at the end of a file.
func (d *differ) append(path, line string) {
	if d.edits[path] == nil {
		d.edits[path] = map[int]string{}
	}
	d.ends[path] += line + "\n"
}

// others looks at what the other files say: of our nodes and partitions, and of settings.
func (d *differ) others(included bool) {
	nodes, ours, wants := poolNodes(d.in), partitionNames(d.in), map[string]Finding{}
	for _, f := range settings(d.Outside(), d.in) {
		wants[strings.ToLower(f.Key)] = f
	}
	d.counts = map[string]statement{}
	for _, s := range d.said {
		for _, kv := range s.kvs {
			if s.path != d.own {
				d.counts[kv[0]] = s
			}
		}
	}
	lines := reader{site: Site{Settings: map[string]string{}}} // with what their DEFAULT lines say
	after := false                                             // the last line of ours has been read
	for i, s := range d.said {
		if s.path == d.own {
			after = !slices.ContainsFunc(d.said[i+1:], func(s statement) bool { return s.path == d.own })
			continue
		}
		if s.include != "" || len(s.kvs) == 0 {
			continue
		}
		lines.line(s.kvs)
		if strings.EqualFold(s.kvs[0][1], "DEFAULT") {
			continue
		}
		switch s.kvs[0][0] {
		case "nodename":
			d.nodeLine(s, last(lines.site.Nodes), nodes)
		case "partitionname":
			d.partitionLine(s, last(lines.site.Partitions), ours)
		default:
			d.setting(s, wants, included && after)
		}
	}
}

// setting looks at the controller's settings in a line; late says that the line is after ours, and so counts.
func (d *differ) setting(s statement, wants map[string]Finding, late bool) {
	line := s.text
	for _, kv := range s.kvs {
		want, known := wants[kv[0]]
		if known && want.Key == prologKey && d.Release.Since(manyPrologs) {
			line = d.twice(s, kv, line)
			continue
		}
		if !known || strings.EqualFold(kv[1], want.Want) {
			continue
		}
		switch {
		case late && want.Level != OK:
			line = strings.TrimSpace(replaced(line, kv, ""))
			d.edit(s, line)
			d.Notes = append(d.Notes, fmt.Sprintf("%s:%d: %s comes after what Burst writes, and takes it back: the last line counts. %s", s.path, s.first+1, want.Key, want.Why))
		case !late && d.whole != nil && d.counts[kv[0]].path == s.path && d.counts[kv[0]].first == s.first && without(words(kv[1]), words(want.Want)) != "":
			d.Notes = append(d.Notes, fmt.Sprintf("%s:%d: %s=%s stays there and counts no longer: %s is included after it. %s",
				s.path, s.first+1, want.Key, kv[1], filepath.Base(d.own), want.Why))
		}
	}
}

// twice takes a program of Burst's away that Fragment's line names too, where Slurm runs that of each line.
func (d *differ) twice(s statement, kv [2]string, line string) string {
	program := kv[1]
	if program != d.in.Programs.Gate && program != d.in.Programs.Chain {
		return line
	}
	line = strings.TrimSpace(replaced(line, kv, ""))
	d.edit(s, line)
	d.Notes = append(d.Notes, fmt.Sprintf("%s:%d: %s=%s goes: this Slurm runs the program of each line, and %s has one.",
		s.path, s.first+1, prologKey, program, filepath.Base(d.own)))
	return line
}

// replaced is the line with another text in place of a key, in lower case, with its value: of several that of the last, which counts.
func replaced(line string, kv [2]string, to string) string {
	for _, at := range slices.Backward(pair.FindAllStringIndex(line, -1)) {
		if slices.Equal(pairs(line[at[0]:at[1]]), [][2]string{kv}) {
			return line[:at[0]] + to + line[at[1]:]
		}
	}
	return line
}

// finish makes the files of the edits, in the order in which Slurm reads them.
func (d *differ) finish() (Change, error) {
	if d.clash {
		return Change{Hand: d.Hand}, nil
	}
	done := map[string]bool{}
	for _, t := range slices.Concat(d.texts, d.network.texts) {
		if d.edits[t.path] == nil || done[t.path] {
			continue
		}
		done[t.path] = true
		var b strings.Builder
		for i, line := range slices.Collect(strings.Lines(t.text)) {
			if other, edited := d.edits[t.path][i]; edited {
				line = other
			}
			b.WriteString(line)
		}
		after := b.String()
		if d.ends[t.path] != "" {
			if after != "" && !strings.HasSuffix(after, "\n") {
				after += "\n"
			}
			after += d.ends[t.path]
		}
		d.Change.Files = append(d.Change.Files, FileChange{Path: t.path, Before: t.text, After: after})
	}
	if path := d.network.path; d.ends[path] != "" && !done[path] {
		done[path] = true
		d.Change.Files = append(d.Change.Files, FileChange{Path: path, New: true, After: d.ends[path]})
	}
	for path := range maps.Keys(d.edits) {
		if !done[path] {
			return Change{}, fmt.Errorf("%s is none of the files of %s", path, d.Path)
		}
	}
	if d.whole != nil {
		d.Change.Files = append(d.Change.Files, *d.whole)
	}
	for i := range d.Change.Files {
		d.Change.Files[i].Path = resolved(d.Change.Files[i].Path)
	}
	return d.Change, nil
}

// resolved is a path without links, through which patch writes nothing; of a file that is to come, that of its folder.
func resolved(path string) string {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real
	}
	if dir, err := filepath.EvalSymlinks(filepath.Dir(path)); err == nil {
		return filepath.Join(dir, filepath.Base(path))
	}
	return path
}
