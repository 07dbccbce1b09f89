package config

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/BurntSushi/toml"

	"github.com/burst-hpc/burst/cloud/bootstrap"
	"github.com/burst-hpc/burst/cloud/fleet"
	"github.com/burst-hpc/burst/slurm/directive"
	"github.com/burst-hpc/burst/slurm/overflow"
)

// Overflow is what [[overflow]] and [onprem] say.
type Overflow struct {
	Rules  []overflow.Rule // in the order of the file
	OnPrem overflow.OnPrem
	// Shared is what the nodes of each partition of clouds have of the site's folders, by their pools' sources.
	Shared map[string][]overflow.Shared
}

// SpotPartitions are the partitions with pools that may buy on a spot market, whose nodes a cloud takes back.
func (c *Config) SpotPartitions() map[string]bool {
	all := map[string]bool{}
	for _, p := range c.Pools {
		for _, s := range p.Sources() {
			if m := s.Power.Fleet.Market; m == fleet.SpotOnly || m == fleet.SpotThenOnDemand {
				all[p.Slurm.Partition] = true
			}
		}
	}
	return all
}

// Nowhere are the pools of which no folder is known that their nodes have, and to which the rule would move: a job of which Slurm
// knows a folder stays.
func (o Overflow) Nowhere(r overflow.Rule) (pools []string) {
	for _, to := range r.To {
		for _, s := range o.Shared[to] {
			if len(s.Folders) == 0 && !slices.Contains(pools, s.Pool) {
				pools = append(pools, s.Pool)
			}
		}
	}
	return pools
}

// longestWait is more than any rule waits for.
const longestWait = 365 * 24 * time.Hour

// overflows reads [[overflow]] and [onprem]; the pools are read already.
func (f *file) overflows(top *section, c *Config) Overflow {
	o := Overflow{OnPrem: onPrem(top.sub("onprem")), Shared: c.shared()}
	known := map[string]toml.Key{}
	for i, s := range top.list("overflow") {
		r := rule(s, i+1)
		if at, twice := known[r.Name]; twice && r.Name != "" {
			s.failAt("name", "%q is the name of %s too: each rule needs its own", r.Name, at)
		}
		known[r.Name] = s.at
		for _, to := range r.To {
			if !slices.ContainsFunc(c.Pools, func(p Pool) bool { return p.Slurm.Partition == to && !p.Slurm.Server }) {
				s.failAt("to", "%q is the partition of no pool: name those of pools here", to)
			}
			if slices.Contains(r.From, to) {
				s.failAt("to", "%q is in from, too: a rule is from partitions of the site to partitions of clouds", to)
			}
		}
		s.done()
		o.Rules = append(o.Rules, r)
	}
	return o
}

// list are the tables of an array, [[key]].
func (s *section) list(key string) (all []*section) {
	switch v := s.value(key).(type) {
	case nil:
	case []map[string]any:
		for i, table := range v {
			all = append(all, &section{file: s.file, at: toml.Key{key, strconv.Itoa(i + 1)}, table: table})
		}
	default:
		s.failAt(key, "is %s: write sections, each as in [[%s]]", kind(v), key)
	}
	return all
}

func onPrem(s *section) overflow.OnPrem {
	o := overflow.OnPrem{FileSystems: s.texts("file_systems"), Licenses: s.texts("licenses"), Features: s.texts("features")}
	for i, fs := range o.FileSystems {
		if !filepath.IsAbs(fs) || filepath.Clean(fs) == "/" {
			s.failAt("file_systems", "%q is no path such as \"/scratch\"", fs)
		}
		o.FileSystems[i] = filepath.Clean(fs)
	}
	s.done()
	return o
}

// folders are those that a source's nodes have of the site's: what they mount, and what the site says that its image has.
func folders(s *section, mounts []bootstrap.Mount) []string {
	all := []string{}
	for _, m := range mounts {
		all = append(all, filepath.Clean(cmp.Or(m.Target, "/cvmfs/"+m.Source)))
	}
	for _, fs := range s.texts("file_systems") {
		if !filepath.IsAbs(fs) {
			s.failAt("file_systems", "%q is no path such as \"/home\"", fs)
		}
		all = append(all, filepath.Clean(fs))
	}
	return all
}

