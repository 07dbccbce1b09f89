package conf

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// own is the path of the file for what Fragment writes, "" if slurm.conf includes none: the one that Fragment wrote, or
// that has the name of it.
func (f Files) own() string {
	if i := slices.IndexFunc(f.texts, func(t text) bool { return t.path != f.Path && written(t.text) }); i >= 0 {
		return f.texts[i].path
	}
	usual := filepath.Join(filepath.Dir(f.Path), fragmentName)
	info, err := os.Stat(usual)
	for _, t := range f.texts {
		if t.path == usual {
			return t.path
		}
		if other, e := os.Stat(t.path); err == nil && e == nil && os.SameFile(info, other) && t.path != f.Path {
			return t.path
		}
	}
	return ""
}

// written says that Fragment wrote the text: no more than comments of others are above its head.
func written(content string) bool {
	for line := range strings.Lines(content) {
		switch {
		case strings.HasPrefix(line, head):
			return true
		case strings.TrimSpace(uncomment(line)) != "":
			return false
		}
	}
	return false
}

// wrote says that Fragment wrote the file at path.
func (f Files) wrote(path string) bool {
	return slices.ContainsFunc(f.texts, func(t text) bool { return t.path == path && written(t.text) })
}

// Outside is the site as it is without the file that Fragment wrote: what Fragment merges with, so that what the site
// changes in files of its own comes in. Of a setting that no other file has, the value is that file's: it may have
// been edited there. A limit for prologs is not: Fragment writes none where the site has none, and once did.
func (f Files) Outside() Site {
	own := f.own()
	if own == "" {
		return f.Site
	}
	r := reader{site: Site{Settings: map[string]string{}, Lines: true, Release: f.Release, Unserved: f.Unserved, network: f.network}}
	for _, s := range f.said {
		if s.path != own && s.include == "" {
			r.line(s.kvs)
		}
	}
	if _, known := r.site.Settings[strings.ToLower(prologKey)]; !known {
		r.site.Prologs = f.Prologs
	}
	inside := maps.Clone(f.Settings)
	if f.wrote(own) {
		for _, key := range []string{timeoutKey, ownTimeoutKey} {
			delete(inside, strings.ToLower(key))
		}
	}
	maps.Copy(inside, r.site.Settings)
	r.site.Settings, r.site.NodeDefault, r.site.PartitionDefault = inside, r.nodeDef, r.partition
	return r.site
}

// ChainScript is the package's ChainScript of what the site has outside the file that Fragment wrote. Where only the script
// itself is named there, it calls what the script calls that is in place, or that Fragment wrote of; "" if neither says.
func (f Files) ChainScript(in Input, inPlace string) string {
	site := f.Outside()
	if script := ChainScript(site, in); script != "" || !Chained(site, in.Programs) {
		return script
	}
	program := ChainCalls(inPlace)
	for _, t := range f.texts {
		if program == "" && t.path == f.own() {
			program = ChainCalls(t.text)
		}
	}
	if program == "" {
		return ""
	}
	return chainScript(program, in)
}