// shared are the partitions that have nodes elsewhere than on this host, with what these have.
func (c *Config) shared() map[string][]overflow.Shared {
	var all map[string][]overflow.Shared
	for _, p := range c.Pools {
		if p.Slurm.Server {
			continue
		}
		for _, folders := range p.SharedFolders() {
			if all == nil {
				all = map[string][]overflow.Shared{}
			}
			all[p.Slurm.Partition] = append(all[p.Slurm.Partition], overflow.Shared{Pool: p.Power.Name, Folders: folders})
		}
	}
	return all
}

// SharedFolders are the Folders of each source that is not this host; none: all nodes have what this host has.
func (p Pool) SharedFolders() (all [][]string) {
	for _, s := range p.Sources() {
		if s.Folders != nil {
			all = append(all, s.Folders)
		}
	}
	return all
}

func rule(s *section, number int) overflow.Rule {
	r := overflow.Rule{
		Name: s.text("name", fmt.Sprint("rule-", number)), From: s.texts("from"), To: s.texts("to"),
		Accounts: lower(s.names("accounts")), Users: s.names("users"), QOS: lower(s.names("qos")),
		Features: s.names("features"), Gres: s.names("gres"), Licenses: s.names("licenses"), Directives: s.texts("directives"),
		After: s.wait("after"), StartsLater: s.wait("starts_later"), MaxTime: s.wait("time_limit"),
		AtOnce: s.number("at_once", "", "20"), Line: s.lines[s.at.String()],
		NoRequeue: s.choice("requeue", "needed", "any") == "any",
	}
	if !names().MatchString(r.Name) {
		s.failAt("name", "%q is no name: %s", r.Name, namesRule)
	}
	for _, of := range []struct {
		key, example string
		list         []string
	}{{"from", `["main"]`, r.From}, {"to", `["cloud"]`, r.To}} {
		if len(of.list) == 0 {
			s.failAt(of.key, "is missing: add it, as in %s = %s", of.key, of.example)
		}
		for _, p := range of.list {
			if !names().MatchString(p) {
				s.failAt(of.key, "%q is no partition's name: %s", p, namesRule)
			}
		}
	}
	nodeRange(s, &r)
	for _, d := range r.Directives {
		key, value, _ := strings.Cut(d, "=")
		if err := directive.Check(key, value); err != nil {
			s.failAt("directives", "%q is no key=value of a #BURST line: %v", d, err)
		}
	}
	if why := r.Empty(); why != "" {
		s.fail(s.at, "is about no job: %s", why)
	}
	return r
}

// names is a list of names, each of which may stand after a "!".
func (s *section) names(key string) []string {
	list := s.texts(key)
	for _, name := range list {
		if n := strings.TrimPrefix(name, "!"); n == "" || strings.ContainsAny(n, "! ,\t\n") {
			s.failAt(key, "%q is no name: write \"name\", or \"!name\" to leave it out", name)
		}
	}
	return list
}

// lower has names as Slurm writes those of accounts and QOS, whatever their users write.
func lower(names []string) []string {
	for i, name := range names {
		names[i] = strings.ToLower(name)
	}
	return names
}

// wait is a time above 0; 0 if it is not there.
func (s *section) wait(key string) time.Duration {
	return s.span(key, longestWait)
}

// nodeRange reads "4", "1-4", "2-" and "-4".
func nodeRange(s *section, r *overflow.Rule) {
	text := s.text("nodes", "")
	if text == "" {
		return
	}
	first, last, isRange := strings.Cut(text, "-")
	bound := func(v string) (n int, ok bool) {
		if v == "" {
			return 0, isRange && text != "-"
		}
		n, err := strconv.Atoi(v)
		return n, err == nil && n > 0 && n < 1<<30
	}
	least, ok := bound(first)
	most := least
	if isRange && ok {
		most, ok = bound(last)
	}
	switch {
	case !ok:
		s.failAt("nodes", "%q is no range of nodes: write \"4\", \"1-4\", \"2-\" or \"-4\"", text)
	case most > 0 && least > most:
		s.failAt("nodes", "%q is an empty range: the rule would be about no job", text)
	default:
		r.MinNodes, r.MaxNodes = least, most
	}
}
